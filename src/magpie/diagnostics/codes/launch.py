"""MPG_LAUNCH: arguments and sizes that a launch refuses before anything runs."""

from __future__ import annotations

from magpie.diagnostics.table import ERROR
from magpie.diagnostics.table import define as _d

_d(
    "MPG_LAUNCH_1001",
    ERROR,
    "Wrong number of arguments",
    """
    The launch passes another number of arguments than the kernel has parameters, or a keyword that it does not have.
    The message shows the kernel's signature.

    cure: Pass one argument for each parameter: the message shows the kernel's signature.

    wrong:  saxpy[grid, 256](x, y)
    right:  saxpy[grid, 256](2.0, x, y)
    """,
)
_d(
    "MPG_LAUNCH_1002",
    ERROR,
    "Wrong type of an argument",
    """
    An argument is no array where the kernel takes one, an array where it takes a number, or an object that is neither.
    Arrays may be NumPy, mp, torch, CuPy or JAX arrays, or anything with DLPack or an array interface.

    cure: Pass an array where the kernel indexes, and a number where it computes.

    wrong:  saxpy[grid, 256](2.0, [1, 2, 3], y)
    right:  saxpy[grid, 256](2.0, np.array([1, 2, 3], np.float32), y)
    """,
)
_d(
    "MPG_LAUNCH_1003",
    ERROR,
    "Wrong dtype of an array",
    """
    The kernel declares another element type than the array has. NumPy's own default is float64.

    cure: Convert the array, or leave the annotation out: then the kernel is specialised on what it gets.

    wrong:  saxpy[grid, 256](2.0, np.ones(n), y)               # declared mp.Array[mp.f32]
    right:  saxpy[grid, 256](2.0, np.ones(n, np.float32), y)
    """,
)
_d(
    "MPG_LAUNCH_1004",
    ERROR,
    "Wrong rank of an array",
    """
    The kernel declares, or indexes with, another number of dimensions than the array has.

    cure: Reshape the array, or declare the rank that it has.

    wrong:  blur[grid, block](image.ravel(), out)              # declared mp.Array[mp.f32, 2]
    right:  blur[grid, block](image, out)
    """,
)
_d(
    "MPG_LAUNCH_1005",
    ERROR,
    "Read-only array is written",
    """
    The kernel writes to this parameter, and the array is read-only. Nothing was run.

    cure: Pass a copy.

    wrong:  fill[grid, 256](np.broadcast_to(0.0, n))
    right:  fill[grid, 256](np.zeros(n))
    """,
)
_d(
    "MPG_LAUNCH_1006",
    ERROR,
    "Invalid grid or workgroup size",
    """
    A grid is 1 to 3 whole numbers, none negative (a zero is allowed and does nothing); a workgroup is 1 to 3 whole
    numbers, each at least 1. The grid counts workgroups, not work-items.

    cure: Write the grid as the number of workgroups: mp.cdiv(n, block).

    wrong:  k[-1, 256](x)
    right:  k[mp.cdiv(n, 256), 256](x)
    """,
)
_d(
    "MPG_LAUNCH_1007",
    ERROR,
    "Workgroup over the device's limit",
    """
    The workgroup has more work-items than the device allows, in one dimension or in product. `magpie devices` shows the
    limits.

    cure: Use a smaller workgroup and more of them.

    wrong:  k[grid, (64, 64)](x)                               # 4096, and the device has 1024
    right:  k[grid, (32, 32)](x)
    """,
)
_d(
    "MPG_LAUNCH_1008",
    ERROR,
    "Array is on another device",
    """
    The launch runs on one device and the array lives on another, where the first cannot reach it.

    cure: Copy it, or launch on its device.

    wrong:  k.launch(grid=g, block=256, args=(x_on_cuda1,), device="cuda:0")
    right:  k.launch(grid=g, block=256, args=(x_on_cuda1,), device="cuda:1")
    """,
)
_d(
    "MPG_LAUNCH_1009",
    ERROR,
    "Array with foreign byte order",
    """
    The array's numbers have the other byte order than this machine.

    cure: Convert them once, outside the loop.

    wrong:  x = np.frombuffer(data, ">f4")
    right:  x = np.frombuffer(data, ">f4").astype("=f4")
    """,
)
_d(
    "MPG_LAUNCH_1010",
    ERROR,
    "Out of memory",
    """
    The device or the host has not enough free memory for an array, a copy of it, or the kernel's own storage. Nothing
    was run, and every array is as it was.

    cure: Free arrays, or work in pieces.

    wrong:  x = mp.zeros(1 << 40, mp.f32)
    right:  for part in parts: kernel[grid](part)
    """,
)
_d(
    "MPG_LAUNCH_1011",
    ERROR,
    "shared_bytes is too small",
    """
    The kernel's dynamic shared arrays need more bytes than shared_bytes gives. It may be left out: the host computes
    the lengths itself, and the argument is only checked.

    cure: Leave shared_bytes out.

    wrong:  k.launch(grid=g, block=256, args=(x, 256), shared_bytes=512)    # 256 f32 are 1024 bytes
    right:  k.launch(grid=g, block=256, args=(x, 256))
    """,
)
_d(
    "MPG_LAUNCH_1012",
    ERROR,
    "Shared memory over the device's limit",
    """
    The shared arrays of one workgroup, static and dynamic together, are larger than the device's. `magpie devices`
    shows the limits.

    cure: Use a smaller tile.

    wrong:  tile = mp.shared((512, 512), mp.f32)       # 1 MB
    right:  tile = mp.shared((32, 32), mp.f32)
    """,
)
_d(
    "MPG_LAUNCH_1013",
    ERROR,
    "Workgroup size differs from the declared one",
    """
    The kernel is declared with @mp.kernel(workgroup=...), and compiled for that size only.

    cure: Leave the block out of the launch, or the size out of the declaration.

    wrong:  @mp.kernel(workgroup=(16, 16)) ... k[grid, (8, 8)](x)
    right:  k[grid](x)
    """,
)
_d(
    "MPG_LAUNCH_1014",
    ERROR,
    "Scalar out of range",
    """
    A Python number does not fit the type that the parameter declares.

    cure: Pass a number that the type holds, or declare a wider one.

    wrong:  k[grid, 256](x, -1)                                # declared mp.u32
    right:  k[grid, 256](x, 0xFFFFFFFF)
    """,
)
_d(
    "MPG_LAUNCH_1015",
    ERROR,
    "Array was freed",
    """
    The mp array was freed before the launch, or its device is closed.

    cure: Keep a reference until the work is done.

    wrong:  x = mp.zeros(n, mp.f32); x.free(); k[grid, 256](x)
    right:  x = mp.zeros(n, mp.f32); k[grid, 256](x); x.free()
    """,
)
_d(
    "MPG_LAUNCH_1016",
    ERROR,
    "Unknown device",
    """
    There is no device of this name here. `magpie devices` lists them; a name is backend:index, and the index may be
    left out.

    cure: Use a name of the list that `magpie devices` prints.

    wrong:  device="gpu0"
    right:  device="cuda:0"                                    # or "cpu"
    """,
)
_d(
    "MPG_LAUNCH_1017",
    ERROR,
    "Unsupported element type",
    """
    The array's elements are of a type that kernels do not have: complex, strings, objects, dates, 80-bit floats.

    cure: Convert the elements, or split them into arrays of numbers.

    wrong:  z = np.zeros(n, np.complex64)
    right:  z.view(np.float32).reshape(n, 2)                   # real and imaginary part
    """,
)
_d(
    "MPG_LAUNCH_1018",
    ERROR,
    "Array layout not supported",
    """
    The array's strides are no multiple of its element size, or its rank is above 4, so elements cannot be addressed.

    cure: Make a copy with np.ascontiguousarray(x), or lower the rank with np.reshape.

    wrong:  kernel[grid](record_array["x"])              # fields of 4 bytes in records of 7
    right:  kernel[grid](np.ascontiguousarray(record_array["x"]))
    """,
)
_d(
    "MPG_LAUNCH_1019",
    ERROR,
    "Argument value cannot be a compile-time constant",
    """
    An mp.constexpr argument is part of the key under which the compiled kernel is kept, so it must be a number, a bool,
    a string, a dtype, a function, or a tuple of these.

    cure: Pass one of these, or take the mp.constexpr from the parameter.

    wrong:  k[grid, 256](x, np.array([1, 2]))                  # declared mp.constexpr
    right:  k[grid, 256](x, (1, 2))
    """,
)
_d(
    "MPG_LAUNCH_1021",
    ERROR,
    "Subgroup size that the device does not have",
    """
    A GPU has subgroups of one size, or of a few. The cpu and the interpreter emulate 4, 8, 16, 32 and 64, whatever the
    processor's vectors hold; there a gang is a subgroup, so that gang= cannot say something else.

    cure: Ask for a size that the device has (`Device.subgroup_sizes`), or for none.

    wrong:  k.launch(grid=g, block=256, args=(x,), device="cpu", subgroup_size=12)
    right:  k.launch(grid=g, block=256, args=(x,), device="cpu", subgroup_size=32)
    """,
)
_d(
    "MPG_LAUNCH_1022",
    ERROR,
    "Cannot be part of a graph",
    """
    A graph has launches on mp arrays of its device, copies between them and fills; it runs later, perhaps many times.
    What needs the host in between is no part of it: NumPy arrays as arguments, reading an array, waiting, events,
    kernels that print, assert or are checked. Memory is made before, so that it is still there when the graph runs.

    cure: Make arrays on the device before the graph, and read them after it.

    wrong:  with mp.graph() as g:
                k[grid, 256](np.ones(n), y)
                print(y.to_numpy())
    right:  x = mp.ones(n)
            with mp.graph() as g:
                k[grid, 256](x, y)
            g.launch()
            print(y.to_numpy())
    """,
)
_d(
    "MPG_LAUNCH_1023",
    ERROR,
    "Grid too large for a grid_sync",
    """
    A workgroup that waits for all others keeps its place on the device, so that those which have not begun would never
    begin. A grid that synchronises may therefore have only as many workgroups as run at once; the message has the
    number.

    cure: Launch at most that many workgroups, and let each do several parts in a loop.

    wrong:  k[mp.cdiv(n, 256), 256](x)
    right:  k[264, 256](x)                             # and in the kernel: for i in range(first, n, items of the grid)
    """,
)
