"""SpikingJelly's experiment and more: one layer of neurons over time, in each of our engines and other libraries.

    snnkit bench neurons --neurons 262144 --steps 32

Inference and training are timed separately. All candidates get the same input, and spikes and gradients are compared
with those of our eager engine first. Each other library has an equation of its own, on which our engines run as well.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..device.usage import available
from ..engine import ENGINES, plan_for, state_dtype
from ..measure import Timing, clock_for, first_call, held_for_backward, peak_of
from ..neuron import LIF, CubaLIF, Leaky, Neuron
from ..surrogate import ATan, SuperSpike
from ..tables import text_table
from .baselines import Forward, layers
from .suite import (
    OURS,
    DoesNotRun,
    Race,
    Row,
    Suite,
    attempt,
    device_option,
    dtype_name,
    mebibytes,
    milliseconds,
    option,
    peers_option,
    repeats_option,
    same_case,
    seconds_of,
    times,
)

INFERENCE, TRAINING = MODES = ("inference", "training")
KEY = ("mode", "dtype", "neurons", "steps")

# Each equation with the constants and the surrogate that its library has by default.
EQUATIONS: dict[str, Callable[[str], Neuron]] = {
    "LIF": lambda engine: LIF(2.0, surrogate=ATan(), engine=engine),  # SpikingJelly 2.0
    "Leaky": lambda engine: Leaky(0.9, surrogate=ATan(), engine=engine),  # snnTorch 1.0
    # Norse 1.1's SuperSpike leaves its alpha = 100 out of the derivative, so it trains with alpha = 1.
    "CubaLIF": lambda engine: CubaLIF(surrogate=SuperSpike(1.0), engine=engine),
}

COMPILED = "torch.compile"
LONGEST_COMPILED = 32  # steps; compiling an unrolled loop takes about a second for each

# Upper guesses of what training needs besides inputs and outputs, in float32 tensors of the shape of x. Loops were seen
# to save three for backward, and hold as many lists of gradients on the way back; engines that recompute save x.
LOOP_SAVES, ENGINE_SAVES = 8, 2

# Most that a candidate may differ from the eager engine: share of spikes, and relative L2 distance of gradients.
# Another order of float32 operations moves a membrane across its threshold now and then, and one spike more or less
# changes the gradients around it. Other libraries keep membranes in the dtype of the input; ours are float32 always.
SPIKES_MAY_DIFFER = {torch.float32: 1e-3, torch.bfloat16: 2e-2, torch.float16: 2e-2}
GRADIENT_MAY_DIFFER = {torch.float32: 5e-2, torch.bfloat16: 0.15, torch.float16: 0.15}
COMPARED = 2**16  # neurons; half of them the first ones of the layer, half the last ones


@dataclass(frozen=True)
class Arguments:
    """What to run; the options of ``snnkit bench neurons``."""

    device: str = device_option()
    neurons: Sequence[int] = option(
        "Neurons in the layer.", (2**12, 2**16, 2**18), cuda=(2**12, 2**16, 2**20), quick=(2**10,)
    )
    steps: Sequence[int] = option("Time steps.", (8, 16, 32, 64, 128), quick=(8,))
    dtypes: Sequence[str] = option(
        "Of the input.", ("float32", "bfloat16"), flag="dtype", choices=("float32", "bfloat16", "float16")
    )
    modes: Sequence[str] = option("What to time.", MODES, flag="mode", choices=MODES)
    engines: Sequence[str] = option("Of ours, or torch.compile (the plain loop); by default all of the device.", ())
    peers: bool = peers_option()
    repeats: int = repeats_option(11)

    def __post_init__(self) -> None:
        for name in self.engines or ():
            if name not in engine_names():
                raise ValueError(f"--engines must be one of {', '.join(engine_names())}, but it is {name!r}")


@dataclass(frozen=True)
class Candidate:
    """One line of the table.

    Attributes:
        name: unique for its equation: the engine (and what is special), "torch.compile" or the library.
        library: "snnkit", "torch" or the other library's name.
        engine: that of ours that runs it; "" for others.
        equation: a key of ``EQUATIONS``, with whose eager engine the result is compared.
        forward: x [T, B, N] to spikes [T, B, N].
        why_not: x to the reason why this candidate would not run as its name says, or "".
        modes: in which it takes part.
        saves: guess of what training needs besides inputs and outputs, in float32 tensors of the shape of x.
        out_dtype: of the spikes, where it is not that of x.
        longest: most steps it takes part with; None is any number.
    """

    name: str
    library: str
    engine: str
    equation: str
    forward: Forward
    why_not: Callable[[Tensor], str] = lambda x: ""
    modes: Sequence[str] = MODES
    saves: int = LOOP_SAVES
    out_dtype: torch.dtype | None = None
    longest: int | None = None


def engine_names() -> tuple[str, ...]:
    """What may be requested: every engine, and the unrolled loop under ``torch.compile``."""
    return (*(name for name in ENGINES if name != "auto"), COMPILED)


def candidates(
    device: torch.device, engines: Sequence[str] | None = None, peers: bool = True
) -> tuple[list[Candidate], dict[str, str]]:
    """The candidates on ``device``, and why other engines are left out.

    Args:
        engines: some of ``engine_names()``; None is every one that is made for the device.
        peers: other libraries too, and our engines on their equations.

    Returns:
        Equation by equation, ours, then others. And name to reason of the engines left out.
    """
    others = layers(device) if peers else []
    every: list[Candidate] = []
    left_out: dict[str, str] = {}
    for equation in dict.fromkeys(["LIF", *(other.equation for other in others)]):
        for name in engines or engine_names():
            if name == COMPILED:
                every += [_compiled(equation)] if equation == "LIF" else []
                continue
            ours = _ours(name, equation)
            if reason := ours.why_not(torch.zeros(2, 1, 8, device=device)):
                left_out[name] = reason
                continue
            every.append(ours)
            if equation == "LIF" and name != "eager":
                every.append(_ours(name, equation, torch.uint8))
        every += [Candidate(o.name, o.name, "", o.equation, o.forward) for o in others if o.equation == equation]
    return every, left_out


def _ours(engine: str, equation: str, out_dtype: torch.dtype | None = None) -> Candidate:
    neuron = EQUATIONS[equation](engine)

    def forward(x: Tensor) -> Tensor:
        return neuron(x, out_dtype=out_dtype)[0]

    def why_not(x: Tensor) -> str:
        dtype = state_dtype(x)
        rest = neuron.initial_state(torch.empty(x.shape[1:], dtype=dtype, device=x.device))
        plan = plan_for(engine, neuron, x, rest)
        return "" if plan.engine == engine else plan.reason

    if out_dtype is None:
        saves = LOOP_SAVES if engine == "eager" else ENGINE_SAVES
        return Candidate(engine, OURS, engine, equation, forward, why_not, saves=saves)
    # No gradient passes through bytes.
    name = f"{engine}, {dtype_name(out_dtype)} spikes"
    return Candidate(name, OURS, engine, equation, forward, why_not, modes=(INFERENCE,), out_dtype=out_dtype)


def _compiled(equation: str) -> Candidate:
    """What a user of PyTorch would write: the loop over time, handed to ``torch.compile`` as it is."""
    neuron = EQUATIONS[equation]("eager")

    def loop(x: Tensor) -> Tensor:
        dtype = state_dtype(x)
        state = neuron.initial_state(torch.zeros_like(x[0], dtype=dtype))
        spikes = []
        for x_t in x.unbind(0):
            spike, state = neuron.step(x_t.to(dtype), state)
            spikes.append(spike.to(x.dtype))
        return torch.stack(spikes)

    # Sizes stay constants, as they are by default in a first call.
    forward = torch.compile(loop, fullgraph=True, dynamic=False)
    return Candidate(COMPILED, "torch", "", equation, forward, longest=LONGEST_COMPILED)


def bytes_per_neuron_step(mode: str, dtype: torch.dtype, out_dtype: torch.dtype | None = None) -> int:
    """The floor: bytes that a layer has to move for each neuron and step. State can stay in registers.

    inference: read x, write the spikes (float32 8, bfloat16 4; uint8 spikes 5 and 3).
    training: read x, write the spikes; in backward read x and the gradient of the spikes, write that of x (20, 10).

    Args:
        mode: "inference" or "training".
        dtype: of x and all gradients.
        out_dtype: of the spikes; None is ``dtype``.
    """
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(map(repr, MODES))}, but it is {mode!r}")
    size, out = dtype.itemsize, (out_dtype or dtype).itemsize
    return size + out if mode == INFERENCE else size + out + 3 * size


class Case(Race):
    """N neurons over T steps with input of a dtype, in a mode, on a device.

    Args:
        fell_back: (candidate's name, equation, dtype) to the reason, of all cases so far; added to. An engine warns
            only once that another one runs in its place.
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        neurons: int,
        steps: int,
        dtype: torch.dtype,
        mode: str,
        device: torch.device,
        fell_back: dict[Any, str] | None = None,
    ) -> None:
        self.neurons, self.steps, self.dtype, self.mode, self.device = neurons, steps, dtype, mode, device
        self.labels = {"mode": mode, "dtype": dtype_name(dtype), "neurons": neurons, "steps": steps}
        self.candidates = [c for c in candidates if mode in c.modes and steps <= (c.longest or steps)]
        self.fell_back = {} if fell_back is None else fell_back
        self.clock = None if device.type == "cpu" else clock_for(device)
        self._references: dict[str, tuple[Tensor, Tensor | None]] = {}
        self._x: Tensor | None = None
        self._gradients: dict[torch.dtype, Tensor] = {}

    @property
    def x(self) -> Tensor:
        """The input, made when the first candidate that fits into memory wants it."""
        if self._x is None:
            shape = (self.steps, 1, self.neurons)
            self._x = torch.rand(shape, device=self.device).mul_(1.5).to(self.dtype)
            if self.mode == TRAINING:
                self._gradients[self.dtype] = torch.rand(shape, device=self.device).to(self.dtype)
        return self._x

    def key(self, candidate: Candidate) -> str:
        return f"{candidate.name} · {candidate.equation}"

    def skip(self, candidate: Candidate, reason: str) -> Row:
        return super().skip(candidate, reason) | {"equation": candidate.equation}

    def prepare(self, candidate: Candidate) -> tuple[Row, Callable[[], object]]:
        elements, size = self.neurons * self.steps, self.dtype.itemsize
        # x, its copy, spikes, two gradients, and what is saved for backward.
        need = elements * (4 * size if self.mode == INFERENCE else 5 * size + 4 * candidate.saves)
        free = available(self.device)
        has = "" if free is None else f", and {free / 2**30:.1f} GiB are free"
        too_large = f"too little memory: about {need / 2**30:.1f} GiB are needed{has}; lower --neurons or --steps"
        if free is not None and need > free:
            raise DoesNotRun(too_large)
        known = self.key(candidate), self.dtype
        if known in self.fell_back:
            raise DoesNotRun(self.fell_back[known])
        if candidate.name == COMPILED:
            torch.compiler.reset()  # or it would reach torch's limit of recompilations and run uncompiled
        run = self._pass(candidate.forward)
        reference = self._reference(candidate.equation)

        def first() -> tuple[float, tuple[Tensor, Tensor | None]]:
            def call() -> Any:
                # Traces an equation that is new: a part of the first call.
                if reason := candidate.why_not(self.x):
                    raise DoesNotRun(reason)
                return run()

            return first_call(call, self.device)

        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            seconds, result = attempt(candidate.library, first, too_large)
        for message in (str(warning.message) for warning in warned):
            other = re.search(r"runs in the (\w+) engine", message)
            if candidate.library == OURS and other and other[1] != candidate.engine:
                self.fell_back[known] = message
                raise DoesNotRun(message)
        differences = self._verify(result, reference)
        held = held_for_backward(candidate.forward, self.x) if self.mode == TRAINING else None
        row = self.labels | {
            "contestant": candidate.name,
            "library": candidate.library,
            "engine": candidate.engine,
            "equation": candidate.equation,
            "out_dtype": dtype_name(result[0].dtype),
            "first_s": seconds,
            "floor_bytes": elements * bytes_per_neuron_step(self.mode, self.dtype, candidate.out_dtype),
            "held_bytes": held.total if held else 0,
            "held_x_bytes": held.x if held else 0,
            **differences,
        }
        # A CPU does not count what it allocates.
        return row | {"peak_bytes": peak_of(run, self.device) if self.device.type == "cuda" else None}, run

    def scale(self) -> Callable[[], object]:
        copied = torch.empty_like(self.x)
        return lambda: copied.copy_(self.x)

    def beside(self, scale: Timing) -> dict[str, list[Row]]:
        moved = 2 * self.x.nbytes
        copy = self.labels | _times(scale) | {"bytes": moved, "bytes_per_s": moved / scale.median}
        return {"copies": [copy]}

    def finish(self, row: Row, timing: Timing, scale: Timing) -> Row:
        floor = row["floor_bytes"] * scale.median / (2 * self.x.nbytes)
        return row | _times(timing) | {"floor_s": floor, "over_floor": timing.median / floor}

    def _pass(self, forward: Forward) -> Callable[[], tuple[Tensor, Tensor | None]]:
        """The function that is timed. In training it takes a fresh leaf and returns its gradient, as a hidden layer."""

        def infer() -> tuple[Tensor, None]:
            with torch.no_grad():
                return forward(self.x), None

        def train() -> tuple[Tensor, Tensor]:
            leaf = self.x.detach().requires_grad_()
            out = forward(leaf)
            if out.dtype not in self._gradients:  # a library that returns another dtype; made in its first call
                self._gradients[out.dtype] = self._gradients[self.dtype].to(out.dtype)
            (gradient,) = torch.autograd.grad(out, leaf, self._gradients[out.dtype])
            return out.detach(), gradient

        return train if self.mode == TRAINING else infer

    def _reference(self, equation: str) -> tuple[Tensor, Tensor | None]:
        """Spikes and gradient of our eager engine for some neurons of the layer: they are independent."""
        if equation not in self._references:
            leaf = _some(self.x).detach().requires_grad_(self.mode == TRAINING)
            out = EQUATIONS[equation]("eager")(leaf)[0]
            gradient = None
            if self.mode == TRAINING:
                (gradient,) = torch.autograd.grad(out, leaf, _some(self._gradients[self.dtype]))
            self._references[equation] = out.detach(), gradient
        return self._references[equation]

    def _verify(self, result: tuple[Tensor, Tensor | None], reference: tuple[Tensor, Tensor | None]) -> Row:
        """How far a result is from the reference; ``DoesNotRun`` where that is too far."""
        (spikes, gradient), (expected, expected_gradient) = result, reference
        differ = (_some(spikes).float() != expected.float()).float().mean().item()
        if not differ <= SPIKES_MAY_DIFFER[self.dtype]:
            raise DoesNotRun(f"it computes something else: {differ:.2%} of its spikes differ")
        row: Row = {"compared_neurons": expected.shape[-1], "spikes_differ": differ, "gradient_differs": None}
        if gradient is not None and expected_gradient is not None:
            norm = expected_gradient.float().norm().clamp_min(1e-30)
            distance = ((_some(gradient).float() - expected_gradient.float()).norm() / norm).item()
            if not distance <= GRADIENT_MAY_DIFFER[self.dtype]:
                raise DoesNotRun(f"it computes something else: its gradients are {distance:.2%} off")
            row["gradient_differs"] = distance
        return row


def _some(tensor: Tensor) -> Tensor:
    """The first and the last neurons of [T, B, N], all where there are few."""
    if tensor.shape[-1] <= COMPARED:
        return tensor
    return torch.cat([tensor[..., : COMPARED // 2], tensor[..., -COMPARED // 2 :]], dim=-1)


def _times(timing: Timing) -> Row:
    return seconds_of(timing) | {"host_s": timing.host, "calls": timing.calls}


def _cases(arguments: Arguments, device: torch.device) -> Iterator[Case]:
    """Every combination, from small to large."""
    every, _ = candidates(device, arguments.engines, arguments.peers)
    fell_back: dict[Any, str] = {}
    for neurons in sorted(arguments.neurons):
        for steps in sorted(arguments.steps):
            for dtype in arguments.dtypes:
                for mode in arguments.modes:
                    yield Case(every, neurons, steps, getattr(torch, dtype), mode, device, fell_back)


def _parts(arguments: Arguments, device: torch.device) -> Row:
    _, left_out = candidates(device, arguments.engines, arguments.peers)
    return {"copies": [], "skipped": [{"contestant": name, "reason": reason} for name, reason in left_out.items()]}


_HEAD = ("candidate", "equation", "ms", "10-90 %", "host ms", "first s", "x floor", "held B", "peak MB", "x ours")


def _table(record: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    """Columns: "host ms" is how long the call kept the host (on CUDA, where the device works on meanwhile).
    "first s" is the first call, which may use kernels that other sizes or earlier runs left in memory and on
    disk. "x floor" is the time over that of the bytes in ``floor_bytes``, "held B" the bytes per neuron-step
    saved for backward. "x ours" is the time over that of the fastest of our compiled engines on the same
    equation with the same output.
    """
    title = f"{rows[0]['mode']}, {rows[0]['dtype']}, N = {rows[0]['neurons']:,}, T = {rows[0]['steps']}"
    for copy in same_case(record.get("copies", []), rows[0], KEY):
        title += f"; copy of x: {copy['median_s'] * 1e3:.3g} ms, {copy['bytes_per_s'] / 1e9:.3g} GB/s"
    return "\n".join([title, *text_table(_HEAD, [_cells(row, rows) for row in rows], left=2, always=3)])


def _cells(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    if "median_s" not in row:  # a published one
        return (row["contestant"], row["equation"], f"{row['seconds'] * 1e3:.4g}", *[""] * (len(_HEAD) - 3))
    ours = [r for r in rows if r["library"] == OURS and r["equation"] == row["equation"] and r["engine"] != "eager"]
    best = min((r["median_s"] for r in ours if r["floor_bytes"] == row["floor_bytes"]), default=None)
    held = row["held_bytes"] / (row["neurons"] * row["steps"])
    return (
        row["contestant"],
        row["equation"],
        *milliseconds(row),
        "" if row["host_s"] == row["median_s"] else f"{row['host_s'] * 1e3:.3g}",
        f"{row['first_s']:.3g}",
        f"{row['over_floor']:.2f}",
        f"{held:.1f}" if row["mode"] == TRAINING else "",
        mebibytes(row.get("peak_bytes")),
        times(row["median_s"], best),
    )


def _place(skip: Mapping[str, Any]) -> str:
    equation = f" {skip['equation']}" if skip.get("equation") else ""
    size = f" ({skip['mode']}, {skip['dtype']}, N = {skip['neurons']:,}, T = {skip['steps']})" if "mode" in skip else ""
    return equation + size


SUITE = Suite("neurons", Arguments, KEY, _cases, _table, _place, _parts)
benchmark, tables = SUITE.run, SUITE.tables
