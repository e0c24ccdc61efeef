"""What the type parameters of a signature stand for, found from the types that are there."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from magpie.mpir.nodes import Module
from magpie.mpir.prelude import fields_of, replace, variants_of
from magpie.mpir.signatures import CLASSES
from magpie.mpir.types import Ty, scalar

__all__ = ["Unifier", "bare", "belongs", "wanted_of"]

_MOST_TYPES = 4096  # structs inside of the elements of a buffer; the frontend has said what has more


def bare(type_: Ty) -> Ty:
    """The type without borrow, mutborrow and shared, inside too."""
    found = type_.owned
    return Ty(found.name, tuple(map(bare, found.args)), found.mode) if found.args else found


def _is_scalar(module: Module, type_: Ty) -> bool:
    return type_.is_int or type_.is_float or type_.is_bool


def _is_text(module: Module, type_: Ty) -> bool:
    return _is_scalar(module, type_) or type_.name == "Str"


def _is_equal(module: Module, type_: Ty) -> bool:
    variants = variants_of(module, type_)
    return _is_text(module, type_) or (variants is not None and not any(variants.values()))


def _is_element(module: Module, type_: Ty) -> bool:
    todo, seen = [type_], set[Ty]()
    while todo and len(seen) <= _MOST_TYPES:
        at = todo.pop()
        if scalar(at) is None and at not in seen:
            struct, fields = module.struct(at.name), fields_of(module, at)
            if struct is None or struct.heap or not fields:
                return False
            seen.add(at)
            todo += [field for _, field in fields]
    return not todo


def _is_key(module: Module, type_: Ty) -> bool:
    if type_.is_int or type_.is_bool or type_.name == "Str":
        return True
    keys: dict[Ty, set[str]] = module.memo.setdefault("impls", {})
    if not keys:
        for impl in module.impls:
            keys.setdefault(bare(impl.type), set()).add(impl.what)
    return {"hash", "eq"} <= keys.get(type_, set())


_CLASSES: dict[str, tuple[Callable[[Module, Ty], bool], str]] = {
    "any": (lambda _, t: True, "any type"),
    "int": (lambda _, t: t.is_int, "an integer type"),
    "real": (lambda _, t: t.name in ("f32", "f64"), "f32 or f64"),
    "num": (lambda _, t: t.is_int or t.is_float, "a type of numbers"),
    "scalar": (_is_scalar, "a type of numbers, or bool"),
    "text": (_is_text, "a type of numbers, bool or Str"),
    "equal": (_is_equal, "a type of numbers, bool, Str or an enum without fields"),
    "ordered": (lambda _, t: t.is_int or t.is_float or t.name == "Str", "a type of numbers, or Str"),
    "element": (_is_element, "a scalar that kernels have, or a value struct of them"),
    "key": (_is_key, "an integer, bool, Str, or a type with an `impl hash` and an `impl eq`"),
    "enum": (lambda m, t: variants_of(m, t) is not None, "an enum"),
}
assert _CLASSES.keys() == CLASSES


def belongs(module: Module, type_: Ty, cls: str) -> bool:
    """Whether a class of the table of signatures holds a type."""
    return not type_.mode and _CLASSES[cls][0](module, type_) if cls != "any" else True


def wanted_of(cls: str) -> str:
    """The class in words."""
    return _CLASSES[cls][1]


class Unifier:
    """``found`` is what the parameters stand for so far; a callable that may take more than its signature says is
    found as the types of the rest."""

    def __init__(self, module: Module, params: Iterable[str]) -> None:
        self.module = module
        self.params = frozenset(params)
        self.found: dict[str, Ty] = {}

    def fits(self, want: Ty, got: Ty) -> bool:
        """Whether a value of type ``got`` goes where ``want`` stands."""
        if ("weak" in want.mode) != ("weak" in got.mode):
            return False
        name = want.name
        if not want.args:
            if name in self.params:
                type_ = bare(Ty(got.name, got.args))
                return self.found.setdefault(name, type_) == type_
            if name in CLASSES:
                return belongs(self.module, got.owned, name)
            return name == got.name and not got.args
        if name == "fn":
            return self._callable(want, got)
        if name == "maybe":
            fails = got.name == "TResult" and got.args[1:] == (Ty("gpu.TError"),)
            # a gradient fails where what it is of does
            return self.fits(want.args[0], got.args[0] if fails else got) and self._same("maybe", Ty(str(fails)))
        return name == got.name and len(want.args) == len(got.args) and all(map(self.fits, want.args, got.args))

    def _callable(self, want: Ty, got: Ty) -> bool:
        sig = self.module.sig(got.args[0].name) if got.name == "TCallable" and len(got.args) == 1 else None
        if sig is None:
            return False
        *params, ret = want.args
        given = list(sig.params)
        if params and params[-1].name == "...":
            params.pop()
            if len(given) < len(params) or not self._same("...", Ty("...", tuple(map(bare, given[len(params) :])))):
                return False
            given = given[: len(params)]
        return len(params) == len(given) and all(map(self.fits, params, given)) and self.fits(ret, sig.ret)

    def _same(self, what: str, type_: Ty) -> bool:
        return self.found.setdefault(what, type_) == type_

    def shown(self, want: Ty) -> str:
        """A type with what its parameters stand for."""
        if want.name == "fn":
            *params, ret = want.args
            return f"a TCallable of ({', '.join(map(self.shown, params))}) -> {self.shown(ret)}"
        if want.name == "maybe":
            inner = self.shown(want.args[0])
            return f"{inner} or TResult<{inner}, gpu.TError>"
        if want.name in self.params and want.name not in self.found:
            return "a value"
        if want.name in CLASSES and want.name != "enum":
            return wanted_of(want.name)
        return str(replace(want, self.found))


