"""MPP and MPL: how `.mp` text is written, and what is doubtful in it."""

from __future__ import annotations

from magpie.diagnostics.table import ERROR, WARNING
from magpie.diagnostics.table import define as _d

_d("MPP0001", ERROR, "Source too large", """
    A `.mp` file has more than 1,000,000 bytes, and is refused before it is read. Such a file is most often something
    else, or made by a program.

    cure: Split the module, or raise the limit.

    wrong:  magpie fmt huge.mp
    right:  magpie fmt --max-bytes 5000000 huge.mp
    """)
_d("MPP0002", ERROR, "Source is not UTF-8", """
    A `.mp` file is text in UTF-8; the message names the first byte that is not.

    cure: Save the file in that encoding.

    wrong:  a file saved as Latin-1, with the byte 0xe9 for é in a comment
    right:  iconv -f latin1 -t utf-8 old.mp > new.mp
    """)
_d("MPP0003", ERROR, "NUL character in source", """
    A character U+0000 stands in the text: the file is binary, was saved as UTF-16, or is damaged.

    cure: Save the file as UTF-8. A string may hold a NUL if it is written as an escape.

    wrong:  a file saved as UTF-16
    right:  fn @f() -> Str { bb0: ret const.Str "\\0" }
    """)
_d("MPP0004", ERROR, "Brackets nest too deep", """
    Brackets stand more than 64 deep inside one another. Types and lists of programs nest a few deep, so this is most
    often a bracket that is not closed, or text made by a program.

    cure: Close the bracket, or name the inner parts.

    wrong:  fn @f(%rows: Array<Array<Array<...
    right:  value struct TRow { field cells: Array<f32> }
            fn @f(%rows: Array<TRow>) -> unit { bb0: ret }
    """)
_d("MPP0005", ERROR, "Syntax error", """
    The text does not follow the grammar at the place shown. Reading goes on at the next line that makes sense, so one
    run shows up to 20 errors; later ones may follow from the first.

    cure: Write what the message says could stand there. docs/MP_LANGUAGE.md has the grammar.

    wrong:  %y = f.add { a=%x, b=%x }
    right:  %y: f32 = f.add { a=%x, b=%x }
    """)
_d("MPP0006", ERROR, "Invalid string", """
    A string is not closed on its line, or has an escape that does not exist.

    cure: Close it, and use the escapes \\n, \\t, \\r, \\0, \\", \\\\, \\x41 (two digits, below 80) and \\u{1f426}.

    wrong:  fn @f() -> Str { bb0: ret const.Str "C:\\data" }
    right:  fn @f() -> Str { bb0: ret const.Str "C:\\\\data" }
    """)
_d("MPP0007", ERROR, "Invalid literal", """
    A literal is not one of its type, or out of its range.

    cure: Write one that its type has. Floats are rounded to the nearest value of their type; those beyond the largest
    are written inf.

    wrong:  %a: u8 = const.u8 256
            %b: i32 = const.i32 1.5
    right:  %a: u8 = const.u8 255
            %b: f32 = const.f32 1.5
    """)
_d("MPP0008", ERROR, "Block without a label", """
    The instructions of a function stand in blocks, and each block begins with its label, the first one too.

    cure: Write bb0: before the first instruction.

    wrong:  fn @f() -> unit { ret }
    right:  fn @f() -> unit { bb0: ret }
    """)
_d("MPP0009", ERROR, "Block without an end, or code behind it", """
    A block has exactly one terminator, its last instruction: ret, br, cbr, switch or unreachable.
    There is no falling through to the next block.

    cure: End the block with a branch to the next one; begin a block for what stands behind a terminator.

    wrong:  gpu fn @k(%n: u32) -> unit target(spv) {
            bb0: gpu.barrier
            bb1: ret
            }
    right:  gpu fn @k(%n: u32) -> unit target(spv) {
            bb0: gpu.barrier br bb1
            bb1: ret
            }
    """)
_d("MPP0010", ERROR, "Argument given twice", """
    Arguments have names, and one name has one value.

    cure: Rename the second one, or take it out.

    wrong:  %y: f32 = f.add { a=%x, a=%x }
    right:  %y: f32 = f.add { a=%x, b=%x }
    """)
_d("MPP0011", ERROR, "Literal without a type", """
    Numbers and truth values have their type before them; there are no implicit conversions.

    cure: Write const. and the type before the literal.

    wrong:  %y: f32 = f.add { a=%x, b=1.0 }
    right:  %y: f32 = f.add { a=%x, b=const.f32 1.0 }
    """)
_d("MPP0012", ERROR, "Invalid digest", """
    The digest of a module is 64 hexadecimal digits, with or without quotes. 64 zeros say that it was not filled in yet.

    cure: Leave the line out, or let `magpie fmt` fill it in.

    wrong:  digest "abc"
    right:  digest "0000000000000000000000000000000000000000000000000000000000000000"
    """)
_d("MPP0013", ERROR, "unsafe gpu fn and requires() do not go together", """
    A kernel that uses what not all targets have is an `unsafe gpu fn`, and says which capabilities it needs in
    requires(...), behind its target and workgroup. A plain `gpu fn` is portable and has none.

    cure: Write both `unsafe` and `requires(...)`, or neither.

    wrong:  unsafe gpu fn @k(%n: u32) -> unit target(ptx) { bb0: ret }
    right:  unsafe gpu fn @k(%n: u32) -> unit target(ptx) requires(device_malloc) { bb0: ret }
    """)
_d("MPP0014", ERROR, "Unknown or repeated block", """
    A branch names a block that its function does not have, or two blocks of a function have the same label.

    cure: Branch to a block that is there, and give each a label of its own. `magpie fmt` numbers them.

    wrong:  fn @f() -> unit {
            bb0: br bb2
            bb1: ret
            }
    right:  fn @f() -> unit {
            bb0: br bb1
            bb1: ret
            }
    """)
_d("MPL0001", WARNING, "Digest does not match the module", """
    The digest is the BLAKE3 of the module's canonical text without that line, so it changes with every change of the
    module. 64 zeros say that it is not filled in.

    cure: Let `magpie fmt` write the right one.

    warns:  digest "1111111111111111111111111111111111111111111111111111111111111111"
            fn @f() -> unit { bb0: ret }
    right:  digest "0000000000000000000000000000000000000000000000000000000000000000"
            fn @f() -> unit { bb0: ret }
    """)
