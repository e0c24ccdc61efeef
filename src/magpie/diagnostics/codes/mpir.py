"""MPS: what the verifier of MPIR, the SSA form of `.mp` programs, refuses."""

from __future__ import annotations

from magpie.diagnostics.table import ERROR
from magpie.diagnostics.table import define as _d

_d("MPS0001", ERROR, "Invalid operand", """
    An operation has an operand too many or too few, or one that it cannot take. The dimension of a work-item's number
    is a literal 0, 1 or 2.

    wrong:  %g: u32 = gpu.global_id { dim=const.u32 3 }
    right:  %g: u32 = gpu.global_id { dim=const.u32 2 }
    """)
_d("MPS0002", ERROR, "Value is not defined on every way to its use", """
    In SSA form a value is defined once, and every way from the entry of the function to a use goes through its
    definition. What differs by the way that control came is a phi.

    wrong:  a value of one arm of a cbr, used behind both
    right:  %v: i32 = phi { [bb1: %x], [bb2: const.i32 0] }
    """)
_d("MPS0003", ERROR, "Name is defined twice", """
    A value, a block, a function or a struct has the name of another one. Values and blocks are unique in their
    function, functions and structs in their module.

    wrong:  %x: i32 = i.add { a=%x, b=const.i32 1 }
    right:  %x1: i32 = i.add { a=%x, b=const.i32 1 }
    """)
_d("MPS0004", ERROR, "Types do not fit", """
    An operand, a result, an argument or what a function returns has another type than is wanted there. There are no
    casts that are not written.

    wrong:  %s: f32 = f.add { a=%x, b=%i }                ; %i is i32
    right:  %f: f32 = cast<i32, f32> { v=%i }
            %s: f32 = f.add { a=%x, b=%f }
    """)
_d("MPS0005", ERROR, "Malformed control flow", """
    A branch names a block that is not there, or the entry block, which nothing branches to; a switch has a case twice;
    a function has no block.

    wrong:  bb0: ... br bb0
    right:  bb0: br bb1
            bb1: ... br bb1
    """)
_d("MPS0006", ERROR, "Phi does not fit the blocks before it", """
    A phi has one operand for each distinct block that leads to its own, and no others; the entry block has no phi.

    wrong:  %v: i32 = phi { [bb1: %x] }                    ; bb2 leads here too
    right:  %v: i32 = phi { [bb1: %x], [bb2: %y] }
    """)
_d("MPS0007", ERROR, "Unknown operation", """
    There is no operation of this name, or no function or struct of the name that it uses. The message
    has the nearest name where there is one.

    wrong:  %y: f32 = f.plus { a=%x, b=%x }
    right:  %y: f32 = f.add { a=%x, b=%x }
    """)
_d("MPS0008", ERROR, "Malformed kernel declaration", """
    A `gpu fn` gives unit; an `unsafe gpu fn` says what it requires; `requires` stands on unsafe ones only.

    wrong:  gpu fn @k(%x: gpu.TBuffer<f32>) -> f32 target(spv)
    right:  gpu fn @k(%x: gpu.TBuffer<f32>, %out: gpu.TBuffer<f32>) -> unit target(spv)
    """)
_d("MPS0009", ERROR, "Syntax error in MPIR text", """
    The text is no MPIR: the message says what stands there and what could. `magpie mpir verify` reads such text, and
    docs/ARCHITECTURE.md describes it.

    wrong:  %y: f32 = f.add %x, %x
    right:  %y: f32 = f.add { lhs=%x, rhs=%x }
    """)
