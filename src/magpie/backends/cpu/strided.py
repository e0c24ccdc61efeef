"""Groups of strided loads and stores as whole-vector accesses and shuffles.

``x[3 * i]``, ``x[3 * i + 1]``, ``x[3 * i + 2]`` are three vector loads and a few blends and permutations in place of
three gathers; the sixteen elements that each lane of a scan reads are rows of a matrix, transposed in registers. Only
full gangs come here: under a mask every access goes its own way.
"""

from __future__ import annotations

from magpie.backends.cpu.memory import Address
from magpie.backends.cpu.plain import copy_with, plain
from magpie.backends.cpu.scatters import ScatterMixin
from magpie.backends.cpu.strided_plan import Window, choose_loads, choose_stores, guessed
from magpie.backends.cpu.values import Value
from magpie.backends.llvm.emitter import Block, memory_element
from magpie.ir.nodes import Node
from magpie.passes.access_groups import Group

__all__ = ["StridedMixin", "Waiting"]


@plain
class Waiting:
    """Stores of a window on their way: where the first of them goes, and what those that were met store."""

    window: Window
    address: Address
    first: Node
    lanes: dict[int, str]  # by offset from the window's start


class StridedMixin(ScatterMixin):
    """Loads and stores that may belong to a group."""

    ready: dict[Node, Value]  # loads of groups that were done at an earlier one
    waiting: dict[Node, Waiting]  # stores that are done at a later one

    # --- loads ---------------------------------------------------------------------------------------------------
    def load(self, node: Node) -> Value:
        found = self.ready.pop(node, None)
        if found is not None:
            return found
        group = self.env.groups.get(node)
        if group is None or self.mask is not None or self.env.checked:
            return super().load(node)
        a = self.address(node, [self.map[x] for x in node.args])
        size = a.t.itemsize
        if a.kind == 0 or (a.kind == 1 and a.stride in (size, -size)):
            return self.load_at(node, a)
        members = _after(group, node, size)
        window = choose_loads(set(members.values()), self.lane_stride(a), self.register_lanes(size), self.row(size))
        window = window or self.guess(a, members)
        if window is None:
            return self.load_from(a)
        elem = memory_element(a.t)
        loaded = self.load_window(self.moved(a, window.start), window, elem)
        values: dict[int, Value] = {}
        for member, offset in members.items():
            at = offset - window.start
            if at not in window.used:
                continue
            if at not in values:
                values[at] = self.vec(self.vector.from_memory(loaded[at], a.t), self.register(a.t))
            self.ready[member] = values[at]
        return self.ready.pop(node)

    def guess(self, a: Address, members: dict[Node, int]) -> Window | None:
        """What may turn out to be a block when the launch says how far lanes are apart."""
        if a.kind != 1 or isinstance(a.stride, int) or self.env.large:
            return None
        return guessed(set(members.values()), self.row(a.t.itemsize))

    def if_guessed_right(self, a: Address, window: Window) -> tuple[Address, Block, Block, Block]:
        """Branch on the distance of lanes: the address as a block's, and the blocks for right, wrong and afterwards."""
        c, stride = self.c, window.size * a.t.itemsize
        right, wrong, join = c.block("block"), c.block("apart"), c.block("join")
        c.cbr(c.op(f"icmp eq i64 {a.stride}, {stride}"), right, wrong)
        return copy_with(a, stride=stride), right, wrong, join

    def load_window(self, a: Address, window: Window, elem: str) -> list[str] | dict[int, str]:
        """The vectors of a window that starts at ``a``, by offset."""
        if not window.guess:
            return self.load_block(a, window, elem) if window.block else self.load_rows(a, window, elem)
        c = self.c
        block, right, wrong, join = self.if_guessed_right(a, window)
        c.place(right)
        together = self.load_block(block, window, elem)
        right = c.at_block
        c.br(join)
        c.place(wrong)
        alone = {k: self.load_vector(self.moved(a, k), elem) for k in window.used}
        wrong = c.at_block
        c.br(join)
        c.place(join)
        vt = f"<{self.w} x {elem}>"
        return {
            k: c.op(f"phi {vt} [ {together[k]}, %{right.label} ], [ {alone[k]}, %{wrong.label} ]") for k in window.used
        }

    def lane_stride(self, a: Address) -> int | None:
        """How many elements lanes are apart, if that is known."""
        size = a.t.itemsize
        if a.kind != 1 or not isinstance(a.stride, int) or a.stride % size:
            return None
        return a.stride // size

    def register_lanes(self, size: int) -> int:
        return min(self.w, self.env.target.vector_bits // 8 // size)

    def row(self, size: int) -> int:
        return min(self.w, 16 // size)

    def moved(self, a: Address, elements: int) -> Address:
        if elements == 0:
            return a
        base = self.c.op(f"getelementptr i8, ptr {a.base}, i64 {elements * a.t.itemsize}")
        return copy_with(a, base=base)

    def load_rows(self, a: Address, window: Window, elem: str) -> list[str]:
        """Every lane's row, transposed within 128 bits: vector c holds element c of all rows, in the order of lanes."""
        c, w, n, size = self.c, self.w, window.size, a.t.itemsize
        rt = f"<{n} x {elem}>"
        beyond = n - window.extent
        # the row of the lane with the highest address is read so that it ends with what the lane asks for
        last = (w - 1 if int(a.stride) > 0 else 0) if beyond else -1
        rows = []
        for lane, p in enumerate(self.lane_pointers(a, range(w))):
            if lane == last:
                p = c.op(f"getelementptr i8, ptr {p}, i64 {-beyond * size}")
            row = c.op(f"load {rt}, ptr {p}, align {size}{a.suffix}")
            if lane == last:
                row = self.shuffle(elem, n, row, "poison", [*range(beyond, n), *([-1] * beyond)])
            rows.append(row)
        vectors = [self.concat(elem, n, rows[k::n]) for k in range(n)]
        return self.transpose(elem, vectors)

    def transpose(self, elem: str, vectors: list[str]) -> list[str]:
        """n vectors of squares of n by n elements, each square transposed: log2(n) rounds of interleaving."""
        n, w = len(vectors), self.w
        half = n // 2
        halves = [
            [g + t + x for g in range(0, w, n) for t in range(start, start + half) for x in (0, w)]
            for start in (0, half)
        ]
        for _ in range(n.bit_length() - 1):
            vectors = [
                self.shuffle(elem, w, vectors[k], vectors[k + half], order) for k in range(half) for order in halves
            ]
        return vectors

    def load_block(self, a: Address, window: Window, elem: str) -> dict[int, str]:
        """The memory of all lanes as whole vectors, taken apart."""
        c, w, n, size = self.c, self.w, window.size, a.t.itemsize
        down = int(a.stride) < 0
        lanes = self.register_lanes(size)
        base = a.base
        if down:
            base = c.op(f"getelementptr i8, ptr {base}, i64 {int(a.stride) * (w - 1)}")
        vectors = []
        for k in range(n * w // lanes):
            end = (k + 1) * lanes
            beyond = max(0, end - (n * (w - 1) + window.extent))  # of the last vector
            if beyond >= lanes:
                vectors.append("poison")
                continue
            p = c.op(f"getelementptr i8, ptr {base}, i64 {(k * lanes - beyond) * size}")
            vector = c.op(f"load <{lanes} x {elem}>, ptr {p}, align {size}{a.suffix}")
            if beyond:
                vector = self.shuffle(elem, lanes, vector, "poison", [*range(beyond, lanes), *([-1] * beyond)])
            vectors.append(vector)
        apart = self.deinterleave(elem, lanes, vectors, n)
        out = {k: self.concat(elem, lanes, apart[k]) for k in window.used}
        return {k: self.reversed(elem, v) for k, v in out.items()} if down else out

    def deinterleave(self, elem: str, lanes: int, vectors: list[str], n: int) -> list[list[str]]:
        """Element number k * n + c of ``vectors`` as number k of list c."""
        if n == 1:
            return [vectors]
        if n % 2 == 0:
            lists = self.deinterleave(elem, lanes, vectors, n // 2)
            return [
                [self.shuffle(elem, lanes, v[k], v[k + 1], range(odd, 2 * lanes, 2)) for k in range(0, len(v), 2)]
                for odd in (0, 1)
                for v in lists
            ]
        out: list[list[str]] = [[] for _ in range(n)]
        for first in range(0, len(vectors), n):
            part = vectors[first : first + n]
            for c in range(n):
                # n is odd, so these elements have different places in their vectors: blend, then permute
                where = [divmod(k * n + c, lanes) for k in range(lanes)]
                merged = self.blend(elem, lanes, part, {place: number for number, place in where})
                out[c].append(self.shuffle(elem, lanes, merged, "poison", [place for _, place in where]))
        return out

    def blend(self, elem: str, lanes: int, parts: list[str], source: dict[int, int]) -> str:
        """The vector whose place p comes from the same place of ``parts[source[p]]``."""
        merged = ""
        for number, part in enumerate(parts):
            here = {p for p, s in source.items() if s == number}
            if not here:
                continue
            if merged:
                order = [p + lanes if p in here else p for p in range(lanes)]
                part = self.shuffle(elem, lanes, merged, part, order)
            merged = part
        return merged

    # --- stores --------------------------------------------------------------------------------------------------
    def store(self, node: Node) -> None:
        group = self.env.groups.get(node)
        if group is None or self.mask is not None or self.env.checked or len(group.offsets) == 1:
            super().store(node)
            return
        found = self.waiting.pop(node, None) or self.wait(group, node)
        if found is None:
            super().store(node)
            return
        a, window, size = found.address, found.window, found.address.t.itemsize
        offset = (group.offsets[node] - group.offsets[found.first]) // size - window.start
        value = self.lanes(self.map[node.args[-1]], self.register(a.t))
        found.lanes[offset] = self.vector.to_memory(value, a.t)
        if len(found.lanes) == window.size:
            vectors = [found.lanes[k] for k in range(window.size)]
            a = self.moved(a, window.start)
            if window.block:
                a.past = self.env.streams.past(found.first, size * window.size)
            self.store_window(a, window, vectors, memory_element(a.t))

    def wait(self, group: Group, node: Node) -> Waiting | None:
        """Decide at the first store of a window whether its stores wait for the last of them."""
        a = self.address(node, [self.map[x] for x in node.args[:-1]])
        size = a.t.itemsize
        if a.kind == 0 or (a.kind == 1 and a.stride in (size, -size)):
            return None
        # those that wait already are in another window
        members = {m: offset for m, offset in _after(group, node, size).items() if m not in self.waiting}
        window = choose_stores(set(members.values()), self.lane_stride(a), self.register_lanes(size), self.row(size))
        window = window or self.guess(a, members)
        if window is None:
            return None
        state = Waiting(window, a, node, {})
        for member, offset in members.items():
            if offset - window.start in window.used and member is not node:
                self.waiting[member] = state
        return state

    def store_window(self, a: Address, window: Window, vectors: list[str], elem: str) -> None:
        if not window.guess:
            (self.store_block if window.block else self.store_rows)(a, vectors, elem)
            return
        c = self.c
        block, right, wrong, join = self.if_guessed_right(a, window)
        c.place(right)
        self.store_block(block, vectors, elem)
        c.br(join)
        c.place(wrong)
        for k, vector in enumerate(vectors):
            self.store_lanes(self.moved(a, k), vector)
        c.br(join)
        c.place(join)

    def store_rows(self, a: Address, vectors: list[str], elem: str) -> None:
        c, n, size = self.c, len(vectors), a.t.itemsize
        rows = self.transpose(elem, vectors)
        for lane, p in enumerate(self.lane_pointers(a, range(self.w))):
            start = lane // n * n
            row = self.shuffle(elem, self.w, rows[lane % n], "poison", range(start, start + n))
            c.do(f"store <{n} x {elem}> {row}, ptr {p}, align {size}{a.suffix}")

    def store_block(self, a: Address, vectors: list[str], elem: str) -> None:
        c, w, size = self.c, self.w, a.t.itemsize
        lanes, base = self.register_lanes(size), a.base
        if int(a.stride) < 0:
            vectors = [self.reversed(elem, v) for v in vectors]
            base = c.op(f"getelementptr i8, ptr {base}, i64 {int(a.stride) * (w - 1)}")
        parts = [[self.shuffle(elem, w, v, "poison", range(k, k + lanes)) for k in range(0, w, lanes)] for v in vectors]
        vectors = self.interleave(elem, lanes, parts)
        pointers = [c.op(f"getelementptr i8, ptr {base}, i64 {k * lanes * size}") for k in range(len(vectors))]
        stores = list(zip(vectors, pointers, strict=True))
        if a.past is not None:
            self.env.streams.store(f"<{lanes} x {elem}>", stores, size, a.suffix, a.past)
            return
        for vector, p in stores:
            c.do(f"store <{lanes} x {elem}> {vector}, ptr {p}, align {size}{a.suffix}")

    def interleave(self, elem: str, lanes: int, lists: list[list[str]]) -> list[str]:
        """The inverse of `deinterleave`."""
        n = len(lists)
        if n == 1:
            return lists[0]
        if n % 2 == 0:
            half = n // 2
            joined = []
            for low, high in zip(lists[:half], lists[half:], strict=True):
                out: list[str] = []
                for a, b in zip(low, high, strict=True):
                    order = [t + x for t in range(lanes) for x in (0, lanes)]
                    out += [self.shuffle(elem, lanes, a, b, order[s : s + lanes]) for s in (0, lanes)]
                joined.append(out)
            return self.interleave(elem, lanes, joined)
        result = []
        for k in range(len(lists[0])):
            # where each lane of list c goes: (vector, place); the places of a list are all different
            spread = []
            for c in range(n):
                order = [0] * lanes
                for lane in range(lanes):
                    order[(lane * n + c) % lanes] = lane
                spread.append(self.shuffle(elem, lanes, lists[c][k], "poison", order))
            for number in range(n):
                source = {p: (number * lanes + p) % n for p in range(lanes)}
                result.append(self.blend(elem, lanes, spread, source))
        return result

    # --- shuffles ------------------------------------------------------------------------------------------------
    def shuffle(self, elem: str, lanes: int, a: str, b: str, order: list[int] | range) -> str:
        """LLVM's shufflevector of two vectors of ``lanes``; -1 is any."""
        if b == "poison" and list(order) == list(range(lanes)):
            return a
        text = ", ".join(f"i32 {k}" if k >= 0 else "i32 poison" for k in order)
        vt = f"<{lanes} x {elem}>"
        return self.c.op(f"shufflevector {vt} {a}, {vt} {b}, <{len(order)} x i32> <{text}>")

    def reversed(self, elem: str, vector: str) -> str:
        return self.shuffle(elem, self.w, vector, "poison", range(self.w - 1, -1, -1))

    def concat(self, elem: str, lanes: int, parts: list[str]) -> str:
        """Vectors of ``lanes`` one behind the other; their number is a power of two."""
        while len(parts) > 1:
            order = range(2 * lanes)
            parts = [self.shuffle(elem, lanes, parts[k], parts[k + 1], order) for k in range(0, len(parts), 2)]
            lanes *= 2
        return parts[0]


def _after(group: Group, node: Node, size: int) -> dict[Node, int]:
    """The members of ``group`` from ``node`` on, and how many elements they are from it."""
    here, out = group.offsets[node], {}
    started = False
    for member, offset in group.offsets.items():
        started |= member is node
        if started and (offset - here) % size == 0:
            out[member] = (offset - here) // size
    return out
