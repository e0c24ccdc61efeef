"""MPG_PY: what the Python frontend refuses or warns about, each with what to write instead."""

from __future__ import annotations

from magpie.diagnostics.table import ERROR, WARNING
from magpie.diagnostics.table import define as _d

_d("MPG_PY_1001", ERROR, "Python construct that a kernel cannot hold", """
    A kernel is a typed, heap-free part of Python: numbers, arrays, structs, if, for ... in range, while, and calls of
    @mp.func functions. Lists, dicts, strings, classes, try, with, yield, lambda, comprehensions, *args, del, global,
    import and print are not; the message names the one at hand and what to write instead.

    cure: Write what the message says instead; do on the host what a kernel cannot hold.

    wrong:  total = sum(x[j] for j in range(n))
    right:  total = 0.0
            for j in range(n):
                total += x[j]
    """)
_d("MPG_PY_1002", ERROR, "Unknown name", """
    The name is neither a variable or parameter of the kernel, nor a number, tuple of numbers, dtype, function or module
    that the kernel can see from where it is written.

    cure: Define the name before the kernel, or pass it as an argument.

    wrong:  y[i] = alpha * x[i]                # alpha is defined nowhere
    right:  def scale(alpha: mp.f32, x: mp.Array[mp.f32], y: mp.Array[mp.f32]): ...
    """)
_d("MPG_PY_1003", ERROR, "Variable not assigned on all paths", """
    The variable is read at a place that can be reached without an assignment.

    cure: Give it a value first.

    wrong:  if i < n:
                v = x[i]
            s[t] = v                           # what is v when i >= n?
    right:  v = mp.f32(0)
            if i < n:
                v = x[i]
            s[t] = v
    """)
_d("MPG_PY_1004", ERROR, "One variable, two types", """
    A variable has one type in the whole kernel. Literals adapt to the type that they meet; two types that were both
    declared do not.

    cure: Cast at one of the places shown, or use two names.

    wrong:  v = x[i]                           # f32
            v = d[i]                           # f64
    right:  v = mp.f64(x[i])
            v = d[i]
    """)
_d("MPG_PY_1005", ERROR, "Arithmetic mixes signed and unsigned", """
    A signed and an unsigned integer of one width have no common type that holds both, so say which one is meant.
    Comparisons of the two are right as they are.

    cure: Cast one of the two to the type that is meant.

    wrong:  s + u                              # i32 + u32
    right:  s + mp.i32(u)                      # or mp.u32(s) + u, or mp.i64 for both
    """)
_d("MPG_PY_1006", ERROR, "Arithmetic mixes f16 and bf16", """
    Neither of the two 16-bit floats holds the values of the other.

    cure: Choose one, or compute in f32.

    wrong:  h * b                              # f16 * bf16
    right:  mp.f32(h) * mp.f32(b)
    """)
_d("MPG_PY_1007", ERROR, "Index is not an integer", """
    An index, a range bound, a shift count or a size is an integer. In Python / gives a float.

    cure: Divide with //, or cast to an integer.

    wrong:  x[i / 2]
    right:  x[i // 2]                          # or x[int(f)] for a float f
    """)
_d("MPG_PY_1008", ERROR, "Conversion needs a cast", """
    A store may make a float or an integer narrower, an integer into a float and a bool into an integer. Every other
    conversion that loses something must be written: above all a float into an integer.

    cure: Write the cast.

    wrong:  counts[i] = weight * 2.5           # an i32 array
    right:  counts[i] = mp.i32(weight * 2.5)   # toward zero; saturates, NaN gives 0
    """)
_d("MPG_PY_1009", ERROR, "Literal out of range", """
    A literal takes the type that it meets, and that type cannot hold it.

    cure: Use a literal that the type holds, or give the value a wider type.

    wrong:  pixel[i] = 256                     # a u8 array
    right:  pixel[i] = 255

    wrong:  u + -1                             # u is u32
    right:  u - 1
    """)
_d("MPG_PY_1010", ERROR, "Negative literal index", """
    In a kernel a negative index is out of bounds; it does not count from the end.

    cure: Count from the end with the extent of the array.

    wrong:  last = x[-1]
    right:  last = x[x.shape[0] - 1]
    """)
_d("MPG_PY_1011", ERROR, "Wrong number of indices", """
    An array is indexed with one integer per dimension. Fewer give a view of a row, which can be indexed further or
    passed on, but is not a number. A dimension of .shape or .strides is a literal below the rank.

    cure: Give one index for each dimension.

    wrong:  v = image[i] + 1                   # image has 2 dimensions
    right:  v = image[i, j] + 1
    """)
_d("MPG_PY_1012", ERROR, "Wrong arguments of a call", """
    The function or builtin takes other arguments: too many, too few, a keyword that it does not have, or one that must
    be a literal. The message shows its signature.

    cure: Call it as the signature says, which the message shows.

    wrong:  mp.atomic_add(hist, 1)
    right:  mp.atomic_add(hist, bin, 1)        # array, index, value
    """)
_d("MPG_PY_1013", ERROR, "Compile-time value needed", """
    An mp.constexpr parameter, a dimension, the length of a local array and the bounds of mp.static_range must be known
    when the kernel is compiled: a literal, a constant outside the kernel, or another constexpr.

    cure: Write a literal or a constant, or make the parameter an mp.constexpr.

    wrong:  def k(x: mp.Array[mp.f32], n: mp.i32):
                acc = mp.local(n, mp.f32)
    right:  def k(x: mp.Array[mp.f32], n: mp.constexpr):
                acc = mp.local(n, mp.f32)
    """)
_d("MPG_PY_1014", ERROR, "Unknown field or attribute", """
    The struct has no such field, or the value no such attribute. The message lists those that exist. Arrays have
    .shape, .strides, .ndim, .size and .dtype; numbers have .astype(dtype).

    cure: Use one of those that the message lists.

    wrong:  p.velocity                         # fields: pos, vel
    right:  p.vel
    """)
_d("MPG_PY_1015", ERROR, "One name for different arrays", """
    A name stands for one array: which one may not depend on a branch or on the trip of a loop.

    cure: Use one array with one more dimension, or load from both and select the value.

    wrong:  src = a if odd else b
            v = src[i]
    right:  v = a[i] if odd else b[i]          # or ab[k, i], with ab of shape (2, n)
    """)
_d("MPG_PY_1016", ERROR, "Step of range is 0", """
    A loop with step 0 would never end; Python refuses it too.

    cure: Write the step that is meant; where it may be 0 at run time, test it before the loop.

    wrong:  for i in range(0, n, 0):
    right:  for i in range(0, n, 1):
    """)
_d("MPG_PY_1017", ERROR, "Source of the function not available", """
    Magpie compiles a kernel from its source text, and Python cannot find it: the function was made by exec or eval, is
    a lambda or a builtin, or its file is gone.

    cure: Write the kernel with `def` in a file, a notebook or at the prompt of Python 3.13 or IPython.

    wrong:  exec("@mp.kernel\\ndef k(x): x[0] = 1.0")
    right:  the same text in a module that is imported
    """)
_d("MPG_PY_1018", ERROR, "Operation not defined for these types", """
    The operator or function does not take operands of these types: bit operations and shifts take integers, `not` and
    conditions take numbers, arithmetic does not take arrays, structs or None.

    cure: Cast the operands to types that the operator takes.

    wrong:  x + y                              # two arrays
    right:  x[i] + y[i]

    wrong:  f << 2                             # f is a float
    right:  f * 4.0
    """)
_d("MPG_PY_1019", ERROR, "Cannot assign to this", """
    Only local variables, elements of arrays and fields of local structs can be assigned. Shapes, names from outside the
    kernel, constexpr parameters and functions cannot.

    cure: Assign to a new local variable, or store into an element of an array.

    wrong:  x.shape[0] = 5
    right:  n = x.shape[0]
            n = 5
    """)
_d("MPG_PY_1020", ERROR, "Invalid array declaration", """
    mp.shared(shape, dtype) takes an integer or a tuple of 1 to 4 integers that are known when the kernel is compiled,
    or one length that the host can compute at launch from arguments, shapes and launch sizes. mp.local takes a shape
    that is known when the kernel is compiled. Both stand outside of loops.

    cure: Declare the array at the beginning of the kernel, with a shape that is known.

    wrong:  s = mp.shared(x[0], mp.f32)        # a value that only the device knows
    right:  s = mp.shared(n, mp.f32)           # n is a scalar argument
    """)
_d("MPG_PY_1021", ERROR, "Dimension out of range", """
    The dimension of mp.thread_id, workgroup_id, workgroup_size, num_workgroups and global_id is a literal 0, 1 or 2: x,
    y or z. x is the fastest.

    cure: Write the dimension as a number: one call for each.

    wrong:  mp.global_id(3)
    right:  mp.global_id(2)
    """)
_d("MPG_PY_1022", ERROR, "Annotation not understood", """
    A parameter is annotated with a dtype (mp.f32), an array (mp.Array[mp.f32] or mp.Array[mp.f32, 2]), a struct,
    mp.constexpr, or not at all: then the kernel is specialised on what it is called with.

    cure: Annotate the parameter with one of these, or take the annotation out.

    wrong:  def k(x: list[float], n: "a count"):
    right:  def k(x: mp.Array[mp.f32], n: mp.i32):
    """)
_d("MPG_PY_1023", ERROR, "Captured value cannot be used in a kernel", """
    From outside, a kernel can use numbers, tuples of numbers, dtypes, structs and functions. Arrays and other objects
    are passed as arguments: a captured array would be frozen into the compiled code.

    cure: Pass it as an argument.

    wrong:  table = np.arange(16)              # used inside the kernel by its name
    right:  def k(x: mp.Array[mp.f32], table: mp.Array[mp.f32]): ...
    """)
_d("MPG_PY_1024", ERROR, "Return value where none is possible", """
    A kernel returns nothing: write results into an array. A device function returns values of the same types at every
    return, and at its end too if it returns any.

    cure: Store the result in an array that is a parameter; let a device function return the same types everywhere.

    wrong:  @mp.kernel
            def k(x: mp.Array[mp.f32]):
                return x[0]
    right:  def k(x: mp.Array[mp.f32], out: mp.Array[mp.f32]):
                out[0] = x[0]
    """)
_d("MPG_PY_1025", ERROR, "Statically unrolled loop is too long", """
    mp.static_range writes the body once per trip; beyond 4096 trips the kernel would be too large to compile.

    cure: Use range, or unroll an inner part only.

    wrong:  for k in mp.static_range(100000):
    right:  for k in range(100000):
    """)
_d("MPG_PY_1026", ERROR, "Function is not a device function", """
    A kernel calls builtins of mp, functions of math, and functions marked @mp.func. Plain Python functions must be
    marked, functions of NumPy and other libraries have no code for a device.

    cure: Mark the function with @mp.func, or use the one of mp or of mp.lib.

    wrong:  y[i] = np.sin(x[i])
    right:  y[i] = mp.sin(x[i])                # or math.sin

    wrong:  def square(v): return v * v
    right:  @mp.func
            def square(v): return v * v
    """)
_d("MPG_PY_1027", ERROR, "Only inside a kernel", """
    The name has a meaning only in code that Magpie compiles. On the host it cannot be called; a kernel is started with
    kernel[grid, block](...), and a device function is called from a kernel.

    cure: Put it in a kernel or a device function.

    wrong:  i = mp.global_id(0)                # at the top of a program
    right:  @mp.kernel
            def k(...):
                i = mp.global_id(0)
    """)
_d("MPG_PY_1028", WARNING, "Assigning the loop variable does not steer the loop", """
    The trips of `for ... in range` are fixed before the first one, as in Python: assigning the variable in the body
    changes it until the next trip only.

    cure: Use while to skip ahead.

    warns:  for i in range(n):
                i += 2
    right:  for i in range(0, n, 3): ...
    """)
_d("MPG_PY_1029", ERROR, "Struct declaration not understood", """
    An @mp.struct class has annotated fields: dtypes and other structs. Methods, defaults that are not numbers, base
    classes, arrays and a struct inside itself are not possible.

    cure: Annotate each field with a dtype or a struct, and make methods device functions.

    wrong:  @mp.struct
            class P:
                pos: list
    right:  @mp.struct
            class P:
                x: mp.f32
                y: mp.f32
    """)
_d("MPG_PY_1030", ERROR, "Wrong number of values in an assignment", """
    The left side names another number of variables than the right side has values.

    cure: Name as many variables as there are values.

    wrong:  q, r, s = divmod2(a, b)            # returns two values
    right:  q, r = divmod2(a, b)
    """)
_d("MPG_PY_1031", ERROR, "break or continue out of a statically unrolled loop", """
    mp.static_range has no loop at run time that could be left on a condition.

    cure: Guard the rest of the body, or use range.

    wrong:  for k in mp.static_range(4):
                if x[k] < 0.0: break
    right:  for k in range(4):
                if x[k] < 0.0: break
    """)
_d("MPG_PY_1032", WARNING, "Value is never used", """
    The statement computes a value and drops it, so it has no effect. Perhaps an assignment or a call was meant.

    cure: Assign the value, call the function that was meant, or take the statement out.

    warns:  x[i] == 0.0
    right:  x[i] = 0.0
    """)
_d("MPG_PY_1033", ERROR, "Constant index out of bounds", """
    The array has a constant shape, and the index is a constant beyond it.

    cure: Use an index below the extent, or make the array larger.

    wrong:  s = mp.shared(256, mp.f32)
            s[256] = 0.0
    right:  s[255] = 0.0
    """)
_d("MPG_PY_1034", ERROR, "Mathematical function that is not there yet", """
    The math library will have this function, and has not yet: erfc, the gamma functions, the inverse hyperbolic ones.
    docs/MATH.md lists the functions that there are, with their errors.

    cure: Write what the help of the message shows until then.

    wrong:  y[i] = mp.atanh(x[i])
    right:  y[i] = 0.5 * (mp.log1p(x[i]) - mp.log1p(-x[i]))
    """)
_d("MPG_PY_1035", ERROR, "Matrix tiles that do not fit", """
    A tile has two extents, constants and multiples of 16. The operands of a product have one element type, f16, bf16,
    f32, f64, i8 or u8, and the accumulator has f32, f32, f32, f64, i32 or i32. load_a gives a left operand of M rows
    and K columns, load_b a right one of K rows and N columns, and the accumulator has M rows and N columns.

    cure: Choose extents and types of this table; convert the operands when they are loaded.

    wrong:  acc = mp.mma.zeros((32, 32), mp.f32)
            mp.mma(acc, mp.mma.load_a(x, (0, 0), (32, 16)), mp.mma.load_b(y, (0, 0), (32, 32)))
    right:  mp.mma(acc, mp.mma.load_a(x, (0, 0), (32, 16)), mp.mma.load_b(y, (0, 0), (16, 32)))
    """)
