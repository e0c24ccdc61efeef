"""MPP and MPL: how `.mp` text is written, and what is doubtful in it."""

from __future__ import annotations

from magpie.diagnostics.table import ERROR, WARNING
from magpie.diagnostics.table import define as _d

_d("MPP0001", ERROR, "Source too large", """
    A `.mp` file has more than 1,000,000 bytes, and is refused before it is read. Such a file is most often something
    else, or made by a program: split the module, or raise the limit.

    wrong:  magpie fmt huge.mp
    right:  magpie fmt --max-bytes 5000000 huge.mp
    """)
_d("MPP0002", ERROR, "Source is not UTF-8", """
    A `.mp` file is text in UTF-8; the message names the first byte that is not. Save the file in that encoding:

    wrong:  a file saved as Latin-1, with the byte 0xe9 for é in a comment
    right:  iconv -f latin1 -t utf-8 old.mp > new.mp
    """)
_d("MPP0003", ERROR, "NUL character in source", """
    A character U+0000 stands in the text: the file is binary, was saved as UTF-16, or is damaged. A string may hold
    one if it is written as an escape.

    wrong:  a file saved as UTF-16
    right:  const.Str "\\0"
    """)
_d("MPP0004", ERROR, "Brackets nest too deep", """
    Brackets stand more than 64 deep inside one another. Types and lists of programs nest a few deep, so this is most
    often a bracket that is not closed, or text made by a program. Name the inner parts:

    wrong:  %x: Array<Array<Array<...
    right:  value struct TRow { field cells: Array<f32> }
    """)
_d("MPP0005", ERROR, "Syntax error", """
    The text does not follow the grammar at the place shown. The message says what could stand there. Reading goes on
    at the next line that makes sense, so one run shows up to 20 errors; later ones may follow from the first.

    wrong:  %y = f.add { a=%x, b=1.0 }
    right:  %y: f32 = f.add { a=%x, b=const.f32 1.0 }

    docs/MP_LANGUAGE.md has the grammar.
    """)
_d("MPP0006", ERROR, "Invalid string", """
    A string is not closed on its line, or has an escape that does not exist. The escapes are \\n, \\t, \\r, \\0, \\",
    \\\\, \\x41 (two digits, below 80) and \\u{1f426}.

    wrong:  const.Str "C:\\data"
    right:  const.Str "C:\\\\data"
    """)
_d("MPP0007", ERROR, "Invalid literal", """
    A literal is not one of its type, or out of its range. Floats are rounded to the nearest value of their type; those
    beyond the largest are written inf.

    wrong:  const.u8 256            const.i32 1.5
    right:  const.u8 255            const.f32 1.5
    """)
_d("MPP0008", ERROR, "Block without a label", """
    The instructions of a function stand in blocks, and each block begins with its label, the first one too.

    wrong:  fn @f() -> unit {
                ret
            }
    right:  fn @f() -> unit {
            bb0:
                ret
            }
    """)
_d("MPP0009", ERROR, "Block without an end, or code behind it", """
    A block has exactly one terminator, its last instruction: ret, br, cbr, switch or unreachable. There is no falling
    through to the next block.

    wrong:  bb0:
                gpu.barrier
            bb1:
                ret
    right:  bb0:
                gpu.barrier
                br bb1
            bb1:
                ret
    """)
_d("MPP0010", ERROR, "Argument given twice", """
    Arguments have names, and one name has one value.

    wrong:  i.add { a=%x, a=%y }
    right:  i.add { a=%x, b=%y }
    """)
_d("MPP0011", ERROR, "Literal without a type", """
    Numbers and truth values have their type before them; there are no implicit conversions.

    wrong:  f.add { a=%x, b=1.0 }
    right:  f.add { a=%x, b=const.f32 1.0 }
    """)
_d("MPP0012", ERROR, "Invalid digest", """
    The digest of a module is 64 hexadecimal digits, with or without quotes. `magpie fmt` fills it in; 64 zeros say that
    it was not filled in yet, and the line may be left out.

    wrong:  digest "abc"
    right:  digest "0000000000000000000000000000000000000000000000000000000000000000"
    """)
_d("MPP0013", ERROR, "unsafe gpu fn and requires() do not go together", """
    A kernel that uses what not all targets have is an `unsafe gpu fn`, and says which capabilities it needs in
    requires(...), behind its target and workgroup. A plain `gpu fn` is portable and has none.

    wrong:  unsafe gpu fn @k(%n: u32) -> unit target(ptx) {
    right:  unsafe gpu fn @k(%n: u32) -> unit target(ptx) requires(device_malloc) {
    """)
_d("MPP0014", ERROR, "Unknown or repeated block", """
    A branch names a block that its function does not have, or two blocks of a function have the same label.

    wrong:  bb0:
                br bb2
            bb1:
                ret
    right:  bb0:
                br bb1
            bb1:
                ret
    """)
_d("MPL0001", WARNING, "Digest does not match the module", """
    The digest is the BLAKE3 of the module's canonical text without that line, so it changes with every change of the
    module. `magpie fmt` writes the right one; 64 zeros say that it is not filled in.

    wrong:  digest "..."            after the module was edited
    right:  magpie fmt module.mp
    """)
