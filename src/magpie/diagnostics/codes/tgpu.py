"""MPG_TGPU: tiny-gpu's assembly (1001 on), its runs (1101), launch documents (1201), and kernels for it (2001)."""

from __future__ import annotations

from magpie.diagnostics.table import ERROR, WARNING
from magpie.diagnostics.table import define as _d

_d("MPG_TGPU_1001", ERROR, "Assembly syntax error", """
    A line of tiny-gpu assembly is a label with a colon, an instruction, or both. Operands stand between commas, and are
    registers (R0, R1, ...), whole numbers or labels; a comment begins with a semicolon. docs/TINYGPU.md lists the
    instructions.

    cure: Write the operands that the instruction takes; docs/TINYGPU.md lists them.

    wrong:  SUB R0, R1, R2
    right:  MUL R2, R2, -1
            ADD R0, R1, R2
    """)
_d("MPG_TGPU_1002", ERROR, "Label that reads as a register", """
    tiny-gpu's own assembler takes every operand that begins with R or r for a register, and a branch to such a label
    fails there.

    cure: Call it something else; generated code has L0, L1, ...

    wrong:  relu_end:
    right:  end_of_relu:
    """)
_d("MPG_TGPU_1003", ERROR, "Unknown or repeated label", """
    A branch names a label that no line defines, or two lines define the same one. Upper and lower case differ.

    cure: Define the label once, with the spelling of the branch.

    wrong:  loop:
            BRLT Loop
    right:  loop:
            BRLT loop
    """)
_d("MPG_TGPU_1004", ERROR, "Number or register out of range", """
    Numbers have 32 bits with a sign: -2147483648 to 2147483647. Registers go from R0 to the one below the number of
    registers of the launch, which is 16 where nothing else is said.

    cure: Use a number and a register that there are, or a launch with more registers.

    wrong:  SET R16, 3000000000
    right:  SET R15, -1294967296
    """)
_d("MPG_TGPU_1101", ERROR, "Access outside of memory", """
    A thread addressed a word that its memory does not have: below 0, or at mem_size and above for LD, ST and CSWAP, or
    at shared_size and above for SHLD and SHST. The message names instruction, block and thread. tiny-gpu itself lets
    shared accesses pass: a load gives 0 and a store is dropped; `silent_shared=True` does that here.

    cure: Compare the address with the size before the access, or give the launch more memory.

    wrong:  SHST R6, R0          ; 8 threads, shared_size 4
    right:  shared_size 8
    """)
_d("MPG_TGPU_1102", ERROR, "Program does not end", """
    The launch ran for as many steps as it was allowed (`max_steps`, a million if nothing is said), and threads still
    run: most often a loop whose counter is never changed, or that is compared with the wrong end.

    cure: Change the counter in the loop, or allow more steps with `max_steps`.

    wrong:  loop: CMP R0, 10
            BRLT loop
    right:  loop: ADD R0, R0, 1
            CMP R0, 10
            BRLT loop
    """)
_d("MPG_TGPU_1103", ERROR, "Barrier that not all threads reach", """
    Every thread that still runs waits, and none can go on: SYNCB waits for all threads of the block and SYNC for all
    threads of the launch, and one of them has ended or waits at the other kind.

    cure: Let every thread come to the same barriers.

    wrong:  BEQ R6, 0, end
            SYNCB
            end:
    right:  SYNCB
            BEQ R6, 0, end
            ...
            end:
    """)
_d("MPG_TGPU_1104", ERROR, "Reserved register changed", """
    R5 holds the block, R6 the thread in its block and R7 the thread of the launch. Programs only read them; a run of a
    launch document ends with this error where one was changed.

    cure: Copy the number to another register, and change that one.

    wrong:  ADD R6, R6, 1
    right:  ADD R0, R6, 1
    """)
_d("MPG_TGPU_1105", ERROR, "Launch too large to simulate", """
    The simulator holds all registers, memory and shared memory at once: 16,777,216 threads (the interpreter 1,048,576),
    and 268,435,456 words of memory and of shared memory. Larger launches are refused before anything is allocated.

    cure: Run a smaller problem, or its parts one after the other.

    wrong:  "grid": [30000, 30000]
    right:  "grid": [300, 300]
    """)
_d("MPG_TGPU_1201", ERROR, "Launch document that is not valid", """
    A launch document is JSON of the form in docs/launch.schema.json, and more: its buffers lie in its memory, its
    inputs and constants do not overlap, its names are those of buffers, and its assembly can be read. The message has
    the path of what is wrong, and the line of the assembly where that is what is wrong.

    cure: Correct what stands at the path of the message; docs/launch.schema.json has the form.

    wrong:  {"format": "tgpu-launch", "version": 1, "mem_size": 4,
             "buffers": {"X": {"addr": 2, "dtype": "i8", "shape": [4], "kind": "input"}}, ...}
    right:  {..., "mem_size": 6, ...}
    """)
_d("MPG_TGPU_1202", ERROR, "Inputs that do not fit a launch document", """
    A launch document is run with one array for each of its inputs, of the shape that it names and with integers that
    its type holds.

    cure: Pass arrays of the shapes and types that the document names.

    wrong:  run_launch(launch, {"X": x.astype(np.float32)})
    right:  run_launch(launch, {"X": x.astype(np.int8)})
    """)
_d("MPG_TGPU_1203", ERROR, "Picture too large", """
    A picture of a launch has a cell for each thread and cycle, a million of them at most, and holds the memory of each
    kernel that it shows, two million words at most.

    cure: Show one kernel of the document, or a launch of fewer threads or shorter loops.

    wrong:  magpie tgpu view large.json -o large.html
    right:  magpie tgpu view large.json -o relu.html --kernel k1_relu
    """)
_d("MPG_TGPU_2001", ERROR, "Operation that tiny-gpu does not have", """
    tiny-gpu adds, multiplies, compares and branches; a difference is a sum with the product by -1, and min, max and abs
    are comparisons. There is no division, remainder, shift to the right, bit operation, float function, atomic or
    subgroup operation. What a launch knows (sizes, strides, scalars) is computed before, whatever it takes.

    cure: Do on the host what the device cannot, or write it with sums, products and comparisons.

    wrong:  y[i] = x[i] // 2
    right:  y[i] = x[i] * 2                           # or divide on the host
            y[i] = x[i] + n // 2                      # n is a scalar of the launch
    """)
_d("MPG_TGPU_2002", ERROR, "Type that tiny-gpu does not have", """
    A register and a word of memory hold an integer of 32 bits. i8, i16, u8, u16, bool, i32 and u32 fit; floats, 64-bit
    integers and structs in arrays do not.

    cure: Use integers of 32 bits or less, and one array for each field.

    wrong:  x: mp.Array[mp.f32]
    right:  x: mp.Array[mp.i32]
    """)
_d("MPG_TGPU_2003", ERROR, "Narrow integer that may overflow", """
    Arithmetic in i8, i16, u8 and u16 wraps at that width, and tiny-gpu has nothing to cut a number to fewer than 32
    bits with. So it must be clear that the result fits: it comes from min and max, or the numbers are small.

    cure: Say that the result fits: take min and max of it before the cast.

    wrong:  y[i] = mp.i8(acc)
    right:  y[i] = mp.i8(min(max(acc, -128), 127))
    """)
_d("MPG_TGPU_2004", ERROR, "Barrier that is not at the top level", """
    On tiny-gpu a barrier stands at the top level of a kernel, so that every thread comes to it: not in an `if`, a loop
    or behind a `break`.

    cure: Move the barrier to the top level, or unroll the loop around it with mp.static_range.

    wrong:  for k in range(3):
                mp.barrier()
    right:  for k in mp.static_range(3):
                mp.barrier()
    """)
_d("MPG_TGPU_2005", WARNING, "Integer of 64 bits compared on tiny-gpu", """
    Loop variables, indices and untyped integers have 64 bits in meaning, and registers have 32. The low bits of sums
    and products are right all the same; a comparison, min, max or abs needs the whole number. Where nothing shows that
    it fits, this warning stands at it. A type ends the doubt: arithmetic in i32 wraps everywhere in the same way.

    cure: Give the value a type of 32 bits.

    warns:  acc = 0
            for k in range(n): acc += x[k]
            if acc > 0: ...
    right:  acc = mp.i32(0)
    """)
_d("MPG_TGPU_2006", ERROR, "Kernel that ends with an if", """
    A branch over the last instructions leads to the end of the program, which costs a cycle in which nothing runs.
    Kernels that are made from tensor graphs never do that, and are refused where they would.

    cure: Let the last instructions run in any case: compute both values, and store the one that is meant.

    wrong:  if x < 0: y[i] = x
    right:  y[i] = min(x, 0)
    """)
_d("MPG_TGPU_2007", ERROR, "Too many values at once", """
    More values are needed at one place than a thread has registers: 256 but R5 to R7. There is no memory of a thread's
    own to put them in.

    cure: Compute some of them later, or again, or unroll less.

    wrong:  parts = [x[i, k] for k in mp.static_range(300)], all used at the end
    right:  acc += x[i, k] in a loop
    """)
