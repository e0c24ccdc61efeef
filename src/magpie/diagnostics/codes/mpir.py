"""MPS: what the verifier of MPIR, the SSA form of `.mp` programs, refuses."""

from __future__ import annotations

from magpie.diagnostics.table import ERROR
from magpie.diagnostics.table import define as _d

_d("MPS0001", ERROR, "Invalid operand", """
    An operation has an operand too many or too few, or one that it cannot take.

    cure: Give the operands that the message names; docs/MP_LANGUAGE.md has those of each operation. The dimension of a
    work-item's number is a literal 0, 1 or 2.

    wrong:  %g: u32 = gpu.global_id { dim=const.u32 3 }
    right:  %g: u32 = gpu.global_id { dim=const.u32 2 }
    """)
_d("MPS0002", ERROR, "Value is not defined on every way to its use", """
    In SSA form a value is defined once, and every way from the entry of the function to a use goes through its
    definition.

    cure: Define it before the branch, or join what differs by the way that control came in a phi.

    wrong:  fn @f(%n: i32, %c: bool) -> i32 {
            bb0: cbr %c bb1 bb2
            bb1: %x: i32 = i.add { a=%n, b=%n } br bb2
            bb2: ret %x
            }
    right:  fn @f(%n: i32, %c: bool) -> i32 {
            bb0: cbr %c bb1 bb2
            bb1: %x: i32 = i.add { a=%n, b=%n } br bb2
            bb2: %v: i32 = phi i32 { [bb0: const.i32 0], [bb1: %x] } ret %v
            }
    """)
_d("MPS0003", ERROR, "Name is defined twice", """
    A value, a block, a function, a type or one of its parts has the name of another one. Values, blocks and type
    parameters are unique in their function, functions and types in their module, fields and variants in their type.

    cure: Give the second one another name.

    wrong:  %y: i32 = i.add { a=%i, b=const.i32 1 }
            %y: i32 = i.add { a=%y, b=const.i32 1 }
    right:  %y: i32 = i.add { a=%i, b=const.i32 1 }
            %z: i32 = i.add { a=%y, b=const.i32 1 }
    """)
_d("MPS0004", ERROR, "Types do not fit", """
    An operand, a result, an argument or what a function returns has another type than is wanted there. There are no
    casts that are not written.

    cure: Cast the value, or declare the type that it has.

    wrong:  %s: f32 = f.add { a=%x, b=%i }             ; %i is i32
    right:  %f: f32 = cast<i32, f32> { v=%i }
            %s: f32 = f.add { a=%x, b=%f }
    """)
_d("MPS0005", ERROR, "Malformed control flow", """
    A branch names a block that is not there, or the entry block, which nothing branches to; a switch has a case twice;
    a function has no block.

    cure: Let the entry branch to a block of its own, and come back to that; take the second case out.

    wrong:  fn @f(%c: bool) -> unit {
            bb0: cbr %c bb0 bb1
            bb1: ret
            }
    right:  fn @f(%c: bool) -> unit {
            bb0: br bb1
            bb1: cbr %c bb1 bb2
            bb2: ret
            }
    """)
_d("MPS0006", ERROR, "Phi does not fit the blocks before it", """
    A phi has one operand for each distinct block that leads to its own, and no others; the entry block has no phi.

    cure: Give it the operands that are missing: the message names the blocks. Two `try` of one block that go to one
    phi need a block each for their errors.

    wrong:  fn @f(%x: i32, %c: bool) -> i32 {
            bb0: cbr %c bb1 bb2
            bb1: br bb2
            bb2: %v: i32 = phi i32 { [bb1: %x] } ret %v
            }
    right:  fn @f(%x: i32, %c: bool) -> i32 {
            bb0: cbr %c bb1 bb2
            bb1: br bb2
            bb2: %v: i32 = phi i32 { [bb1: %x], [bb0: const.i32 0] } ret %v
            }
    """)
_d("MPS0007", ERROR, "Unknown operation", """
    There is no operation of this name, or no function or struct of the name that it uses.

    cure: Take the name that the message has where one is near. docs/MP_LANGUAGE.md lists all operations.

    wrong:  %y: f32 = f.plus { a=%x, b=%x }
    right:  %y: f32 = f.add { a=%x, b=%x }
    """)
_d("MPS0008", ERROR, "Malformed kernel declaration", """
    A `gpu fn` gives unit; an `unsafe gpu fn` says what it requires; `requires` stands on unsafe ones only.

    cure: Store the result in a buffer.

    wrong:  gpu fn @k(%x: f32) -> f32 target(spv) { bb0: ret %x }
    right:  gpu fn @k(%x: f32, %out: gpu.TBuffer<f32>) -> unit target(spv) {
            bb0: gpu.buffer_store<f32> { buf=%out, idx=const.u32 0, v=%x } ret }
    """)
_d("MPS0009", ERROR, "Syntax error in MPIR text", """
    The text is no MPIR: the message says what stands there and what could. `magpie mpir verify` reads such text.

    cure: Write what the message says could stand there; docs/ARCHITECTURE.md describes the form.

    example:  error[MPS0009]: expected `{`, found `%x`, where %y: f32 = f.add %x, %x should be
              %y: f32 = f.add { lhs=%x, rhs=%x }
    """)
