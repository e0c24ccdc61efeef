"""What the header of a module imports, and which function of another module a name is."""

from __future__ import annotations

from magpie.frontend.mp import nodes
from magpie.frontend.mp.names import Names
from magpie.mpir.prelude import ENUMS, HANDLES, STRUCTS
from magpie.mpir.signatures import MODULES, NAMES, functions_of

__all__ = ["Imports"]


class Imports:
    """``functions`` are the modules of imported functions by the functions' names."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.functions: dict[str, str] = {}
        self.externs: dict[str, set[str]] = {
            d.name: {f.signature.name for f in d.functions} for d in names.module.decls if isinstance(d, nodes.Extern)
        }
        self.extern: set[str] = set().union(*self.externs.values())
        header = names.module.head("imports")
        self.items = [item for item in header.items if isinstance(item, nodes.Import)] if header is not None else []
        for item in self.items:
            self.functions |= {s[1:]: item.module for s in item.symbols or () if s.startswith("@")}

    def check(self) -> None:
        """Say what is imported and not there."""
        for item in self.items:
            known = self.externs.get(item.module) or functions_of(item.module)
            if not known:
                near = self.names.near(item.module, MODULES)
                helped = f"did you mean {near}?" if near else f"there are {', '.join(MODULES)}"
                self.names.report("MPT0013", f"there is no module {item.module}", item, help=helped)
                continue
            for symbol in item.symbols or ():
                name = symbol.removeprefix("@")
                if symbol.startswith("@") and name in self.names.functions:
                    text = f"{symbol} is imported from {item.module}, and declared here"
                    self.names.report("MPT0013", text, item, help=f"call {item.module}.{symbol} by its full name")
                elif name not in known if symbol.startswith("@") else not self._is_type(item.module, symbol):
                    near = self.names.near(name, known)
                    help = f"did you mean @{near}?" if near else None
                    self.names.report("MPT0013", f"module {item.module} has no {symbol}", item, help=help)

    def _is_type(self, module: str, name: str) -> bool:
        known = STRUCTS.keys() | ENUMS.keys() | HANDLES.keys()
        return name in known or f"{module}.{name}" in known

    def module_of(self, ref: nodes.GlobalRef) -> str:
        """The module of a function by the name that it is called by; empty for this module's own functions."""
        module = ref.module or ("" if ref.name in self.names.functions else self.functions.get(ref.name, ""))
        return "" if module == self.names.module.path else module

    def unknown(self, ref: nodes.GlobalRef) -> tuple[str, str] | None:
        """What to say of a function that is neither of this module nor imported, and how it is got."""
        module = self.module_of(ref)
        extern = self.externs.get(module, set()) if module else self.extern
        if ref.name in extern:
            return f"@{ref.name} is of an extern module, which host programs do not load", ""
        if module or ref.name in self.names.functions:
            return None
        owners = [name.partition(".@")[0] for name in NAMES if name.endswith(f".@{ref.name}")]
        if not owners:
            return None
        shown = " or ".join(f"{owner}::{{@{ref.name}}}" for owner in owners)
        return f"@{ref.name} is not imported", f"imports {{ {shown} }}, or call {owners[0]}.@{ref.name}"
