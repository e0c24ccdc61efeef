"""A program with a fault: neighbours are read before they are written."""

import numpy as np

import magpie as mp


@mp.kernel
def swap(x, out):
    t = mp.thread_id(0)
    s = mp.shared(64, mp.f32)
    s[t] = x[mp.global_id(0)]
    out[mp.global_id(0)] = s[t ^ 1]  # FAULT: MPG_SAN_1002


def main():
    x = np.arange(128, dtype=np.float32)
    out = np.zeros_like(x)
    swap[2, 64](x, out)
    print("done")


if __name__ == "__main__":
    main()
