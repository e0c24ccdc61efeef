"""The Kernel IR of the main constructs, as text, and what the frontend promises about it."""

from __future__ import annotations

import textwrap

import pytest
from frontend_helpers import define, lowered

import magpie as mp
from magpie.frontend.python import NO_DEFAULT, lower, signature_of
from magpie.frontend.signature import ArrayArg, ConstArg, ScalarArg
from magpie.ir.nodes import walk
from magpie.ir.printer import print_kernel
from magpie.ir.verify import verify


def text_of(source: str, **options) -> str:
    kernel = lowered(source, **options).kernel
    verify(kernel)
    return print_kernel(kernel, locations=False)


GOLDEN: dict[str, tuple[str, str]] = {
    "saxpy": (
        """
        def k(wf, x, y):
            i = mp.global_id(0)
            if i < x.shape[0]:
                y[i] = wf * x[i] + y[i]
        """,
        """
        kernel k(wf: f32, x: array<f32, 1> read, y: array<f32, 1> read_write)
          %0 = param wf: f32
          %1 = global_id 0
          %2 = extent x, 0
          %3 = lt %1, %2
          if %3 {
            %4 = load x[%1]
            %5 = mul %0, %4
            %6 = load y[%1]
            %7 = add %5, %6
            store y[%1], %7
          }
        """,
    ),
    "while": (
        """
        def k(n, i32s):
            v = n
            while v > 1:
                if v % 2 == 0:
                    continue
                v = v // 2
            i32s[0] = v
        """,
        """
        kernel k(n: i32, i32s: array<i32, 1> write)
          %0 = param n: i32
          slot_set v, %0
          loop {
            %1 = slot_get v: i32
            %2 = const 1: i32
            %3 = gt %1, %2
            %4 = not %3
            break_if %4
            %5 = slot_get v: i32
            %6 = const 2: i32
            %7 = mod %5, %6
            %8 = const 0: i32
            %9 = eq %7, %8
            if %9 {
              continue
            }
            %10 = slot_get v: i32
            %11 = const 2: i32
            %12 = floordiv %10, %11
            slot_set v, %12
          }
          %13 = slot_get v: i32
          %14 = const 0: index
          store i32s[%14], %13
        """,
    ),
    "short circuit": (
        """
        def k(n, x, out):
            if n < x.shape[0] and x[n] > 0.0:
                out[0] = 1.0
        """,
        """
        kernel k(n: i32, x: array<f32, 1> read, out: array<f32, 1> write)
          %0 = param n: i32
          %1 = extent x, 0
          %2 = cast %0: index
          %3 = lt %2, %1
          slot_set and, %3
          if %3 {
            %4 = load x[%0]
            %5 = const 0.0: f32
            %6 = gt %4, %5
            slot_set and, %6
          }
          %7 = slot_get and: bool
          if %7 {
            %8 = const 0: index
            %9 = const 1.0: f32
            store out[%8], %9
          }
        """,
    ),
    "pure arms are selected": (
        """
        def k(f, out):
            out[0] = f if f > 0 else -f
        """,
        """
        kernel k(f: f32, out: array<f32, 1> write)
          %0 = param f: f32
          %1 = const 0.0: f32
          %2 = gt %0, %1
          %3 = neg %0
          %4 = select %2, %0, %3: f32
          %5 = const 0: index
          store out[%5], %4
        """,
    ),
    "device function": (
        """
        @mp.func
        def divmod2(a, b):
            return a // b, a % b
        def k(n, i32s):
            q, r = divmod2(n, 7)
            i32s[0] = q
            i32s[1] = r
        """,
        """
        kernel k(n: i32, i32s: array<i32, 1> write)
          func @divmod2(a: i32) -> (i32, i32) {
            %0 = param a: i32
            %1 = const 7: i32
            %2 = floordiv %0, %1
            %3 = const 7: i32
            %4 = mod %0, %3
            return %2, %4
          }
          %5 = param n: i32
          %6 = call @divmod2, %5
          %7 = call_result %6, 0: i32
          %8 = call_result %6, 1: i32
          %9 = const 0: index
          store i32s[%9], %7
          %10 = const 1: index
          store i32s[%10], %8
        """,
    ),
    "struct": (
        """
        def k(p, ps):
            ps[0].x += p.y
            ps[1] = P(1.0, p.x)
        """,
        """
        kernel k(p: struct P{x: f32 @0, y: f32 @4; 8}, ps: array<struct P{x: f32 @0, y: f32 @4; 8}, 1> read_write)
          %0 = param p: P
          %1 = struct_get 0, %0: f32
          %2 = struct_get 1, %0: f32
          %3 = const 0: index
          %4 = load ps[%3].x
          %5 = add %4, %2
          store ps[%3].x, %5
          %6 = const 1.0: f32
          %7 = const 1: index
          store ps[%7].x, %6
          store ps[%7].y, %1
        """,
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name):
    source, expected = GOLDEN[name]
    assert text_of(source).strip() == textwrap.dedent(expected).strip()


def ops(source: str, **options) -> list[str]:
    return [n.op for body in lowered(source, **options).kernel.bodies() for n in walk(body)]


def test_a_negative_step_and_the_loop_variable():
    found = ops("def k(n, out):\n    for j in range(n, -1, -2):\n        out[j] = 1.0\n")
    assert found.count("trip_count") == 1
    assert "slot_get" in found


def test_dead_branches_are_not_typed():
    source = """
    def k(c3, x):
        if c3 == 3:
            x[0] = 1.0
        else:
            x.nonsense = undefined + [1, 2]
    """
    assert ops(source).count("store") == 1


def test_one_branch_of_a_constant_if_keeps_constants():
    source = """
    def k(c3, x):
        if c3 == 3:
            n = 4
        else:
            n = 8
        s = mp.local(n, mp.f32)
        s[0] = 1.0
    """
    assert lowered(source).kernel.locals[0].shape == (4,)


def test_shared_lengths_that_the_host_computes():
    source = """
    def k(n, x, m):
        s = mp.shared(2 * n + x.shape[0], mp.f32)
        t = mp.shared((mp.workgroup_size(0) + 2, m.shape[1]), mp.f64)
        s[0] = 1.0
        t[0, 0] = 1.0
    """
    s, t = lowered(source).kernel.shared
    # 2 * n is an i32, and the host computes with 64 bits
    wide = ("cast", "index", ("cast", "i32", ("mul", ("const", 2), ("param", "n"))))
    assert s.shape == (("add", wide, ("extent", "x", 0)),)
    assert t.shape == (("add", ("workgroup_size", 0), ("const", 2)), ("extent", "m", 1))
    assert lowered(source, workgroup=(64, 1, 1)).kernel.shared[1].shape == (66, ("extent", "m", 1))


def test_functions_are_specialised_once_per_kind_of_argument():
    source = "def k(x, d, out):\n    out[0] = square(x[0]) + square(x[1]) + square(d[0])\n"
    assert len(lowered(source).kernel.functions) == 2


def test_arrays_of_a_function_belong_to_the_specialisation():
    source = """
    @mp.func
    def put(a, i, v):
        a[i] = v
    def k(x, y, m, n):
        put(x, 0, 1.0)
        put(y, 0, 1.0)
        put(m[n], 1, 2.0)
        put(m[n + 1], 1, 2.0)
    """
    kernel = lowered(source).kernel
    assert len(kernel.functions) == 3
    assert [p.name for p in kernel.functions[2].params] == ["a.at0"]


def test_one_shared_array_per_specialisation():
    source = """
    @mp.func
    def total(v):
        s = mp.shared(64, v.dtype)
        s[mp.thread_id(0)] = v
        mp.barrier()
        return s[0]
    def k(x, d, out):
        out[0] = total(x[0]) + total(x[1]) + total(d[0])
    """
    assert [(s.name, s.type.name) for s in lowered(source).kernel.shared] == [("s", "f32"), ("s_2", "f64")]


def test_capabilities_and_access():
    kernel = lowered("def k(x, y):\n    y[0] = mp.subgroup.sum(x[0])\n").kernel
    assert kernel.requires == {"subgroups"}
    assert [b.access for b in kernel.buffers] == ["read", "write"]


def test_rare_operations_have_rows():
    source = """
    def k(x, n):
        mp.grid_sync()
        q = mp.malloc(n, mp.f32)
        q[1] = 2.0
        q[1] += 1.0
        x[0] = q[1]
        mp.free(q)
        mp.trap("stop")
        mp.fence(scope="workgroup", order="release")
    """
    declared = frozenset({"cooperative_groups", "device_malloc"})
    kernel = lowered(source, requires=declared).kernel
    assert kernel.requires == declared
    assert {"ptr_load", "ptr_store", "malloc", "free", "trap", "grid_sync", "fence"} <= {
        n.op for n in walk(kernel.body)
    }


def test_print_and_assert():
    kernel = lowered(
        'def k(n, x):\n    mp.print("a", n, f"{x[0]}|{n=}")\n    assert n > 0, "positive"\n    assert n < 9\n'
    ).kernel
    nodes = {n.op: n for n in walk(kernel.body)}
    assert nodes["print"].attrs["pieces"] == ("a ", " ", "|n=", "")
    assert [n.attrs["message"] for n in walk(kernel.body) if n.op == "assert"] == ["positive", "assert n < 9"]


def test_every_node_has_a_place():
    source = "def k(n, x, m):\n    for j in range(n):\n        x[j] = m[j, 1:3][0] if j > 2 and x[j] > 0.0 else square(x[0])\n"
    for body in lowered(source).kernel.bodies():
        for node in walk(body):
            assert node.loc is not None, node
            assert node.loc.line >= 1


def test_columns():
    kernel = lowered("def k(x, n):\n    x[n] = 1.0 + n * 2\n").kernel
    add = next(n for n in walk(kernel.body) if n.op == "add")
    assert (add.loc.line, add.loc.col, add.loc.end_col) == (2, 11, 22)


def test_lowering_twice_gives_the_same():
    source = "def k(x, n):\n    v = 0\n    for j in range(n):\n        v += x[j]\n    x[0] = v\n"
    assert text_of(source) == text_of(source)


# --- parameters ------------------------------------------------------------------------------------------------------------
def test_signature():
    fn = define(
        """
        def k(a, x: mp.Array[mp.f32], y: "mp.Array[mp.f64, 2]", z: mp.Array, n: mp.i32 = 3, *, p: P, c: mp.constexpr = 1, i: int = 0):
            pass
        """
    )["k"]
    found = {
        p.name: (p.kind, getattr(p.type, "name", None), p.rank, p.default, p.keyword_only) for p in signature_of(fn)
    }
    assert found == {
        "a": ("any", None, None, NO_DEFAULT, False),
        "x": ("array", "f32", None, NO_DEFAULT, False),
        "y": ("array", "f64", 2, NO_DEFAULT, False),
        "z": ("array", None, None, NO_DEFAULT, False),
        "n": ("scalar", "i32", None, 3, False),
        "p": ("scalar", "P", None, NO_DEFAULT, True),
        "c": ("constexpr", None, None, 1, True),
        "i": ("any", None, None, 0, True),
    }


def test_future_annotations_find_closures():
    scope = define(
        """
        from __future__ import annotations
        def make(T):
            def k(x: mp.Array[T], n: T):
                x[0] = n
                _ = T
            return k
        """
    )
    assert [str(p.type) for p in signature_of(scope["make"](mp.f64))] == ["f64", "f64"]


def test_constants_of_every_kind():
    source = """
    def k(x, c):
        x[0] = c[1] if c is not None else 0
    """
    for value, stored in (((1, 2), 2.0), (None, 0.0), ((1.5, 2.5), 2.5)):
        kernel = lowered(source, args={"c": ConstArg(value)}).kernel
        assert next(n for n in walk(kernel.body) if n.op == "store").args[1].attrs["value"] == stored
    kernel = lowered("def k(x, c):\n    x[0] = c(x[0])\n", args={"c": ConstArg(mp.f16)}).kernel
    assert "f16" in print_kernel(kernel)


def test_sources_of_every_shape():
    scope = define(
        """
        def deco(**options):
            return lambda fn: fn
        class Place:
            def make(self):
                @deco(
                    a=1,
                )
                def k(
                    x: mp.Array[mp.f32],
                    n: mp.i32 = 3,
                ):
        # a comment further left
                    text = \'\'\'a string
        at column 0\'\'\'
                    i = mp.global_id(
        0)
                    if i < n:
                        x[i] = (1.0 +
        2.0)

                    x[i] += 1.0  # ünïcödé
                return k
        def after(): pass
        """.replace("\\'", "'")
    )
    kernel = lower(scope["Place"]().make(), (ArrayArg(mp.f32, 1), ScalarArg(mp.i32))).kernel
    assert sorted(n.loc.line for n in walk(kernel.body) if n.op == "store") == [18, 21]


def test_weak_values_are_computed_once():
    lines = ["a0 = wf"] + [f"a{i} = a{i - 1} + a{i - 1}" for i in range(1, 40)]
    source = "def k(wf, x):\n" + "".join(f"    {line}\n" for line in [*lines, "x[0] = a39", "x[1] = a39"])
    assert ops(source).count("add") == 39


def test_names_that_begin_with_an_underscore_take_anything():
    ops("def k(x, i32s, n):\n    q, _ = divmod(n, 3)\n    m, _ = math.frexp(x[0])\n    _ = i32s\n")


def test_members_of_enums_are_constants():
    source = """
    import enum
    class Mode(enum.Enum):
        HALF = 0.5
        FULL = 1.0
    class Side(enum.IntEnum):
        LEFT = 3
    def k(x, c):
        if c is Mode.HALF:
            x[0] = Mode.FULL.value + Side.LEFT
    """
    scope = define(source)
    for mode, count in (("HALF", 1), ("FULL", 0)):
        kernel = lower(scope["k"], (ArrayArg(mp.f32, 1), ConstArg(scope["Mode"][mode]))).kernel
        assert [n.args[1].attrs["value"] for n in walk(kernel.body) if n.op == "store"] == [4.0] * count


# --- captured values --------------------------------------------------------------------------------------------------------
def test_dependencies_tell_when_a_captured_number_changes():
    scope = define("N = 3\ndef k(x):\n    x[0] = N\n")
    found = lower(scope["k"], (ArrayArg(mp.f32, 1),)).dependencies
    assert not found.changed()
    scope["N"] = 3
    assert not found.changed()
    scope["N"] = 4
    assert found.changed()
    scope["N"] = 3.0
    assert found.changed()
    del scope["N"]
    assert found.changed()


def test_dependencies_of_closures_and_device_functions():
    scope = define(
        """
        M = 2
        @mp.func
        def f(v):
            return v * M
        def make():
            n = 1
            def k(x):
                x[0] = f(x[0]) + n
            def bump():
                nonlocal n
                n += 1
            return k, bump
        """
    )
    k, bump = scope["make"]()
    found = lower(k, (ArrayArg(mp.f32, 1),)).dependencies
    assert len(found) == 3
    bump()
    assert found.changed()
    found = lower(k, (ArrayArg(mp.f32, 1),)).dependencies
    scope["M"] = 5
    assert found.changed()


def test_captured_numpy_scalars():
    import numpy as np

    source = "def k(h, x, d):\n    h[0] = h[1] * A\n    d[0] = d[1] * B\n    x[0] = x[1] * C\n"
    text = text_of(source, A=np.float64(0.5), B=np.float32(0.1), C=np.int64(3))
    assert "const 0.5: f16" in text
    assert f"const {float(np.float32(0.1))!r}: f32" in text  # a float32 keeps its type, and is widened


def test_arguments_must_match_the_parameters():
    with pytest.raises(TypeError):
        lower(define("def k(x): pass")["k"], (ScalarArg(mp.f32), ScalarArg(mp.f32)))
