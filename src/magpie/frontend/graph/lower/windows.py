"""conv2d and pooling: windows of an image."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from magpie.dtypes import f32, i32, index
from magpie.frontend.graph.lower.indexing import Index, row_major, view
from magpie.frontend.graph.lower.matmul import MatMul
from magpie.frontend.graph.lower.reduce import wide
from magpie.frontend.graph.nodes import Value
from magpie.ir.nodes import Node, Slot

__all__ = ["Conv", "Pool"]

#: Elements of a window that are written out one by one.
_UNROLLED = 16


class Windowed(MatMul):
    """What convolution and pooling share: coordinates of windows, and reading behind the border."""

    def prepare(self) -> None:
        op = self.op
        (image, *_) = op.operands
        assert isinstance(image, Value)
        self.image = image
        self.held = wide(op.own)
        self.strides = op.attrs["strides"]
        self.pads = op.attrs["pads"]
        self.dilations = op.attrs["dilations"]
        self.plain = not any(self.pads)
        self.pitch = row_major(image.shape)[2:]

    def place(self, at: Index, offset: Index, dim: int) -> Index:
        """The row or column of the image at a place of a window."""
        inside = self.add(self.mul(at, self.strides[dim]), self.mul(offset, self.dilations[dim]))
        return self.add(inside, -self.pads[dim])

    @contextmanager
    def visible(self, rows: Index, columns: Index) -> Iterator[None]:
        """Only where the place lies in the image."""
        if self.plain:
            yield
            return
        b = self.b
        holds: Node | None = None
        for at, n in ((rows, self.image.shape[2]), (columns, self.image.shape[3])):
            for test, bound in (("ge", 0), ("lt", n)):
                one = self.compared(test, at, bound)
                holds = one if holds is None else b.emit("and", holds, one)
        assert holds is not None
        _, then, _ = b.if_(holds)
        with b.into(then):
            yield

    @contextmanager
    def window(self, shape: Sequence[int]) -> Iterator[Iterator[tuple[Index, Index]]]:
        """Places of a window: written out if they are few, else nested loops with one place."""
        if math.prod(shape) <= _UNROLLED:
            yield iter([(r, c) for r in range(shape[0]) for c in range(shape[1])])
            return
        with self.loops(tuple(shape)) as (r, c):
            yield iter([(r, c)])

    def _group(self, dim: int) -> Index:
        return self.b.emit("workgroup_id", dim=dim) if self.grid[dim] > 1 else 0

    def write_at(self, at: Sequence[Index], own: Node) -> None:
        """Element [n, c, y, x] through the epilogue."""
        shape = self.op.result.shape

        def read(value: Value) -> Node:
            return self.load(value, self.address(0, at, view(value, shape).strides))

        done = self.steps(self.op.epilogue, [self.b.cast(own, self.op.own)], read)[-1]
        self.store(self.address(0, at, row_major(shape)), done)


class Conv(Windowed):
    """conv2d with its epilogue."""

    def lower(self) -> None:
        self.prepare()
        (_, weights) = self.op.operands
        assert isinstance(weights, Value)
        self.weights = weights
        self.groups = self.op.attrs["groups"]
        self.per_group = weights.shape[0] // self.groups
        if self.target.lanes and self.plain:
            self._rows()
        else:
            self._element()

    def _element(self) -> None:
        b, w = self.b, self.weights
        with self.elements(self.op.result.shape) as (n, o, y, x):
            total = self.slot("total", b.const(0, self.held))
            group = self.split(o, self.per_group)[0] if self.groups > 1 else 0
            with self.loop(w.shape[1], name="c") as c:
                channel = self.add(self.mul(group, w.shape[1]), c)
                with self.window(w.shape[2:]) as places:
                    for r, s in places:
                        row, column = self.place(y, r, 0), self.place(x, s, 1)
                        with self.visible(row, column):
                            image = self.load(
                                self.image, self.address(0, (n, channel, row, column), row_major(self.image.shape))
                            )
                            weight = self.load(w, self.address(0, (o, c, r, s), row_major(w.shape)))
                            b.set(total, self.product(b.get(total), image, weight))
            self.write_at((n, o, y, x), b.get(total))

    # --- rows of the image in lanes, several channels of the result in registers -------------------------------------
    def _rows(self) -> None:
        b, lanes = self.b, self.target.lanes
        self.places = self._places()
        batch, _, height, width = self.op.result.shape
        room = self.target.rows * self.target.columns
        down = 2 if height > 1 else 1
        rows = min(self.per_group, room // down)
        while self.per_group % rows:
            rows -= 1
        down = max(1, min(height, room // rows, 4))
        if height % down and down > 1 and height % (down - 1) == 0:
            down -= 1
        bands = -(-height // down)
        self.block = (lanes, 1, 1)
        self.grid = (-(-width // lanes), bands, batch * (self.weights.shape[0] // rows))
        x = self.node(self.add(self.mul(self._group(0), lanes), b.emit("thread_id", dim=0)))
        n, part = self.split(self._group(2), self.weights.shape[0] // rows)
        band = self._group(1)
        with self.below(x, width, 0), self._either(band, height, down) as parts:
            for region, count in parts:
                with b.into(region):
                    self._tile_rows(n, self.mul(part, rows), self.mul(band, down), x, rows, count)

    def _places(self) -> Value:
        """A table: where the element of the image that weight k of a channel meets lies behind that of weight 0."""
        w = self.weights
        _, plane, row, _ = row_major(self.image.shape)
        channel, down, across = np.indices(w.shape[1:])
        places = channel * plane + down * self.dilations[0] * row + across * self.dilations[1]
        return self.pack(Value("places", i32, ()), places.reshape(-1).astype(np.int32))

    def _tile_rows(self, n: Index, o: Index, y: Index, x: Node, rows: int, down: int) -> None:
        """``rows`` channels of the result in ``down`` rows of it, as a product of weights and windows."""
        b, w = self.b, self.weights
        zero = b.const(0, self.held)
        totals: list[list[Slot]] = [[self.slot(f"s{r}_{d}", zero) for d in range(down)] for r in range(rows)]
        group = self.split(o, self.per_group)[0] if self.groups > 1 else 0
        strides = row_major(self.image.shape)
        count = w.size // w.shape[0]
        channel = self.mul(group, w.shape[1])
        corners = [
            self.address(0, (n, channel, self.place(self.add(y, d), 0, 0), self.place(x, 0, 1)), strides)
            for d in range(down)
        ]
        starts = [self.mul(self.add(o, r), count) for r in range(rows)]
        with self.loop(count) as k:
            offset = b.cast(self.load(self.places, self.node(k)), index)
            ys = [b.cast(self.load(self.image, self.node(self.add(c, offset))), self.held) for c in corners]
            for r in range(rows):
                weight = b.cast(self.load(w, self.node(self.add(starts[r], k))), self.held)
                for d in range(down):
                    b.set(totals[r][d], self.product(b.get(totals[r][d]), weight, ys[d]))
        for r in range(rows):
            for d in range(down):
                self.write_at((n, self.add(o, r), self.add(y, d), x), b.get(totals[r][d]))


class Pool(Windowed):
    """maxpool and avgpool."""

    def lower(self) -> None:
        self.prepare()
        if self.target.lanes and self.plain:
            self._rows()
            return
        with self.elements(self.op.result.shape) as (n, c, y, x):
            strides = row_major(self.image.shape)
            plane = self.address(0, (n, c), strides[:2])
            self.write_at((n, c, y, x), self._pooled(plane, y, x))

    def _pooled(self, plane: Index, y: Index, x: Index) -> Node:
        """The result of the window at [y, x] of a plane of the image, which begins at an address."""
        op, b = self.op, self.b
        kernel = op.attrs["kernel"]
        mean = op.name == "avgpool"
        held = f32 if mean else op.own
        low = 0 if mean else -math.inf if held.is_float else held.min
        total = self.slot("total", b.const(low, held))
        count = None
        if mean and not self.plain and not op.attrs["include_pad"]:
            count = self.slot("count", b.const(0, f32))
        with self.window(kernel) as places:
            for r, s in places:
                row, column = self.place(y, r, 0), self.place(x, s, 1)
                with self.visible(row, column):
                    value = b.cast(self.load(self.image, self.address(plane, (row, column), self.pitch)), held)
                    b.set(total, self.joined("add" if mean else "max", b.get(total), value))
                    if count is not None:
                        b.set(count, b.emit("add", b.get(count), b.const(1.0, f32)))
        own = b.get(total)
        if count is not None:
            return b.emit("div", own, b.get(count))
        return b.emit("div", own, b.const(math.prod(kernel), f32)) if mean else own

    def _rows(self) -> None:
        """A row of the result in lanes. Lanes behind its end read on into the next row, and store nothing: only whole
        vectors are read in one access. The last rows, behind which the image ends, are read lane by lane."""
        b = self.b
        batch, channels, height, width = self.op.result.shape
        lanes = self.target.lanes if width > self.target.lanes // 2 else max(self.target.lanes // 2, 4)
        self.block = (lanes, 1, 1)
        self.grid = (-(-width // lanes), height, batch * channels)
        first = self.mul(self._group(0), lanes)
        x, y, outer = self.node(self.add(first, b.emit("thread_id", dim=0))), self._group(1), self._group(2)
        plane = self.mul(outer, row_major(self.image.shape)[1])
        at = (*self.split(outer, channels), y, x)
        if width % lanes == 0:
            self.write_at(at, self._pooled(plane, y, x))
            return
        kernel = self.op.attrs["kernel"]
        down, across = ((k - 1) * d for k, d in zip(kernel, self.dilations, strict=True))
        reach = down * self.pitch[0] + across + (lanes - 1) * self.strides[1]
        corner = self.address(plane, (self.place(y, 0, 0), self.place(first, 0, 1)), self.pitch)
        _, then, other = b.if_(b.emit("lt", self.node(self.add(corner, reach)), self.node(self.image.size)))
        with b.into(then):
            own = self._pooled(plane, y, x)
            with self.below(x, width, 0):
                self.write_at(at, own)
        with b.into(other), self.below(x, width, 0):
            self.write_at(at, self._pooled(plane, y, x))
