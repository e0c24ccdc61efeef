"""A program without a fault: a tree reduction with a guarded load."""

import numpy as np

import magpie as mp


@mp.kernel
def sums(x, out):
    t = mp.thread_id(0)
    i = mp.global_id(0)
    s = mp.shared(64, mp.i32)
    s[t] = x[i] if i < x.shape[0] else 0
    mp.barrier()
    k = 32
    while k > 0:
        if t < k:
            s[t] += s[t + k]
        mp.barrier()
        k //= 2
    if t == 0:
        out[mp.workgroup_id(0)] = s[0]


def main():
    x, out = np.arange(100, dtype=np.int32), np.zeros(2, np.int32)
    sums[2, 64](x, out)
    assert out.sum() == x.sum()


if __name__ == "__main__":
    main()
