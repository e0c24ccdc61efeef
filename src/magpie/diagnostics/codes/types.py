"""MPT: names and types of `.mp` modules. What MPIR has rules for has the codes of its verifier, MPS, in hosts too."""

from __future__ import annotations

from magpie.diagnostics.table import ERROR
from magpie.diagnostics.table import define as _d

_d("MPT0001", ERROR, "Unknown type", """
    There is no type of this name: it is none of the language's, and the module declares none. The message has the
    nearest name where there is one.

    wrong:  %x: float32 = const.f32 1.0
    right:  %x: f32 = const.f32 1.0
    """)
_d("MPT0002", ERROR, "Wrong number of type arguments", """
    A type has as many arguments in <> as it is declared with. Types with none have no <>.

    wrong:  %data: gpu.TBuffer
    right:  %data: gpu.TBuffer<f32>
    """)
_d("MPT0003", ERROR, "Unknown name", """
    The module exports something that it does not declare, or reads a global that is not there.

    wrong:  exports { @mian }
    right:  exports { @main }
    """)
_d("MPT0004", ERROR, "Wrong number of arguments", """
    A call with args=[...] gives one value for each parameter of the function, in their order.

    wrong:  %y: f32 = call @scale { args=[%x] }               ; @scale has two parameters
    right:  %y: f32 = call @scale { args=[%x, const.f32 2.0] }
    """)
_d("MPT0005", ERROR, "Case of another type", """
    The cases of a switch are integers of the type of its value. A bare number takes that type.

    wrong:  switch %n { case const.i64 1 -> bb1 } else bb2     ; %n is i32
    right:  switch %n { case 1 -> bb1 } else bb2
    """)
_d("MPT0006", ERROR, "Phi behind an instruction", """
    The phis of a block stand before its instructions: they say what came along the edge, and are read all at once.

    wrong:  bb1: %y: i32 = i.add { a=%n, b=%n }    then    %x: i32 = phi { [bb0: %n] }
    right:  bb1: %x: i32 = phi { [bb0: %n] }    then    %y: i32 = i.add { a=%n, b=%n }
    """)
_d("MPT0007", ERROR, "Name is declared twice in the module", """
    Functions and globals share one set of names, and so do structs, enums and signatures.

    wrong:  global @limit: i64 = const.i64 1    and    fn @limit() -> i64
    right:  global @limit: i64 = const.i64 1    and    fn @read_limit() -> i64
    """)
_d("MPT0008", ERROR, "Generic function in a kernel", """
    A kernel has no type parameters, and does not call functions that have some yet: write one for the type at hand.

    wrong:  fn @twice<T: type>(%x: T) -> T
    right:  fn @twice_f32(%x: f32) -> f32
    """)
_d("MPT0009", ERROR, "Raw pointer outside of unsafe code", """
    Nothing checks what a raw pointer leads to, so the operations on them stand in an `unsafe { ... }` block, or in a
    function that is marked `unsafe`.

    wrong:  %x: f32 = ptr.load<f32> { p=%p }
    right:  unsafe { %x: f32 = ptr.load<f32> { p=%p } }
    """)
_d("MPT0010", ERROR, "Launch does not fit the kernel", """
    A launch names a kernel of the module, and gives a value of the right type for each of its parameters, in order.

    wrong:  gpu.launch { kernel=@add, args=[%data], ... }              ; @add has (%data: gpu.TBuffer<f32>, %n: u32)
    right:  gpu.launch { kernel=@add, args=[%data, const.u32 1024], ... }
    """)
_d("MPT0011", ERROR, "Value struct without an end", """
    A value struct is its fields, so one that holds itself, directly or through others, would have no end, and one of
    thousands of fields is most often the product of a program. It has at most 4,096 fields, 64 structs deep.

    wrong:  value struct TNode { field next: TNode }
    right:  heap struct TNode { field next: TOption<TNode> }
    """)
_d("MPT0012", ERROR, "bf16 is converted through f32", """
    bf16 has 8 bits of exponent and f16 and f64 have others, so that a conversion between them would round by rules of
    its own. There is none but to and from f32, each rounded once, to nearest even.

    wrong:  %y: f64 = cast<bf16, f64> { v=%x }
    right:  %w: f32 = bf16.to_f32 { v=%x }
            %y: f64 = cast<f32, f64> { v=%w }
    """)
_d("MPT0020", ERROR, "Module cannot be run", """
    A program begins with @main, which takes nothing and gives its exit status: an integer, unit (0), or a TResult of
    one of these (1 for an Err). A module without it has kernels and functions for others.

    wrong:  fn @start() -> i64 { ... }
    right:  fn @main() -> i64 { ... }
    """)
