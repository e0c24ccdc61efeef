"""`.mp` text at random: trees that are printed and read again. Changed files are in `test_mp_fuzz`."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from magpie import knobs
from magpie.frontend.mp import Source, canonical, format_module, nodes, parse, show
from magpie.frontend.mp.literals import FLOAT_TYPES, INT_TYPES, check_range

words = st.sampled_from(["x", "y1", "bbox", "value", "left_over", "T", "case"])
names = st.sampled_from(["i.add", "gpu.barrier", "f", "arr.new", "gpu.buffer_load", "icmp.ult"])
labels = st.sampled_from(["bb0", "bb1", "bb_out"])
texts = st.text(st.characters(codec="utf-8"), max_size=6)


def some(values, most=3):
    return st.lists(values, max_size=most).map(tuple)


def build(cls, *args, **kwargs):
    return st.builds(cls, *args, **kwargs)


types = st.recursive(
    build(nodes.Type, st.sampled_from(["i32", "Str", "TPoint", "gpu.TError", "ptr"])),
    lambda inner: build(
        nodes.Type,
        st.sampled_from(["Array", "Map", "gpu.TBuffer"]),
        st.lists(st.one_of(inner, st.integers(-9, 512)), min_size=1, max_size=2).map(tuple),
        st.sampled_from([(), ("borrow",), ("mutborrow", "shared"), ("weak",)]),
    ),
    max_leaves=4,
)


def _consts():
    def of(name):
        if name in INT_TYPES:
            bits = int(name[1:])
            low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if name[0] == "i" else (0, (1 << bits) - 1)
            return build(nodes.Const, st.just(name), st.integers(low, high))
        floats = st.floats(allow_nan=False).filter(lambda x: check_range(name, x) is None)
        return build(nodes.Const, st.just(name), floats)

    return st.one_of(
        st.sampled_from(INT_TYPES + FLOAT_TYPES).flatmap(of),
        build(nodes.Const, st.just("bool"), st.booleans()),
        build(nodes.Const, st.just("Str"), texts),
        st.just(nodes.Const("unit", None)),
    )


consts = _consts()
values = build(nodes.Value, words)
refs = build(nodes.GlobalRef, words, st.sampled_from(["", "a.b"]))
operands = st.one_of(values, build(nodes.ErrValue, words), consts, refs)
leaves = st.one_of(operands, build(nodes.Word, names), build(nodes.Text, texts))
arguments = st.recursive(leaves, lambda inner: build(nodes.ListOf, some(inner)), max_leaves=4)
args = st.lists(build(nodes.Arg, words, arguments), max_size=4, unique_by=lambda arg: arg.key).map(tuple)
type_args = some(st.one_of(types, st.integers(0, 512)), 2)
phis = build(nodes.Phi, types, st.lists(build(nodes.Edge, labels, operands), min_size=1, max_size=3).map(tuple))
operations = st.one_of(
    build(nodes.Op, names, type_args, args),
    build(nodes.New, types, args),
    build(nodes.Capture, refs, args),
    build(nodes.Call, refs, type_args, args, st.sampled_from(["call", "call_void", ""])),
    build(nodes.TryCall, refs, type_args, args),
    build(nodes.Try, values, st.one_of(st.none(), labels)),
)
comment = st.text("ab ;%\t\"é", max_size=5).map(lambda text: (";" + text).rstrip())


def leads(first):
    """Comments and blank lines; before the first item of a list no blank line comes first."""

    def tidy(lines):
        kept = [line for n, line in enumerate(lines) if line or (n and lines[n - 1]) or (not n and not first)]
        return tuple(kept)

    return st.lists(st.one_of(comment, st.just("")), max_size=3).map(tidy)


def noted(values, first=False):
    def put(value, lead, trail):
        if lead or trail:
            value.notes = nodes.Notes(lead, trail)
        return value

    return st.builds(put, values, leads(first), st.one_of(st.just(""), comment))


def listed(values, most=3, least=0):
    """A list of items with comments, the first of which has no blank line before it."""
    rest = st.lists(noted(values), max_size=most - 1, min_size=max(least - 1, 0))
    full = st.builds(lambda one, more: (one, *more), noted(values, first=True), rest)
    return full if least else st.one_of(st.just(()), full)


tails = st.lists(comment, max_size=2).map(tuple)
plain = st.one_of(
    build(nodes.Assign, words, types, st.one_of(consts, refs, phis, operations)), build(nodes.Effect, operations)
)
instructions = st.one_of(plain, build(nodes.UnsafeBlock, listed(plain), tails))
literals = st.one_of(consts.filter(lambda c: c.value is not None), build(nodes.Const, st.just(""), st.integers()))
ends = st.one_of(
    build(nodes.Ret, st.one_of(st.none(), operands)),
    build(nodes.Br, labels),
    build(nodes.Cbr, operands, labels, labels),
    build(nodes.Switch, operands, listed(build(nodes.Case, literals, labels)), labels, tails),
    st.just(None).map(lambda _: nodes.Unreachable()),
)


@st.composite
def blocks(draw):
    made = []
    for n, label in enumerate(["bb0", "bb1", "bb_out"]):
        body = draw(listed(instructions))
        end = draw(noted(ends, first=not body))
        made.append(draw(noted(st.just(nodes.Block(label, body, end)), first=n == 0)))
    return tuple(made)


params = some(build(nodes.Param, words, types))
type_params = some(build(nodes.TypeParam, words.filter(lambda w: w[:2] not in ("bb", "va", "ca")), st.sampled_from([None, "type"])), 2)
signatures = build(nodes.Signature, words, params, types, type_params)
fields = listed(build(nodes.Field, words, types))
kinds = st.sampled_from(["", "heap", "value"])
gpus = build(nodes.Gpu, st.sampled_from(["spv", "ptx"]), st.sampled_from([None, (64, 1, 1)]))
variants = st.one_of(
    build(nodes.Variant, st.sampled_from(["A", "B"])),
    build(nodes.Variant, st.just("C"), listed(build(nodes.Field, words, types), least=1), tails),
)
decls = st.one_of(
    build(nodes.Function, signatures, blocks(), st.sampled_from(["", "async", "unsafe"]), st.none(), tails),
    build(nodes.Function, signatures, blocks(), st.just(""), gpus, tails),
    build(nodes.Struct, st.just("TS"), fields, kinds, type_params, tails),
    build(nodes.Enum, st.just("TE"), listed(variants), kinds, type_params, tails),
    build(nodes.Sig, st.just("TG"), some(build(nodes.SigParam, types, st.sampled_from(["", "x"]))), types),
    build(nodes.Global, words, types, arguments),
    build(nodes.Impl, st.just("hash"), types, refs),
    build(nodes.Extern, st.just("libm"), listed(build(nodes.ExternFn, signatures)), st.one_of(st.none(), texts), tails),
)
symbols = some(st.sampled_from(["@f", "TPoint", "a.@g"]))
headers = st.tuples(
    st.just(nodes.Header("module", ("a.b",))),
    build(nodes.Header, st.just("exports"), symbols),
    build(nodes.Header, st.just("imports"), some(build(nodes.Import, st.just("m.n"), st.one_of(st.none(), symbols)))),
    st.just(nodes.Header("digest", ("0" * 64,))),
)
modules = build(nodes.Module, headers, some(noted(decls, first=True), 2), tails)


@settings(max_examples=1000 if knobs.test_all() else 60, deadline=None)
@given(modules)
def test_a_printed_tree_reads_back_as_itself(tree):
    text = show(tree)
    again = parse(Source(text, "t.mp"))
    assert again.diagnostics == (), text
    assert again.module == tree, text
    form = format_module(tree)
    assert format_module(parse(Source(form, "t.mp")).checked) == form
    assert canonical(canonical(tree)) == canonical(tree)
