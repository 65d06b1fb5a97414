"""The machine at hand, as ``fit`` measured it: what each kind of operation takes there, and what a step adds up to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..chips import FIGURES, Chip, Figure
from .curves import Curve
from .prediction import Prediction
from .ranges import Range
from .work import Operation, Work

_NONE = Range(0.0, 0.0, 0.0)
_TIME = {"processor": "time of the processor", "stretch": "time on the wall", "host": "time on the wall"}


@dataclass(frozen=True)
class Product:
    """Matrix products [m, k] × [k, n], or convolutions as such.

    Attributes:
        flop: seconds of an operation where all three are large.
        slower: by how much slower it is where one is small, by its size; they multiply.
        start: seconds of the smallest one.
    """

    flop: Range
    slower: Mapping[str, Curve]
    start: Range

    def seconds(self, flops: float, dims: tuple[int, int, int]) -> Range:
        took = self.flop * flops
        for name, size in zip("mnk", dims, strict=True):
            if name in self.slower:
                curve = self.slower[name]
                took = took * curve.at(min(size, curve.points[-1][0]))
        return self.start + took

    def to_json(self) -> dict[str, Any]:
        slower = {name: curve.to_json() for name, curve in self.slower.items()}
        return {"flop": _list(self.flop), "slower": slower, "start": _list(self.start)}

    @classmethod
    def from_json(cls, d: Mapping[str, Any]) -> Product:
        slower = {name: Curve.from_json(curve) for name, curve in d["slower"].items()}
        return cls(Range(*d["flop"]), slower, Range(*d["start"]))


@dataclass(frozen=True)
class Fused:
    """An engine that runs all steps of a layer at once, in one direction.

    Attributes:
        call: seconds of a call on one neuron.
        step: of each further step of it.
        base: of the neuron-steps, by their number, where x is a sequence.
        static: where x is one step.
        simple, costly: of one more operation on each neuron-step, by their number.
    """

    call: Range
    step: Range
    base: Curve
    static: Curve
    simple: Curve
    costly: Curve

    def seconds(self, op: Operation, steps: int, static: bool) -> Range:
        size = op.numel
        took = self.call + self.step * steps + (self.static if static else self.base).at(size)
        return took + self.simple.at(size) * (op.simple / size) + self.costly.at(size) * (op.costly / size)

    def to_json(self) -> dict[str, Any]:
        curves = {name: getattr(self, name).to_json() for name in ("base", "static", "simple", "costly")}
        return {"call": _list(self.call), "step": _list(self.step), **curves}

    @classmethod
    def from_json(cls, d: Mapping[str, Any]) -> Fused:
        curves = {name: Curve.from_json(d[name]) for name in ("base", "static", "simple", "costly")}
        return cls(Range(*d["call"]), Range(*d["step"]), **curves)


@dataclass(frozen=True)
class Machine:
    """What ``fit`` measured. Every number is of this machine and of nothing else.

    Attributes:
        device: its name.
        kind: "cpu" or "cuda".
        threads: of the CPU.
        clock: "processor" (seconds that this process computes), or "stretch" or "host" (on the wall).
        torch: its version.
        overhead: fixed seconds, of: a "call" of a layer in the eager engine, a "step" of it, what autograd adds to an
            operation "forward" and "backward", a Python "function" in backward, a "view", a "module".
        surcharge: "forward" and "backward": seconds that an operation takes longer inside a layer than by itself, by
            the number of its values: at 1 what autograd adds, then that more tensors are alive than a cache holds.
        elementwise: class of operation, then "kept" or "recycled", to seconds by number of values.
        streams: others, forward and backward, to seconds by bytes.
        product: of matrices; ``convolution``: "forward" and "backward".
        update: seconds of one operation of an optimizer, by number of values.
        fused: engine, then "forward" and "backward".
        rate: bytes per second of a copy, float32 operations per second of a large matrix product.
    """

    device: str
    kind: str
    threads: int
    clock: str
    torch: str
    overhead: Mapping[str, Range] = field(repr=False)
    surcharge: Mapping[str, Curve] = field(repr=False)
    elementwise: Mapping[str, Curve] = field(repr=False)
    streams: Mapping[str, Curve] = field(repr=False)
    product: Product = field(repr=False)
    convolution: Mapping[str, Product] = field(repr=False)
    update: Curve = field(repr=False)
    fused: Mapping[str, Mapping[str, Fused]] = field(repr=False)
    rate: Mapping[str, Range] = field(repr=False)

    @property
    def engines(self) -> tuple[str, ...]:
        """Those whose steps can be predicted."""
        return ("eager", "auto", *self.fused)

    def chip(self) -> Chip:
        """This machine as an entry of the catalogue: bandwidth and arithmetic, measured."""
        source = f"micro-benchmarks of fit() here, {self.threads} thread(s), PyTorch {self.torch}"
        keys = {"memory_bandwidth": "bytes", "fp32_flops": "flops"}
        figures = {k: Figure(self.rate[v].value, FIGURES[k][1], "measured", source) for k, v in keys.items()}
        return Chip("this machine", "gpu" if self.kind == "cuda" else "cpu", self.device, figures)

    @property
    def launch(self) -> Figure:
        """Seconds of an elementwise operation on one number in eager PyTorch, with what autograd adds."""
        smallest = self.elementwise["product kept"].points[0][1] + self.overhead["forward"]
        return Figure(smallest.value, "s", "measured", "micro-benchmarks of fit() here")

    def predict(self, work: Work, engine: str = "eager") -> Prediction:
        """Seconds of a training step whose neurons run in ``engine``.

        The range holds what the micro-benchmarks scattered by, from the 10th to the 90th percentile; how far
        predictions are off is what ``judge`` finds out.

        Raises:
            ValueError: an engine that was not fitted.
        """
        if not isinstance(work, Work):
            raise TypeError(f"work must be a Work, as roofline.count gives it, but it is a {type(work).__name__}")
        if engine not in self.engines:
            known = ", ".join(map(repr, self.engines))
            raise ValueError(f"engine must be one of {known}, which were fitted, but it is {engine!r}")
        from .choosing import engines_of

        taken = engines_of(work, engine, self.kind, tuple(self.fused))
        step = work.fused(frozenset(i for i, name in taken.items() if name != "eager"))
        parts: dict[str, Range] = dict.fromkeys(("neurons", "matmul", "other", "optimizer", "overhead"), _NONE)
        for op in step.operations:
            part = "optimizer" if op.phase == "optimizer" else "neurons" if op.layer is not None else "other"
            part = "matmul" if op.kind in ("matmul", "convolution") else part
            parts[part] = parts[part] + self._seconds(op, step, taken)
        for number, layer in enumerate(step.layers):
            if taken[number] == "eager":
                calls = self.overhead["call"] + self.overhead["step"] * layer.steps
                parts["overhead"] = parts["overhead"] + calls
        outside = [op for op in step.operations if op.layer is None and op.phase != "optimizer"]
        views = sum(op.kind == "view" for op in outside)
        parts["overhead"] = parts["overhead"] + self.overhead["view"] * views
        parts["overhead"] = parts["overhead"] + self.overhead["module"] * sum(op.runs for op in outside)
        return Prediction(
            self.device, engine, "float32", work.samples, Range.total(parts.values()), parts,
            f"micro-benchmarks of this machine ({self.threads} thread(s), PyTorch {self.torch}, "
            f"{_TIME.get(self.clock, self.clock)}), none of them a network",
        )  # fmt: skip

    def _seconds(self, op: Operation, work: Work, taken: Mapping[int, str]) -> Range:
        if op.kind in ("view", "allocate"):
            return _NONE
        if op.kind == "fused":
            assert op.layer is not None
            layer = work.layers[op.layer]
            return self.fused[taken[op.layer]][op.phase].seconds(op, layer.steps, layer.static)
        if op.phase == "optimizer":
            return self.update.at(op.numel)
        return self._plain(op) + (self.overhead["function"] if op.function else _NONE)

    def _plain(self, op: Operation) -> Range:
        if op.kind == "matmul":
            assert op.dims is not None
            return self.product.seconds(op.flops, op.dims)
        if op.kind == "convolution":
            assert op.dims is not None
            return self.convolution[op.phase].seconds(op.flops, op.dims)
        if op.kind == "elementwise" or op.name == "_to_copy":
            extra = self.surcharge[op.phase].at(op.numel) if op.layer is not None else _NONE
            return self.elementwise[key_of(op)].at(op.numel) + extra
        phase = f" {op.phase}" if op.kind in ("norm", "pool", "other") else ""
        return self.streams[op.kind + phase].at(op.bytes)

    def to_json(self) -> dict[str, Any]:
        """For a file."""
        return {
            "device": self.device, "kind": self.kind, "threads": self.threads, "clock": self.clock, "torch": self.torch,
            "overhead": {k: _list(r) for k, r in self.overhead.items()},
            "surcharge": {k: c.to_json() for k, c in self.surcharge.items()},
            "elementwise": {k: c.to_json() for k, c in self.elementwise.items()},
            "streams": {k: c.to_json() for k, c in self.streams.items()},
            "product": self.product.to_json(),
            "convolution": {k: p.to_json() for k, p in self.convolution.items()},
            "update": self.update.to_json(),
            "fused": {e: {way: f.to_json() for way, f in ways.items()} for e, ways in self.fused.items()},
            "rate": {k: _list(r) for k, r in self.rate.items()},
        }  # fmt: skip

    @classmethod
    def from_json(cls, d: Mapping[str, Any]) -> Machine:
        """What ``to_json`` gave."""
        return cls(
            d["device"], d["kind"], d["threads"], d["clock"], d["torch"],
            {k: Range(*r) for k, r in d["overhead"].items()},
            {k: Curve.from_json(c) for k, c in d["surcharge"].items()},
            {k: Curve.from_json(c) for k, c in d["elementwise"].items()},
            {k: Curve.from_json(c) for k, c in d["streams"].items()},
            Product.from_json(d["product"]),
            {k: Product.from_json(p) for k, p in d["convolution"].items()},
            Curve.from_json(d["update"]),
            {e: {way: Fused.from_json(f) for way, f in ways.items()} for e, ways in d["fused"].items()},
            {k: Range(*r) for k, r in d["rate"].items()},
        )  # fmt: skip


_CLASS_OF = {
    **dict.fromkeys(("gt", "ge", "lt", "le", "eq", "ne", "logical_and", "logical_or", "logical_not"), "compare"),
    **dict.fromkeys(("where", "masked_fill", "clamp", "clamp_min", "clamp_max", "maximum", "minimum"), "select"),
    **dict.fromkeys(("div", "reciprocal", "sqrt", "rsqrt"), "divide"),
    "_to_copy": "cast",
}


def key_of(op: Operation) -> str:
    """Which of ``Machine.elementwise`` an operation is priced by."""
    name = op.name if op.name == "_to_copy" else op.name.rstrip("_")
    kind = "costly" if op.costly else _CLASS_OF.get(name, "product" if op.reads <= op.writes else "sum")
    return f"{kind} {'kept' if op.kept else 'recycled'}"


def _list(r: Range) -> list[float]:
    return [r.low, r.value, r.high]
