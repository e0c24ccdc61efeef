"""A program with a fault: the guard of the load leaves elements unset."""

import numpy as np

import magpie as mp


@mp.kernel
def sums(x, out):
    t = mp.thread_id(0)
    i = mp.global_id(0)
    s = mp.shared(64, mp.i32)
    if i < x.shape[0]:
        s[t] = x[i]
    mp.barrier()
    total = 0
    for k in range(64):
        total += s[k]  # FAULT: MPG_SAN_1005
    if t == 0:
        out[mp.workgroup_id(0)] = total


def main():
    sums[2, 64](np.arange(100, dtype=np.int32), np.zeros(2, np.int32))


if __name__ == "__main__":
    main()
