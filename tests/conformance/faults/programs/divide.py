"""A program with a fault: a count of zero divides."""

import numpy as np

import magpie as mp


@mp.kernel
def means(total, count, mean):
    i = mp.global_id(0)
    if i < mean.shape[0]:
        mean[i] = total[i] // count[i]  # FAULT: MPG_SAN_1008


def main():
    total, count = np.arange(50, dtype=np.int32), np.arange(50, dtype=np.int32)
    means[1, 64](total, count, np.zeros(50, np.int32))


if __name__ == "__main__":
    main()
