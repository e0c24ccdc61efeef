"""MPT: names and types of `.mp` modules. What MPIR has rules for has the codes of its verifier, MPS, in hosts too."""

from __future__ import annotations

from magpie.diagnostics.table import ERROR
from magpie.diagnostics.table import define as _d

_d("MPT0001", ERROR, "Unknown type", """
    There is no type of this name: it is none of the language's, and the module declares none.

    cure: Take the name that the message has where one is near, or declare the type. docs/MP_LANGUAGE.md lists those of
    the language.

    wrong:  fn @f(%x: float32) -> unit { bb0: ret }
    right:  fn @f(%x: f32) -> unit { bb0: ret }
    """)
_d("MPT0002", ERROR, "Wrong number of type arguments", """
    A type has as many arguments in <> as it is declared with.

    cure: Give each of them; a type with none has no <>.

    wrong:  gpu fn @k(%data: gpu.TBuffer) -> unit target(spv) { bb0: ret }
    right:  gpu fn @k(%data: gpu.TBuffer<f32>) -> unit target(spv) { bb0: ret }
    """)
_d("MPT0003", ERROR, "Unknown name", """
    The module exports something that it does not declare, or reads a global that is not there.

    cure: Declare it, or take the name that the message has where one is near.

    wrong:  exports { @mian }
            fn @main() -> i64 { bb0: ret const.i64 0 }
    right:  exports { @main }
            fn @main() -> i64 { bb0: ret const.i64 0 }
    """)
_d("MPT0004", ERROR, "Wrong number of arguments", """
    A call with args=[...] gives one value for each parameter of the function, in their order.

    cure: Give the missing ones; the message has the parameters.

    wrong:  fn @scale(%x: f32, %by: f32) -> f32 { bb0: %y: f32 = f.mul { a=%x, b=%by } ret %y }
            fn @f(%x: f32) -> f32 { bb0: %y: f32 = call @scale { args=[%x] } ret %y }
    right:  fn @scale(%x: f32, %by: f32) -> f32 { bb0: %y: f32 = f.mul { a=%x, b=%by } ret %y }
            fn @f(%x: f32) -> f32 { bb0: %y: f32 = call @scale { args=[%x, const.f32 2.0] } ret %y }
    """)
_d("MPT0005", ERROR, "Case of another type", """
    The cases of a switch are integers of the type of its value.

    cure: Leave the type of the case out: a bare number takes that of the value.

    wrong:  fn @f(%n: i32) -> unit { bb0: switch %n { case const.i64 1 -> bb1 } else bb1 bb1: ret }
    right:  fn @f(%n: i32) -> unit { bb0: switch %n { case 1 -> bb1 } else bb1 bb1: ret }
    """)
_d("MPT0006", ERROR, "Phi behind an instruction", """
    The phis of a block stand before its instructions: they say what came along the edge, and are read all at once.

    cure: Move the phi to the beginning of its block.

    wrong:  fn @f(%n: i32) -> i32 {
            bb0: br bb1
            bb1: %y: i32 = i.add { a=%n, b=%n }
                 %x: i32 = phi i32 { [bb0: %n] }
                 ret %x
            }
    right:  fn @f(%n: i32) -> i32 {
            bb0: br bb1
            bb1: %x: i32 = phi i32 { [bb0: %n] }
                 %y: i32 = i.add { a=%n, b=%n }
                 ret %x
            }
    """)
_d("MPT0007", ERROR, "Name is declared twice in the module", """
    Functions and globals share one set of names, and so do structs, enums and signatures.

    cure: Give one of them another name.

    wrong:  global @limit: i64 = const.i64 1
            fn @limit() -> i64 { bb0: ret const.i64 1 }
    right:  global @limit: i64 = const.i64 1
            fn @read_limit() -> i64 { bb0: %x: i64 = @limit ret %x }
    """)
_d("MPT0008", ERROR, "Generic function in a kernel", """
    A kernel has no type parameters, and does not call functions that have some yet.

    cure: Write one for the type at hand.

    wrong:  fn @twice<T: type>(%x: T) -> T { bb0: ret %x }
            gpu fn @k(%x: f32) -> unit target(spv) { bb0: %y: f32 = call @twice { x=%x } ret }
    right:  fn @twice_f32(%x: f32) -> f32 { bb0: %y: f32 = f.add { a=%x, b=%x } ret %y }
            gpu fn @k(%x: f32) -> unit target(spv) { bb0: %y: f32 = call @twice_f32 { x=%x } ret }
    """)
_d("MPT0009", ERROR, "Raw pointer outside of unsafe code", """
    Nothing checks what a raw pointer leads to, so the operations on them stand in an `unsafe { ... }` block, or in a
    function that is marked `unsafe`.

    cure: Write unsafe { ... } around the operation.

    wrong:  fn @f(%p: rawptr<f32>) -> unit { bb0: %x: f32 = ptr.load<f32> { p=%p } ret }
    right:  fn @f(%p: rawptr<f32>) -> unit { bb0: unsafe { %x: f32 = ptr.load<f32> { p=%p } } ret }
    """)
_d("MPT0010", ERROR, "Launch does not fit the kernel", """
    A launch names a kernel of the module, and gives a value of the right type for each of its parameters, in order.

    cure: Give what the kernel takes: the message shows its parameters.

    wrong:  gpu fn @add(%n: u32) -> unit target(spv) { bb0: ret }
            fn @f(%dev: gpu.TDevice, %one: u32) -> unit {
            bb0: %r: TResult<unit, gpu.TError> = gpu.launch {
                device=%dev, kernel=@add, grid=[%one, %one, %one], block=[%one, %one, %one], args=[] }
            ret }
    right:  gpu fn @add(%n: u32) -> unit target(spv) { bb0: ret }
            fn @f(%dev: gpu.TDevice, %one: u32) -> unit {
            bb0: %r: TResult<unit, gpu.TError> = gpu.launch {
                device=%dev, kernel=@add, grid=[%one, %one, %one], block=[%one, %one, %one], args=[%one] }
            ret }
    """)
_d("MPT0011", ERROR, "Value struct without an end", """
    A value struct is its fields, so one that holds itself, directly or through others, would have no end, and one of
    thousands of fields is most often the product of a program. It has at most 4,096 fields, 64 structs deep.

    cure: Make it a heap struct, whose fields are references, or put the fields into an array.

    wrong:  value struct TNode { field next: TNode }
    right:  heap struct TNode { field next: TOption<TNode> }
    """)
_d("MPT0012", ERROR, "bf16 is converted through f32", """
    bf16 has 8 bits of exponent and f16 and f64 have others, so that a conversion between them would round by rules of
    its own. There is none but to and from f32, each rounded once, to nearest even.

    cure: Convert to f32 first, and from there.

    wrong:  fn @f(%x: bf16) -> f64 { bb0: %y: f64 = cast<bf16, f64> { v=%x } ret %y }
    right:  fn @f(%x: bf16) -> f64 { bb0: %w: f32 = bf16.to_f32 { v=%x } %y: f64 = cast<f32, f64> { v=%w } ret %y }
    """)
_d("MPT0020", ERROR, "Module cannot be run", """
    A program begins with @main, which takes nothing and gives its exit status: an integer, unit (0), or a TResult of
    one of these (1 for an Err). A module without it has kernels and functions for others.

    cure: Declare @main, or call what the module has from another program: mp.load_module gives Python its kernels.

    wrong:  fn @start() -> i64 { ... }
    right:  fn @main() -> i64 { bb0: ret const.i64 0 }
    """)
