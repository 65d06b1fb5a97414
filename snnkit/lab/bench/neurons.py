"""SpikingJelly's experiment and more: one layer of neurons over time, in each of our engines and other libraries.

    snnkit bench neurons --neurons 262144 --steps 32

Inference and training are timed separately. All candidates get the same input. Their spikes and gradients are first
compared with our eager engine's. Each other library has its own equation, and our engines run it, too.

Columns: "first s" is the first call, which may use kernels from other sizes or earlier runs. "x floor" is the time as a
multiple of moving the necessary bytes, "x ours" as a multiple of our fastest compiled engine on the same equation.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import product

import torch
from torch import Tensor, nn

from snnkit import checks
from snnkit.device.usage import available
from snnkit.engine import ENGINES, plan_for, state_dtype
from snnkit.lab.bench import suite
from snnkit.lab.bench.baselines import Forward, Layer, layers
from snnkit.lab.bench.suite import OURS, DoesNotRun, Race, Record, Row, Rows, Suite, option, seconds_of, table, times
from snnkit.lab.bench.workloads import EQUATIONS
from snnkit.measure import Timing, clock_for, first_call
from snnkit.nn import time_batched
from snnkit.tables import size_of

INFERENCE, TRAINING = MODES = ("inference", "training")
KEY = ("mode", "dtype", "neurons", "steps")

ENGINE_NAMES = tuple(name for name in ENGINES if name != "auto")

# A high guess of the memory for training besides inputs and outputs, in float32 tensors of the shape of x: loops saved
# three for backward, and had as many lists of gradients on the way back.
LOOP_SAVES = 8

# Largest allowed difference from the eager engine: share of spikes, and relative L2 distance of gradients. Another
# order of float32 operations sometimes moves a membrane across its threshold, and one spike more or less changes the
# gradients around it. Other libraries' membranes have the dtype of the input; ours are always float32.
SPIKES_MAY_DIFFER = {torch.float64: 0, torch.float32: 1e-3, torch.bfloat16: 2e-2, torch.float16: 2e-2}
GRADIENT_MAY_DIFFER = {torch.float64: 1e-9, torch.float32: 5e-2, torch.bfloat16: 0.15, torch.float16: 0.15}
COMPARED = 2**16  # neurons; half of them the first ones of the layer, half the last ones

Result = tuple[Tensor, Tensor | None]  # spikes and, in training, the gradient of x


@checks.arguments
@dataclass(frozen=True)
class Arguments(suite.Options):
    """What to run; the options of ``snnkit bench neurons``."""

    neurons: Sequence[int] = option(
        "Neurons in the layer.", (2**12, 2**16, 2**18), cuda=(2**12, 2**16, 2**20), quick=(2**10,)
    )
    steps: Sequence[int] = option("Time steps.", (8, 16, 32, 64, 128), quick=(8,))
    dtypes: Sequence[str] = option(
        "Of the input.", ("float32", "bfloat16"), flag="dtype", choices=("float32", "bfloat16", "float16")
    )
    modes: Sequence[str] = option("What to time.", MODES, flag="mode", choices=MODES)
    engines: Sequence[str] = option(
        "Of ours; those that do not run here are left out.", ENGINE_NAMES, choices=ENGINE_NAMES
    )
    peers: bool = suite.peers_option()
    repeats: int = suite.repeats_option(11)


def candidates(
    device: torch.device, engines: Sequence[str] = ENGINE_NAMES, peers: bool = True, more: Sequence[Layer] = ()
) -> tuple[list[Layer], dict[str, str]]:
    """The candidates on ``device``, by equation, ours first; and the reasons why other engines are left out.

    ``peers``: also other libraries, and our engines on their equations; ``more``: further libraries.
    """
    others = [*(layers(device) if peers else []), *more]
    every: list[Layer] = []
    unavailable: dict[str, str] = {}
    for equation in dict.fromkeys(["LIF", *(other.equation for other in others)]):
        ours = [engine_layer(name, equation) for name in dict.fromkeys(engines)]
        refused = {c.name: reason for c in ours if (reason := c.why_not(torch.zeros(2, 1, 8, device=device)))}
        unavailable |= refused
        every += [candidate for candidate in ours if candidate.name not in refused]
        every += [other for other in others if other.equation == equation]
    return every, unavailable


@cache
def engine_layer(engine: str, equation: str) -> Layer:
    """One of our engines; the same object each time, as engines know the equations of neurons that they have seen."""
    neuron = EQUATIONS[equation](engine)

    def why_not(x: Tensor) -> str:
        rest = neuron.initial_state(torch.empty(x.shape[1:], dtype=state_dtype(x), device=x.device))
        plan = plan_for(engine, neuron, x, rest)
        return "" if plan.engine == engine else plan.reason

    return Layer(engine, equation, lambda x: neuron(x)[0], engine, why_not)


def bytes_per_neuron_step(mode: str, dtype: torch.dtype) -> int:
    """The floor: bytes that a layer must move for each neuron and step. State can stay in registers.

    inference: read x, write the spikes (float32 8, bfloat16 4).
    training: read x, write the spikes; in backward read x and the gradient of the spikes, write that of x (20, 10).
    """
    return {INFERENCE: 2, TRAINING: 5}[checks.choice("mode", mode, MODES)] * dtype.itemsize


class Case(Race):
    """A layer of neurons with input x [T, B, n] of a dtype, in a mode, on a device."""

    linear: nn.Linear | None = None  # a layer before the neurons
    exact: torch.dtype | None = None  # of the eager engine that results are compared with; None: the input's

    def __init__(
        self,
        candidates: Sequence[Layer],
        labels: Row,
        shape: tuple[int, int, int],
        dtype: torch.dtype,
        mode: str,
        device: torch.device,
    ) -> None:
        self.shape, self.dtype, self.mode, self.device = shape, dtype, mode, device
        self.labels = {**labels, "mode": mode, "dtype": suite.dtype_name(dtype)}
        self.candidates = candidates
        self.clock = clock_for(device)
        self._eager: dict[str, Result] = {}

    @cached_property
    def x(self) -> Tensor:
        """The input. It and the output's gradient are made for the first candidate that fits into memory."""
        drive = 1.5 if self.linear is None else 1.0
        x = torch.rand(self.shape, device=self.device).mul_(drive).to(self.dtype)
        self._gradients = {self.dtype: torch.rand(self.shape, device=self.device).to(self.dtype)}
        return x

    @property
    def floor_bytes(self) -> int:
        return math.prod(self.shape) * bytes_per_neuron_step(self.mode, self.dtype)

    def prepare(self, candidate: Layer) -> tuple[Row, Callable[[], object]]:
        self._check_memory()
        run = partial(self._result, candidate.forward, self.x, self.gradient_in, candidate.library == OURS)

        def call() -> Result:
            # Traces a new equation, as part of the first call.
            if reason := candidate.why_not(self.x):
                raise DoesNotRun(reason)
            return run()

        with warnings.catch_warnings():
            warnings.filterwarnings("error", ".* runs in the .* engine")  # and not in the engine of its name
            try:
                seconds, result = suite.attempt(candidate.library, lambda: first_call(call, self.device))
            except UserWarning as fallback:
                raise DoesNotRun(str(fallback)) from None
        measured = {"out_dtype": suite.dtype_name(result[0].dtype), "first_s": seconds}
        return measured | self._verified(candidate, result), run

    def _check_memory(self) -> None:
        """``DoesNotRun`` if memory is too small for x, its copy, spikes, two gradients and saved tensors."""
        size = 4 * self.dtype.itemsize if self.mode == INFERENCE else 5 * self.dtype.itemsize + 4 * LOOP_SAVES
        need, free = math.prod(self.shape) * size, available(self.device)
        if free is not None and need > free:
            needs = f"about {size_of(need)} are needed, and {size_of(free)} are free"
            raise DoesNotRun(f"too little memory: {needs}; lower --neurons or --steps")

    def scale(self) -> Callable[[], object]:
        copied = torch.empty_like(self.x)
        return lambda: copied.copy_(self.x)

    def floor(self, row: Row, scale: Timing) -> float:
        return row["floor_bytes"] * scale.median / (2 * self.x.nbytes)

    def references(self, scale: Timing) -> dict[str, list[Row]]:
        moved = 2 * self.x.nbytes
        return {"copies": [self.labels | seconds_of(scale) | {"bytes": moved, "bytes_per_s": moved / scale.median}]}

    def _result(
        self, forward: Forward, x: Tensor, gradient: Callable[[torch.dtype], Tensor], ours: bool = False
    ) -> Result:
        """In training with the gradient of x, a fresh leaf, as in a hidden layer; or of the weights before the neurons.

        Ours has the linear layer of our networks, all others have PyTorch's.
        """
        leaf = x.detach() if self.linear is None else self.linear.weight
        with torch.set_grad_enabled(self.mode == TRAINING):
            leaf.requires_grad_(self.mode == TRAINING)
            if self.linear is not None:
                x = time_batched(self.linear, x) if ours else self.linear(x)
            out = forward(leaf if self.linear is None else x)
        if self.mode == INFERENCE:
            return out, None
        return out.detach(), torch.autograd.grad(out, leaf, gradient(out.dtype))[0]

    def gradient_in(self, dtype: torch.dtype) -> Tensor:
        """The output's gradient. For a library with another dtype of output, its first call makes it in that dtype."""
        if dtype not in self._gradients:
            self._gradients[dtype] = self._gradients[self.dtype].to(dtype)
        return self._gradients[dtype]

    def _reference(self, equation: str) -> Result:
        """Spikes and gradient of our eager engine for some neurons of the layer. All are independent."""
        if equation not in self._eager:
            exact, given = self.exact or self.dtype, (self.x, self._gradients[self.dtype])
            x, gradient = (_some(tensor).to(exact) for tensor in given)
            eager = engine_layer("eager", equation).forward
            self._eager[equation] = self._result(eager, x, lambda dtype: gradient)
        return self._eager[equation]

    def _verified(self, candidate: Layer, result: Result) -> Row:
        """What a row says about a result and its distance from the reference; ``DoesNotRun`` if it is too large."""
        (spikes, gradient), (expected, expected_gradient) = result, self._reference(candidate.equation)
        differ = (_some(spikes).float() != expected.float()).float().mean().item()
        if not differ <= SPIKES_MAY_DIFFER[self.dtype]:
            raise DoesNotRun(f"it computes something else: {differ:.2%} of its spikes differ")
        row: Row = {"engine": candidate.engine, "equation": candidate.equation, "floor_bytes": self.floor_bytes}
        row |= {"compared_neurons": expected.shape[-1], "spikes_differ": differ, "gradient_differs": None}
        if gradient is not None and expected_gradient is not None:
            exact = expected_gradient.to(torch.promote_types(expected_gradient.dtype, torch.float32))
            distance = suite.distance(_some(gradient).to(exact.dtype), exact)
            if not distance <= GRADIENT_MAY_DIFFER[self.dtype]:
                raise DoesNotRun(f"it computes something else: its gradients are {distance:.2%} off")
            row["gradient_differs"] = distance
        return row


def _some(tensor: Tensor) -> Tensor:
    """The first and the last neurons of [T, B, N], or all if there are few."""
    if tensor.shape[-1] <= COMPARED:
        return tensor
    return torch.cat([tensor[..., : COMPARED // 2], tensor[..., -COMPARED // 2 :]], dim=-1)


def _every(arguments: Arguments, device: torch.device) -> tuple[list[Layer], dict[str, str]]:
    return candidates(device, arguments.engines, arguments.peers)


def _cases(arguments: Arguments, device: torch.device) -> Iterator[Case]:
    """Every combination, from small to large."""
    every, _ = _every(arguments, device)
    sizes = product(sorted(arguments.neurons), sorted(arguments.steps))
    for (neurons, steps), dtype, mode in product(sizes, arguments.dtypes, arguments.modes):
        size = {"neurons": neurons, "steps": steps}
        yield Case(every, size, (steps, 1, neurons), getattr(torch, dtype), mode, device)


def over_ours(row: Record, rows: Rows) -> str:
    """The time as a multiple of our fastest compiled engine, for the same equation and dtype of outputs."""
    alike = suite.same_case(rows, row, ("equation", "floor_bytes"))
    ours = [one["median_s"] for one in alike if one["library"] == OURS and one["engine"] != "eager"]
    return times(row["median_s"], min(ours, default=None))


def _table(record: Record, rows: Rows) -> str:
    title = f"{rows[0]['mode']}, {rows[0]['dtype']}, N = {rows[0]['neurons']:,}, T = {rows[0]['steps']}"
    if record["kind"] == "published":
        published = {"ms": lambda row: f"{row['seconds'] * 1e3:.4g}"}
        return table(title, suite.columns("candidate", "equation") | published, rows, left=2)
    for copy in suite.same_case(record["copies"], rows[0], KEY):
        title += f"; copy of x: {copy['median_s'] * 1e3:.3g} ms, {copy['bytes_per_s'] / 1e9:.3g} GB/s"
    columns = suite.columns("candidate", "equation", "ms", "10-90 %", "first s", "x floor")
    return table(title, columns | {"x ours": lambda row: over_ours(row, rows)}, rows, left=2)


SUITE = Suite("neurons", KEY, _cases, _table, lambda *chosen: _every(*chosen)[1])
benchmark, tables = SUITE.run, SUITE.tables
