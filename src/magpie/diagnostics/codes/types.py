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
    A type has as many arguments in <> as it is declared with. So has the call of a generic function, where they may be
    left out if the types of the arguments and of the result say them.

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
    Functions and globals share one set of names, and so do structs, enums and signatures, with the types of the
    language. A type parameter has no name of these types either.

    cure: Give one of them another name.

    wrong:  global @limit: i64 = const.i64 1
            fn @limit() -> i64 { bb0: ret const.i64 1 }
    right:  global @limit: i64 = const.i64 1
            fn @read_limit() -> i64 { bb0: %x: i64 = @limit ret %x }
    """)
_d("MPT0008", ERROR, "Generic kernel", """
    A kernel has no type parameters: a launch could not say what they are. It may call generic functions.

    cure: Write one kernel for each type, and what they have in common as a generic function.

    wrong:  gpu fn @k<T: type>(%x: T) -> unit target(spv) { bb0: ret }
    right:  fn @same<T: type>(%x: T) -> T { bb0: ret %x }
            gpu fn @k(%x: f32) -> unit target(spv) { bb0: %y: f32 = call @same { x=%x } ret }
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
_d("MPT0013", ERROR, "Import of what is not there", """
    There is no module of this name, or it has no such function; or what is imported is declared in this module too.

    cure: Import what there is: docs/MP_LIBRARY.md lists the modules and their functions.

    wrong:  imports { std.io::{@printn} }
    right:  imports { std.io::{@println} }
    """)
_d("MPT0014", ERROR, "Type that an operation does not take", """
    A type parameter of the operation stands for some types only: keys of a Map are integers, bool, Str, and types with
    an `impl hash` and an `impl eq`; elements of a buffer are scalars and value structs of them.

    cure: Take another type; the message says which there are.

    wrong:  fn @f() -> unit { bb0: %m: Map<f64, i32> = map.new {} ret }
    right:  fn @f() -> unit { bb0: %m: Map<i64, i32> = map.new {} ret }
    """)
_d("MPT0015", ERROR, "Misplaced try", """
    A `try` is of a TResult<T, E> and gives the T. Without a block to go to, its error goes to the caller, so the
    function gives a TResult with the same E.

    cure: Let the function give such a TResult, or name a block for the error.

    wrong:  fn @f(%r: TResult<i64, Str>) -> i64 { bb0: %x: i64 = try %r ret %x }
    right:  fn @f(%r: TResult<i64, Str>) -> i64 { bb0: %x: i64 = try %r bb1 ret %x bb1: ret const.i64 0 }
    right:  fn @f(%r: TResult<i64, Str>) -> TResult<i64, Str> { bb0: %x: i64 = try %r ret %r }
    """)
_d("MPT0016", ERROR, "Variant or field that an enum does not have", """
    The variant in the angle brackets is one of the enum's, and it is given its fields, all of them. `enum.payload`
    of a variant with several fields names one. The bare name of a variant without fields may be an operand.

    cure: Name a variant of the enum, with its fields.

    wrong:  fn @f() -> TResult<i32, Str> { bb0: %r: TResult<i32, Str> = enum.new<Okay> { v=const.i32 1 } ret %r }
    right:  fn @f() -> TResult<i32, Str> { bb0: %r: TResult<i32, Str> = enum.new<Ok> { v=const.i32 1 } ret %r }
    """)
_d("MPT0017", ERROR, "Callable does not fit its signature", """
    A callable is of a function, with values for its first parameters; the other parameters and the result are those of
    the signature. `call.indirect` gives one argument for each parameter of the signature.

    cure: Capture what the signature leaves out, or declare the signature that the function has.

    wrong:  sig TUnary(i32) -> i32
            fn @first(%a: i32, %b: i32) -> i32 { bb0: ret %a }
            fn @f() -> unit { bb0: %c: TCallable<TUnary> = callable.capture @first {} ret }
    right:  sig TUnary(i32) -> i32
            fn @first(%a: i32, %b: i32) -> i32 { bb0: ret %a }
            fn @f() -> unit { bb0: %c: TCallable<TUnary> = callable.capture @first { a=const.i32 1 } ret }
    """)
_d("MPT0018", ERROR, "Value structs are not changed", """
    A value struct is a value, as a number is. Fields of heap structs can be set.

    cure: Make another one with the field that differs, or a heap struct of it.

    wrong:  value struct TBox { field x: f32 }
            fn @f(%b: TBox, %x: f32) -> unit { bb0: setfield { obj=%b, field=x, v=%x } ret }
    right:  value struct TBox { field x: f32 }
            fn @f(%x: f32) -> TBox { bb0: %b: TBox = new TBox { x=%x } ret %b }
    """)
_d("MPT0019", ERROR, "Value of a global of another type", """
    The value of a global is a literal of its type, or for an Array a list of such values.

    cure: Write literals of the type that the global has.

    wrong:  global @sizes: Array<u64> = [const.i64 1, const.i64 2]
    right:  global @sizes: Array<u64> = [const.u64 1, const.u64 2]
    """)
_d("MPT0020", ERROR, "Module cannot be run", """
    A program begins with @main, which takes nothing and gives its exit status: an integer of up to 64 bits, unit (0),
    or a TResult of one of these (1 for an Err). A module without it has kernels and functions for others.

    cure: Declare @main, or call what the module has from another program: mp.load_module gives Python its kernels.

    wrong:  fn @main() -> f64 { bb0: ret const.f64 0.0 }
    right:  fn @main() -> i64 { bb0: ret const.i64 0 }
    """)
_d("MPT0021", ERROR, "Type arguments that cannot be found", """
    Type arguments in <> may be left out where operands or the result say what they are; here neither does.

    cure: Write the type arguments, or give the result a name.

    wrong:  fn @f(%s: Array<u64>) -> unit { bb0: mlx.array.@zeros { shape=%s } ret }
    right:  fn @f(%s: Array<u64>) -> unit { bb0: mlx.array.@zeros<f32> { shape=%s } ret }
    """)
_d("MPT0022", ERROR, "Malformed impl", """
    `impl hash for T = @f` and `impl eq for T = @f` make T a key of maps, once each. T is a struct or an enum of this
    module; the one function takes a T and gives u64, the other takes two and gives bool.

    cure: Name a function of the type that the message shows.

    wrong:  value struct TBox { field x: i64 }
            impl hash for TBox = @hash
            fn @hash(%b: borrow TBox) -> i32 { bb0: ret const.i32 1 }
    right:  value struct TBox { field x: i64 }
            impl hash for TBox = @hash
            fn @hash(%b: borrow TBox) -> u64 { bb0: ret const.u64 1 }
    """)
_d("MPT0023", ERROR, "Operation of kernels in a host program", """
    Work-items, barriers, atomics and elements of buffers are for kernels.

    cure: Launch a kernel, or read the buffer as an array with gpu.host.@buffer_to_array.

    wrong:  fn @main() -> unit { bb0: gpu.barrier ret }
    right:  gpu fn @k() -> unit target(spv) { bb0: gpu.barrier ret }
            fn @main() -> unit { bb0: ret }
    """)
_d("MPT0024", ERROR, "call or call_void", """
    `call` is for calls whose value has a name, `call_void` for those where there is none, or where it is dropped.

    cure: Write the other of the two.

    wrong:  fn @f() -> unit { bb0: call std.io.@println { text="hello" } ret }
    right:  fn @f() -> unit { bb0: call_void std.io.@println { text="hello" } ret }
    """)
_d("MPT0025", ERROR, "Function is not imported", """
    A function of another module is called by its full name, or by its own name where the header imports it. Functions
    of an `extern` module are not called: host programs load no C libraries.

    cure: Import it, or write its full name.

    wrong:  fn @f() -> unit { bb0: call_void @println { text="hello" } ret }
    right:  fn @f() -> unit { bb0: call_void std.io.@println { text="hello" } ret }
    right:  imports { std.io::{@println} }
            fn @f() -> unit { bb0: call_void @println { text="hello" } ret }
    """)
_d("MPT0026", ERROR, "Generic function without an end", """
    Each call of a generic function is one of an instance for its types. A function that calls itself with larger types
    than it has would have instances without an end. A module has at most 1,000 of them, for types of at most 64 names.

    cure: Let it call itself with the types that it has.

    wrong:  fn @f<T: type>(%x: T) -> unit {
            bb0: %a: Array<T> = arr.new { v0=%x }
                 call_void @f { x=%a }
                 ret
            }
            fn @g() -> unit { bb0: call_void @f { x=const.i32 1 } ret }
    right:  fn @f<T: type>(%x: T) -> unit {
            bb0: call_void @f { x=%x }
                 ret
            }
            fn @g() -> unit { bb0: call_void @f { x=const.i32 1 } ret }
    """)
