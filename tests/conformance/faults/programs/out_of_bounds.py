"""A program with a fault: the last group is not guarded."""

import numpy as np

import magpie as mp


@mp.kernel
def double(x):
    i = mp.global_id(0)
    x[i] = x[i] * 2  # FAULT: MPG_SAN_1003


def main():
    x = np.arange(100, dtype=np.int32)
    double[2, 64](x)


if __name__ == "__main__":
    main()
