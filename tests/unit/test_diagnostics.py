"""The table of codes, the renderer and explain."""

from __future__ import annotations

import linecache
import pickle
import re
import textwrap

import pytest

from magpie.diagnostics import (
    ERROR,
    WARNING,
    CompileError,
    CompileWarning,
    Diagnostic,
    Loc,
    define,
    lookup,
    render,
    resolve,
    table,
)
from magpie.diagnostics.explain import UnknownCode, explain, listing, nearest
from magpie.errors import GpuError, GpuErrorKind, LaunchTypeError, LaunchValueError, MagpieError, clean

# Specification, section 13: every code with its severity and title.
SEED_CODES = """
MPG_CORE_1100 error Heap allocation in gpu fn
MPG_CORE_1101 error ARC operation in gpu fn
MPG_CORE_1102 error Dynamic dispatch in gpu fn
MPG_CORE_1103 error Recursion in gpu fn
MPG_CORE_1104 error Str type in gpu fn
MPG_CORE_1105 error Array type in gpu fn
MPG_CORE_1106 error Map type in gpu fn
MPG_CORE_1107 error TCallable type in gpu fn
MPG_CORE_1200 error Unsupported capability for target
MPG_CORE_1201 error Non-portable feature without requires()
MPG_CORE_1202 warning unsafe gpu fn is non-portable
MPG_CORE_1300 error Backend not available at compile time
MPG_CORE_1301 error llc invocation failed
MPG_CORE_1302 error Invalid workgroup size
MPG_SPV_2001 error Shared memory exceeds device limit
MPG_SPV_2002 error SPIR-V validation failed
MPG_SPV_2003 warning Suboptimal buffer layout
MPG_MSL_1001 error Irreducible control flow (cannot structure for MSL)
MPG_MSL_2001 error Shared memory exceeds 32KB limit
MPG_MSL_2002 error MSL compilation failed
MPG_MSL_2003 error Metal-specific op without requires() annotation
MPG_PTX_2001 error Shared memory exceeds limit
MPG_PTX_2002 error PTX compilation via llc failed
MPG_PTX_2003 warning Compute capability too low for feature
MPG_HIP_2001 error Shared memory exceeds LDS limit
MPG_HIP_2002 error HSACO generation via llc failed
MPG_WGSL_1001 error Value struct in buffer (unsupported in WGSL)
MPG_WGSL_1002 error Pointer operation (unsupported in WGSL)
MPG_WGSL_1003 error bf16 type (unsupported in WGSL)
MPG_WGSL_1004 error requires() capability (unsupported in WGSL)
MPG_WGSL_1005 error Too many storage buffers (max 8)
MPG_WGSL_1006 error Workgroup size exceeds 256 per dimension
MPG_MLX_1001 error MLX not available (not macOS / no Apple Silicon)
MPG_MLX_1002 error Unsupported element type for MLX array
MPG_MLX_1003 error Shape mismatch in MLX operation
MPG_MLX_1004 warning MLX operation on CPU (no GPU acceleration)
MPG_PROF_1001 warning Vendor counters not available on this backend
MPG_PROF_1002 error Profiling session already active
MPG_PROF_1003 warning Counter not supported on this device
"""


@pytest.mark.parametrize("row", SEED_CODES.strip().splitlines())
def test_every_code_of_the_specification_is_in_the_table(row):
    code, severity, title = row.split(" ", 2)
    assert lookup(code).severity.value == severity
    # One code of the specification stands for a second thing too, which its title names after the first.
    second = ", or irreducible control flow" if code == "MPG_WGSL_1001" else ""
    assert lookup(code).title == title + second


def test_codes_of_the_specification_that_it_leaves_open():
    """It names a limit of 16 KB in section 5.3, with the code, and has no row for it in 13.7."""
    assert len(SEED_CODES.strip().splitlines()) == 14 + 3 + 4 + 3 + 2 + 6 + 4 + 3
    row = lookup("MPG_WGSL_2001")
    assert row.severity is ERROR and "16KB" in row.title


def test_every_row_explains_itself():
    assert len(table()) > 100
    for row in table().values():
        assert re.fullmatch(r"MPG_[A-Z]+_[0-9]{4}|MP[A-FH-Z][0-9]{4}", row.code)
        assert row.title == row.title.strip() and not row.title.endswith(".")
        lines = row.text.splitlines()
        assert 5 <= len(lines) <= 45, row.code
        assert all(len(line) <= 120 and line == line.rstrip() for line in lines), row.code


def test_define_refuses_malformed_and_repeated_codes():
    with pytest.raises(ValueError, match="not of the form"):
        define("MPG1200", ERROR, "t", "x")
    with pytest.raises(ValueError, match="defined twice"):
        define("MPG_CORE_1100" if table() else "", ERROR, "t", "x")


def test_a_diagnostic_must_have_a_row():
    with pytest.raises(KeyError, match="MPG_PY_9999 is not in the table"):
        Diagnostic("MPG_PY_9999", "message")


def test_severity_comes_from_the_table_unless_given():
    assert Diagnostic("MPG_CORE_1400", "m").severity is ERROR
    assert Diagnostic("MPG_CORE_1400", "m", severity=WARNING).severity is WARNING
    assert not Diagnostic("MPG_CORE_1202", "m").is_error


@pytest.fixture
def source(request):
    """Puts text where a notebook puts the source of its cells: in linecache only."""
    names = []

    def put(text, name="<cell 1>"):
        names.append(name)
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        return name

    yield put
    for name in names:
        linecache.cache.pop(name, None)


def show(text):
    return textwrap.dedent(text).strip("\n")


def test_render_message_place_caret_notes_and_help(source):
    file = source("a = 1\n" * 8 + "def k(x):\n    v = x[i]\n    v = d[i]\n")
    item = Diagnostic(
        "MPG_PY_1004",
        "`v` is f64 here and f32 before",
        Loc(file, 11, 4, 11, 5),
        notes=(("f32 here", Loc(file, 10, 4, 10, 12)), ("types do not adapt", None)),
        help="cast one:\n  v = mp.f32(d[i])",
    )
    assert render(item) == show("""
        error[MPG_PY_1004]: `v` is f64 here and f32 before
          --> <cell 1>:11:5
           |
        11 |     v = d[i]
           |     ^
           = note: types do not adapt
           = help: cast one:
                     v = mp.f32(d[i])
        note: f32 here
          --> <cell 1>:10:5
           |
        10 |     v = x[i]
           |     ^^^^^^^^
    """)
    assert str(item) == render(item)


def test_render_without_source_or_place_never_fails():
    assert render(Diagnostic("MPG_CORE_1900", "m")) == "error[MPG_CORE_1900]: m"
    for file in ("no such file.py", "", "<stdin>", "bad\0name", "/"):
        text = render(Diagnostic("MPG_CORE_1900", "m", Loc(file, 3, 2)))
        assert text.splitlines()[1].endswith(f"{file}:3:3")
        assert "^" not in text


@pytest.mark.parametrize("line", [0, -4, 10**9])
def test_render_with_a_line_that_does_not_exist(source, line):
    assert "^" not in render(Diagnostic("MPG_CORE_1900", "m", Loc(source("x\n"), line)))


def carets(file, *span):
    lines = render(Diagnostic("MPG_CORE_1900", "m", Loc(file, *span))).splitlines()
    return lines[3].split("| ", 1)[1], lines[4].split("| ", 1)[1]


def test_caret_stands_under_its_text(source):
    plain = source("total = alpha + beta\n")
    assert carets(plain, 1, 8, 1, 13) == ("total = alpha + beta", "        ^^^^^")
    assert carets(plain, 1, 8)[1] == "        ^", "one caret when the end is not known"
    assert carets(plain, 1, 8, 4, 2)[1] == "        ^^^^^^^^^^^^", "to the end of the line when the span goes on"
    assert carets(plain, 1, 99, 1, 100)[1] == " " * 20 + "^", "a column past the end"
    assert carets(plain, 1, 8, 1, 3)[1] == "        ^", "an end before the start"


def test_caret_with_tabs_wide_and_combining_characters(source):
    assert carets(source("\tx = 1\n"), 1, 1, 1, 2) == ("    x = 1", "    ^")
    assert carets(source("ab\tx\n", "<t2>"), 1, 3, 1, 4) == ("ab  x", "    ^")
    assert carets(source('s = "日本" + q\n', "<w>"), 1, 11, 1, 12)[1] == " " * 13 + "^", "wide: two columns each"
    assert carets(source("e\u0301 = q\n", "<c>"), 1, 5, 1, 6)[1] == "    ^", "a combining accent takes no column"
    assert carets(source("v = π + q\n", "<g>"), 1, 4, 1, 5)[1] == "    ^"


def test_a_very_long_line_is_cut_around_the_carets(source):
    shown, under = carets(source("x = " + "1 + " * 500 + "wrong + " + "2 + " * 500 + "0\n"), 1, 2004, 1, 2009)
    assert len(shown) <= 170
    assert shown.startswith("... ") and shown.endswith(" ...")
    assert shown[under.index("^") : under.index("^") + 5] == "wrong" and under.count("^") == 5


def test_inlined_code_shows_the_calls(source):
    file = source("def f(x): return x[-1]\ny = f(a)\n")
    text = render(Diagnostic("MPG_PY_1010", "m", Loc(file, 1, 19, inlined_at=Loc(file, 2, 4, 2, 8, function="k"))))
    assert "note: called from here in `k`\n --> <cell 1>:2:5\n  |\n2 | y = f(a)\n  |     ^^^^" in text


def test_an_edited_file_shows_its_new_text(tmp_path):
    import os

    path = tmp_path / "k.py"
    item = Diagnostic("MPG_CORE_1900", "m", Loc(str(path), 1))
    path.write_text("old = 1\n")
    assert "old = 1" in render(item)
    path.write_text("newer = 22\n")
    os.utime(path, (1, 1))
    assert "newer = 22" in render(item)


def test_colour_only_when_asked(source):
    item = Diagnostic("MPG_CORE_1900", "m", Loc(source("x = 1\n"), 1), help="h")
    assert "\x1b" not in render(item)
    colored = render(item, color=True)
    assert "\x1b[1;31m" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == render(item)


def test_several_diagnostics_are_separated():
    item = Diagnostic("MPG_CORE_1900", "m")
    assert render([item, item]) == "error[MPG_CORE_1900]: m\n\nerror[MPG_CORE_1900]: m"
    assert render([]) == ""


def test_compile_error_holds_and_shows_diagnostics():
    warning = Diagnostic("MPG_CORE_1401", "w")
    error = CompileError([warning, Diagnostic("MPG_CORE_1400", "e")])
    assert isinstance(error, MagpieError)
    assert error.code == "MPG_CORE_1400"
    assert "error[MPG_CORE_1400]: e" in str(error) and "warning[MPG_CORE_1401]: w" in str(error)
    assert CompileError(warning).diagnostics == (warning,)
    assert pickle.loads(pickle.dumps(error)).diagnostics == error.diagnostics
    with pytest.raises(ValueError, match="at least one"):
        CompileError([])


def test_compile_warning():
    item = Diagnostic("MPG_CORE_1401", "w")
    with pytest.warns(CompileWarning, match=r"warning\[MPG_CORE_1401\]: w"):
        import warnings

        warnings.warn(CompileWarning(item), stacklevel=1)
    assert CompileWarning(item).diagnostic is item
    assert CompileWarning("text").diagnostic is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("MPG1200", "MPG_CORE_1300"),
        ("MPG1201", "MPG_CORE_1201"),
        ("MPG1103", "MPG_CORE_1103"),
        ("mpg1107", "MPG_CORE_1107"),
        ("XPU-N01", "MPG_CPU_1001"),
        ("xpu-n02", "MPG_CPU_1002"),
        (" mpg-core-1400 ", "MPG_CORE_1400"),
    ],
)
def test_legacy_names_resolve(old, new):
    assert resolve(old).code == new
    assert new in explain(old)


def test_explain_shows_title_text_and_the_new_name():
    text = explain("MPG_CORE_1400")
    assert text.startswith("error[MPG_CORE_1400]: Barrier in divergent control flow\n\n")
    assert "wrong:" in text and "right:" in text
    assert explain("MPG1200").startswith("MPG1200 is now MPG_CORE_1300.\n")
    assert "is now" not in explain("mpg_core_1400")


@pytest.mark.parametrize("name", ["MPG_PY_104", "MPG_PI_1004", "MPG1999", "race", "", "🙂", "%s"])
def test_unknown_codes_get_suggestions_or_a_way_on(name):
    with pytest.raises(UnknownCode) as caught:
        explain(name)
    assert "magpie explain --list" in str(caught.value)
    assert len(caught.value.suggestions) <= 5


def test_suggestions_are_near():
    assert "MPG_PY_1004" in nearest("MPG_PI_1004")
    assert set(nearest("race")) == {"MPG_SAN_1001", "MPG_SAN_1002"}


def test_listing_by_family():
    assert {row.family for row in listing("py")} == {"PY"}
    assert len(listing()) == len(table())


def test_gpu_error_kinds_are_the_twelve_in_order():
    names = (
        "DeviceLost OutOfMemory LaunchFailed InvalidKernel BackendUnavailable BufferError TimeoutExpired Unsupported "
        "CompilationFailed DriverError ResourceExhausted ValidationFailed"
    )
    assert [kind.name for kind in GpuErrorKind] == names.split()
    assert [kind.value for kind in GpuErrorKind] == list(range(12))
    assert all(kind.advice for kind in GpuErrorKind)


def test_gpu_error_says_what_to_do():
    error = GpuError(GpuErrorKind.OutOfMemory, "cuda", "cannot allocate 8.0 GiB", 2, diagnostic="MPG_LAUNCH_1010")
    assert str(error) == (
        "OutOfMemory[MPG_LAUNCH_1010] on cuda: cannot allocate 8.0 GiB (driver code 2)\n"
        "  help: free arrays that are no longer used, or run the work in smaller pieces"
    )
    assert "on" not in str(GpuError(GpuErrorKind.Unsupported, "", "m", help="h"))
    assert str(GpuError(GpuErrorKind.Unsupported, "", "m", help="h")) == "Unsupported: m\n  help: h"


def test_launch_errors_are_caught_as_what_they_are():
    with pytest.raises(TypeError):
        raise LaunchTypeError("takes 3 arguments, got 2", diagnostic="MPG_LAUNCH_1001")
    with pytest.raises(ValueError):
        raise LaunchValueError("the grid is negative", diagnostic="MPG_LAUNCH_1006")
    assert LaunchTypeError("m").kind is GpuErrorKind.ValidationFailed


@pytest.mark.parametrize("cls", [LaunchTypeError, LaunchValueError])
def test_errors_cross_process_borders(cls):
    error = cls("m", backend="cpu", diagnostic="MPG_LAUNCH_1001", help="h")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is cls and str(again) == str(error) and again.args == error.args


def test_clean_drops_internal_frames(monkeypatch):
    def inner():
        raise GpuError(GpuErrorKind.Unsupported, "", "m")

    def public():
        try:
            inner()
        except MagpieError as error:
            raise clean(error) from None

    with pytest.raises(GpuError) as caught:
        public()
    assert "inner" not in [entry.name for entry in caught.traceback]
    monkeypatch.setenv("MAGPIE_DEBUG", "1")
    with pytest.raises(GpuError) as caught:
        public()
    assert "inner" in [entry.name for entry in caught.traceback]
