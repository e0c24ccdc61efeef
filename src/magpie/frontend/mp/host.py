"""Names and types in the functions of host programs, which no kernel calls.

Operations that kernels have too are checked by the rules of MPIR, one by one; of what only hosts have, values must be
there, and launches must fit their kernels.
"""

from __future__ import annotations

from magpie.frontend.mp import nodes
from magpie.frontend.mp.lower import Lowering, flat
from magpie.frontend.mp.names import Names, ty
from magpie.mpir import nodes as m
from magpie.mpir.ops import OPS, is_host
from magpie.mpir.types import Ty
from magpie.mpir.verify import verify_each

__all__ = ["check_hosts"]

_LAUNCHES = ("gpu.launch", "gpu.launch_async")


def check_hosts(names: Names, kernels: m.Module) -> None:
    """Check every function that is no part of ``kernels``; errors go to ``names.found``."""
    module = m.Module(kernels.name, kernels.structs, file=kernels.file)
    for f in names.functions.values():
        params = [(p.name, ty(p.type)) for p in f.signature.params]
        gpu = m.GpuMeta(f.gpu.target) if f.gpu is not None else None
        module.functions.append(m.Function(f.name, params, ty(f.signature.result), gpu_meta=gpu))
    for f in names.functions.values():
        if not f.signature.type_params and kernels.function(f.name) is None:
            before = len(names.found)
            host = _Host(names, f, module)
            made = host.lower()
            made.params += host.more.items()
            if len(names.found) == before:
                names.found += verify_each(module, made, names.near)


class _Host(Lowering):
    """``more``: values whose operations are not lowered, with their types, so that what uses them is checked."""

    def __init__(self, names: Names, function: nodes.Function, module: m.Module) -> None:
        super().__init__(names, function)
        self.module = module
        self.more: dict[str, Ty] = {}
        self.missing: set[str] = set()
        defined = {p.name for p in function.signature.params}
        for block in function.blocks:
            for item, _ in flat(block.body):
                if isinstance(item, nodes.Assign):
                    if item.result in defined:
                        self.report("MPS0003", f"%{item.result} is defined twice in @{function.name}", item)
                    defined.add(item.result)
        self.check_phis()

    def check_phis(self) -> None:
        """A phi names each block once that leads to its own, by its end or by a `try`."""
        before: dict[str, dict[str, None]] = {}
        for block in self.function.blocks:
            tries = [i.value.target for i, _ in flat(block.body) if isinstance(i.value, nodes.Try) and i.value.target]
            for label in (*tries, *m.targets(self.terminator(block.terminator))):
                before.setdefault(label, {})[block.label] = None
        for block in self.function.blocks:
            wanted = before.get(block.label, {})
            for item, _ in flat(block.body):
                if isinstance(item, nodes.Assign) and isinstance(item.value, nodes.Phi):
                    given = [edge.block for edge in item.value.edges]
                    if len(set(given)) != len(given) or set(given) != set(wanted):
                        shown = ", ".join(wanted) or "no block"
                        text = (
                            f"phi %{item.result} is for {', '.join(given)}, and what leads to {block.label} is {shown}"
                        )
                        self.report("MPS0006", text, item)

    # --- operands ----------------------------------------------------------------------------------------------------
    def operand(self, value: nodes.Operand) -> m.Operand:
        match value:
            case nodes.Value() | nodes.ErrValue() if value.name not in self.types:
                if value.name not in self.missing:
                    self.missing.add(value.name)
                    near = self.names.near(value.name, self.types)
                    help = f"did you mean %{near}?" if near else None
                    self.report("MPS0002", f"there is no value %{value.name} in @{self.function.name}", value, help)
                return m.Var(value.name)
            case nodes.ErrValue():
                type_ = self.types[value.name].owned
                if type_.name != "TResult" or len(type_.args) != 2:
                    self.report("MPS0004", f"%{value.name} has type {type_}, and no error", value)
                else:
                    self.more[f"{value.name}.err"] = type_.args[1]
                return m.Var(f"{value.name}.err")
            case nodes.GlobalRef() if self.names.is_own(value) and value.name in self.names.globals:
                self.more[f"@{value.name}"] = ty(self.names.globals[value.name].type)
                return m.Var(f"@{value.name}")
        return super().operand(value)

    # --- instructions ------------------------------------------------------------------------------------------------
    def instruction(self, item: nodes.Assign | nodes.Effect) -> m.Instr | None:
        value = item.value
        if self.is_shared(value):
            return super().instruction(item)
        if isinstance(item, nodes.Assign):
            self.more[item.result] = ty(item.type)
        match value:
            case nodes.GlobalRef():
                if self.names.is_own(value) and value.name in self.names.globals:
                    known = ty(self.names.globals[value.name].type)
                    if isinstance(item, nodes.Assign) and known.owned != ty(item.type).owned:
                        self.report("MPS0004", f"@{value.name} is {known}, not {ty(item.type)}", item)
                elif self.names.is_own(value) and value.name not in self.names.functions:
                    self.report("MPT0003", f"there is no global @{value.name} in this module", value)
            case nodes.TryCall():
                if self.is_plain(value.callee):  # what is given is checked; what comes back is a TResult
                    call = nodes.Call(value.callee, value.type_args, value.args, at=value.at, end=value.end)
                    return self.call(m.Instr("", loc=self.loc(item)), call)
                self.arguments(value.args)
            case nodes.Try():
                self.operand(value.value)
            case nodes.Op():
                args = self.arguments(value.args)
                if value.name in _LAUNCHES:
                    self.launch(value, args)
            case nodes.Call() | nodes.New() | nodes.Capture():
                self.arguments(value.args)
        return None

    def is_shared(self, value: object) -> bool:
        """Whether the rules of kernels hold for an operation: what it takes and gives, not where it may stand."""
        match value:
            case nodes.Const():
                return value.type != "unit"
            case nodes.Op("getfield"):
                obj = next((a.value for a in value.args if a.key == "obj"), None)
                type_ = self.types.get(obj.name) if isinstance(obj, nodes.Value) else None
                return type_ is not None and self.module.struct(type_.name) is not None
            case nodes.Op():
                return value.name in OPS or not (is_host(value.name) or value.name.startswith("call_void."))
            case nodes.New():
                return self.module.struct(value.type.name) is not None
            case nodes.Call():
                known = self.is_plain(value.callee)
                return known or (self.names.is_own(value.callee) and not self.is_known(value.callee.name))
        return False

    def is_plain(self, ref: nodes.GlobalRef) -> bool:
        """Whether a function is of this module, and its parameters have types that are known."""
        known = self.names.functions.get(ref.name) if self.names.is_own(ref) else None
        return known is not None and not known.signature.type_params and known.modifier != "async"

    def is_known(self, name: str) -> bool:
        return name in self.names.functions or self.elsewhere(name)

    def launch(self, op: nodes.Op, args: dict[str, m.Operand]) -> None:
        """What a launch gives fits the kernel's parameters, and its sizes are three."""
        ref, given = args.get("kernel"), args.get("args")
        kernel = self.module.function(ref.name) if isinstance(ref, m.FnRef) else None
        if kernel is None or kernel.gpu_meta is None:
            self.report("MPT0010", f"{op.name} names no kernel of this module", op, "write kernel=@name")
            return
        for key in ("grid", "block"):
            size = args.get(key)
            if isinstance(size, tuple) and len(size) != 3:
                self.report("MPT0010", f"{key} of {op.name} has {len(size)} sizes, wanted 3", op)
        if not isinstance(given, tuple):
            return
        shown = f"@{kernel.name} takes ({', '.join(f'%{name}: {type_}' for name, type_ in kernel.params)})"
        if len(given) != len(kernel.params):
            self.report("MPT0010", f"{len(given)} arguments for {len(kernel.params)} parameters", op, shown)
            return
        for value, (name, type_) in zip(given, kernel.params, strict=True):
            found = value.type if isinstance(value, m.Const) else self.types.get(getattr(value, "name", ""))
            found = self.more.get(getattr(value, "name", "")) if found is None else found
            if found is not None and found.owned != type_.owned:
                self.report("MPT0010", f"argument %{name} has type {found}, wanted {type_}", op, shown)
