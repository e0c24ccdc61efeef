"""The memory of a workgroup: shared and local arrays, and what gangs keep from one run of nodes to the next.

It lies in the arena that the launch gives each thread: arrays of fixed size, then for each gang its context (slots,
values and local arrays that live across runs), then shared arrays whose length the launch decides.
"""

from __future__ import annotations

from collections.abc import Callable

from magpie.backends.cpu.copies import COPIES, copy_pitch
from magpie.backends.cpu.gang import Env, Storage
from magpie.backends.cpu.launch import Launch
from magpie.backends.cpu.regions import Plan, Run
from magpie.backends.cpu.spmd import Gang
from magpie.backends.cpu.values import Mask, Value
from magpie.backends.llvm.emitter import Block, Code, Module, element, memory_element
from magpie.dtypes import DType
from magpie.ir.nodes import Array, Kernel, LocalArray, Node, SharedArray, Slot, walk

__all__ = ["Arena"]


class Arena:
    """Lays the arena out and emits what moves values in and out of it."""

    def __init__(self, kernel: Kernel, module: Module, env: Env, plan: Plan) -> None:
        self.kernel = kernel
        self.module = module
        self.env = env
        self.plan = plan
        self.c: Code = env.code
        self.launch: Launch = env.launch
        self.width = env.layout.width
        # lanes that have returned are remembered from run to run
        self.gone = plan.several and any(n.op == "return" for r in plan.runs for n in walk(r.nodes))
        self.context: dict[Node | Slot | LocalArray | str, Storage] = {}
        self.context_at: dict[Node | Slot | LocalArray | str, int] = {}
        self.per_gang = 0
        self.fixed = 0
        self.fixed_at: dict[Array, int] = {}
        self.context_base = ""
        self.copied: set[SharedArray] = set()  # arrays that have private copies at times

    def reserve(self, key: Node | Slot | LocalArray | str, kind: int, elem: str, size: int, stride: int = 0) -> None:
        """Context memory of ``size`` bytes for each gang."""
        step = 64 if kind == 2 else 8
        at = (self.per_gang + step - 1) // step * step
        self.context_at[key] = at
        self.context[key] = Storage("", elem, kind, stride)
        self.per_gang = at + size

    def lay_out(self) -> None:
        """Decide where everything in the arena lies."""
        plan, shapes, w = self.plan, self.env.shapes, self.width
        for array in self.kernel.shared:
            if not array.dynamic:
                self.place_fixed(array, array.nbytes)
                if array in self.copied:
                    self.fixed += copy_pitch(array) * COPIES - array.nbytes
                    self.fixed = (self.fixed + 63) // 64 * 64
        for local in self.kernel.locals:
            if local not in plan.context_arrays:
                self.place_fixed(local, _elements(local) * local.type.itemsize * w)
        for node in plan.context_nodes:
            shape = shapes.of(node)
            elem = element(node.dtype)
            if node.dtype.is_bool and shape.kind == 2:
                elem = self.env.masks.elem if self.env.masks.bits != 1 else "i8"
            elif node.dtype.is_bool:
                elem = "i8"
            size = _bytes(elem)
            self.reserve(node, shape.kind, elem, size * w if shape.kind == 2 else size, shape.stride or 0)
        for slot in plan.context_slots:
            storage = self.slot_form(slot)
            size = 1 if storage.elem == "i1" else _bytes(storage.elem)
            self.reserve(slot, storage.kind, storage.elem, size * w if storage.kind == 2 else 8, storage.stride)
        for local in plan.context_arrays:
            self.reserve(local, 2, memory_element(_scalar(local)), _elements(local) * local.type.itemsize * w)
        if self.gone:
            self.reserve("gone", 2, self.env.masks.elem, max(1, self.env.masks.bits // 8) * w)
        self.per_gang = (self.per_gang + 63) // 64 * 64

    def place_fixed(self, array: Array, size: int) -> None:
        self.fixed_at[array] = self.fixed
        self.fixed += (size + 63) // 64 * 64

    def slot_form(self, slot: Slot) -> Storage:
        """How a slot is held; as `ControlMixin.make_storage` does it."""
        assert isinstance(slot.type, DType)
        shape = self.env.shapes.slots.get(slot)
        kind = shape.kind if shape is not None else 0
        elem = element(slot.type)
        if kind == 2 and slot.type.is_int and slot.type.bits == 64 and self.env.ranges.slot_fits32(slot):
            elem = "i32"
        if kind == 2 and elem == "i1":
            elem = self.env.masks.elem
        return Storage("", elem, kind, (shape.stride or 0) if shape is not None else 0)

    def rows_gangs(self) -> str:
        """Gangs along x (rows), or in all."""
        c, launch, w = self.c, self.launch, self.width
        if self.env.layout.rows:
            items = launch.size(0)
        else:
            items = launch.times(launch.size(0), launch.times(launch.size(1), launch.size(2)))
        if items.isdigit():
            return str(-(-int(items) // w))
        key = (1, "gangs")
        if key not in launch.words:
            up = c.op_in(c.entry, f"add i64 {items}, {w - 1}")
            launch.words[key] = c.op_in(c.entry, f"udiv i64 {up}, {w}")
        return launch.words[key]

    def all_gangs(self) -> str:
        gangs, launch = self.rows_gangs(), self.launch
        if self.env.layout.rows:
            gangs = launch.times(gangs, launch.times(launch.size(1), launch.size(2)))
        return gangs

    def items_along(self) -> str:
        """Work-items that gangs are counted over: of a row, or of the workgroup."""
        launch = self.launch
        if self.env.layout.rows:
            return launch.size(0)
        return launch.times(launch.size(0), launch.times(launch.size(1), launch.size(2)))

    def bind_arrays(self, fixed: str, context: str, entry: Block) -> None:
        """Pointers of the arrays: those of fixed size and the context memory lie at ``fixed`` and ``context`` bytes of
        the arena. Made in a block that is executed before they are used."""
        c, launch = self.c, self.launch

        def at(offset: str) -> str:
            return "%arena" if offset == "0" else c.op_in(entry, f"getelementptr i8, ptr %arena, i64 {offset}")

        base = at(fixed)
        for array, offset in self.fixed_at.items():
            place = c.op_in(entry, f"getelementptr i8, ptr {base}, i64 {offset}") if offset else base
            self.env.arrays[array] = (place, entry)
        self.context_base = at(context) if self.per_gang else ""
        dynamic = [s for s in self.kernel.shared if s.dynamic]
        if not dynamic:
            return
        gangs = self.all_gangs() if self.per_gang else "0"
        start = launch.times(gangs, str(self.per_gang)) if self.per_gang else "0"
        if start.isdigit():
            start = str(int(start) + self.fixed)
        elif self.fixed:
            start = c.op_in(entry, f"add i64 {start}, {self.fixed}")
        for shared in dynamic:
            self.env.arrays[shared] = (at(start), entry)
            size = str(shared.type.itemsize)
            for dim in range(shared.rank):
                size = launch.times(size, launch.extent(shared, dim))
            up = c.op_in(entry, f"and i64 {c.op_in(entry, f'add i64 {size}, 63')}, -64")
            start = up if start == "0" else c.op_in(entry, f"add i64 {start}, {up}")

    def clear_context(self) -> None:
        """Slots and local arrays start at zero, and nobody is gone."""
        c = self.c
        if not self.per_gang:
            return
        fresh = self.env.shapes.fresh
        arrays = any(a not in self.env.filled for a in self.plan.context_arrays)
        if not (self.gone or arrays or any(s not in fresh for s in self.plan.context_slots)):
            return
        size = self.launch.times(self.all_gangs(), str(self.per_gang))
        self.module.declare("llvm.memset.p0.i64", "void", "ptr, i8, i64, i1")
        c.do(f"call void @llvm.memset.p0.i64(ptr align 64 {self.context_base}, i8 0, i64 {size}, i1 false)")

    def open_local(self, gang: Gang, array: LocalArray, run: Run, context: str) -> None:
        """This gang's part of a local array, zeroed if its life begins here."""
        c = self.c
        if array in self.plan.context_arrays:
            gang.locals[array] = c.op(f"getelementptr i8, ptr {context}, i64 {self.context_at[array]}")
            return
        pointer = self.env.arrays[array][0]
        if array not in self.env.filled and any(n.attrs.get("array") is array for n in walk(run.nodes)):
            size = _elements(array) * array.type.itemsize * self.width
            self.module.declare("llvm.memset.p0.i64", "void", "ptr, i8, i64, i1")
            c.do(f"call void @llvm.memset.p0.i64(ptr align 64 {pointer}, i8 0, i64 {size}, i1 false)")

    def context_type(self, storage: Storage) -> str:
        return f"<{self.width} x {storage.elem}>" if storage.kind == 2 else storage.elem

    def copy_in(self, gang: Gang, slot: Slot, context: str) -> None:
        c, form = self.c, self.context[slot]
        type_ = self.context_type(form)
        pointer = c.alloca(type_, 64 if form.kind == 2 else 0)
        p = c.op(f"getelementptr i8, ptr {context}, i64 {self.context_at[slot]}")
        c.do(f"store {type_} {c.op(f'load {type_}, ptr {p}')}, ptr {pointer}")
        gang.storage[slot] = Storage(pointer, form.elem, form.kind, form.stride)

    def copy_out(self, gang: Gang, slot: Slot, context: str) -> None:
        c, form = self.c, self.context[slot]
        type_ = self.context_type(form)
        p = c.op(f"getelementptr i8, ptr {context}, i64 {self.context_at[slot]}")
        c.do(f"store {type_} {c.op(f'load {type_}, ptr {gang.storage[slot].pointer}')}, ptr {p}")

    def read_context(self, gang: Gang, node: Node, context: str) -> Value:
        c, form = self.c, self.context[node]
        p = c.op(f"getelementptr i8, ptr {context}, i64 {self.context_at[node]}")
        raw = c.op(f"load {self.context_type(form)}, ptr {p}")
        if node.dtype.is_bool:
            if form.kind == 2:
                if self.env.masks.bits != 1:
                    return gang.bools(Mask(wide=raw))
                return gang.vec(c.op(f"icmp ne <{self.width} x i8> {raw}, zeroinitializer"), "i1")
            return gang.uni(c.op(f"icmp ne i8 {raw}, 0"), "i1")
        if form.kind == 2:
            return gang.vec(raw, form.elem)
        return gang.uni(raw, form.elem) if form.kind == 0 else gang.lin(raw, form.elem, form.stride)

    def writer(self, gang: Gang, node: Node, context: str) -> Callable[[Value], None]:
        """What stores the value of a context node once it is computed."""
        c, form = self.c, self.context[node]

        def write(value: Value) -> None:
            p = c.op(f"getelementptr i8, ptr {context}, i64 {self.context_at[node]}")
            if node.dtype.is_bool:
                if form.kind == 2:
                    m = gang.as_mask(value)
                    text = self.env.masks.wide(m)
                    if self.env.masks.bits == 1:
                        text = c.op(f"sext {self.env.masks.type} {text} to <{self.width} x i8>")
                else:
                    text = c.op(f"zext i1 {value.text} to i8")
            elif form.kind == 2:
                text = gang.lanes(value, form.elem)
            else:
                text = value.text
            c.do(f"store {self.context_type(form)} {text}, ptr {p}")
            if self.env.checked and node in self.plan.broadcast:
                gang.check_same(node, value, gang.uni(self.of_item_0(node), "i1"))

        return write

    def of_item_0(self, node: Node) -> str:
        """What item 0, whose gang comes first, has for a condition of the scaffold, as an i1."""
        c, form = self.c, self.context[node]
        p = c.op(f"getelementptr i8, ptr {self.context_base}, i64 {self.context_at[node]}")
        raw = c.op(f"load {form.elem}, ptr {p}")
        return c.op(f"icmp ne {form.elem} {raw}, 0")


def _scalar(array: Array) -> DType:
    assert isinstance(array.type, DType)
    return array.type


def _elements(array: LocalArray) -> int:
    n = 1
    for extent in array.shape:
        assert isinstance(extent, int)
        n *= extent
    return n


def _bytes(elem: str) -> int:
    return {"float": 4, "double": 8, "i1": 1}.get(elem) or max(1, int(elem[1:]) // 8)
