"""A training step as the list of what it computes and moves: what every model of a machine starts from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

# What an operation is, for a machine.
KINDS = (
    "view",  # another look at the same memory: nothing runs on the device
    "allocate",  # memory without values
    "elementwise",
    "copy",
    "reduction",
    "matmul",
    "convolution",
    "norm",
    "pool",
    "other",
    "fused",  # all steps of a layer of neurons at once
)
PHASES = ("forward", "backward", "optimizer")


@dataclass(frozen=True)
class Operation:
    """One that PyTorch runs.

    Attributes:
        name: of PyTorch's library, such as "add".
        kind: one of ``KINDS``.
        phase: one of ``PHASES``.
        reads, writes: bytes, of tensors that are as large as they look or smaller.
        numel: values of the largest result.
        flops: of a matrix product or convolution; 0 for others.
        simple, costly: elementwise operations, each on one value: arithmetic and comparisons; exp, tanh and the like.
        dims: of a matrix product [m, k] × [k, n], or of the one that a convolution is: (m, n, k).
        layer: the layer of neurons that it belongs to, its number in ``Work.layers``.
        function: it is the first of a ``torch.autograd.Function``'s backward, which costs a call of Python.
        kept: its result lives on: backward needs it, or it waits to be stacked.
    """

    name: str
    kind: str
    phase: str
    reads: int
    writes: int
    numel: int
    flops: int = 0
    simple: float = 0
    costly: float = 0
    dims: tuple[int, int, int] | None = None
    layer: int | None = None
    function: bool = False
    kept: bool = False

    @property
    def bytes(self) -> int:
        """Read and written."""
        return self.reads + self.writes

    @property
    def runs(self) -> bool:
        """Whether the device has something to do."""
        return self.kind not in ("view", "allocate")


@dataclass(frozen=True)
class Layer:
    """One call of a layer of neurons.

    Attributes:
        name: of its class.
        steps: T.
        neurons: of a step, those of all samples of the batch.
        static: x is one step that comes in T times.
        gradient: whether the gradient of x is wanted.
        states: tensors of its state.
        size: bytes of a value.
    """

    name: str
    steps: int
    neurons: int
    static: bool
    gradient: bool
    states: int
    size: int


@dataclass(frozen=True)
class Work:
    """A training step: forward, backward and the update of the weights.

    Attributes:
        name: of the network.
        samples: the batch.
        operations: in order.
        layers: calls of layers of neurons.
        parameters: how many weights there are.
        inputs: bytes of a batch that come from outside.
        optimizer_states: tensors of the size of the weights that the optimizer keeps.
    """

    name: str
    samples: int
    operations: tuple[Operation, ...] = field(repr=False)
    layers: tuple[Layer, ...] = field(repr=False)
    parameters: int
    inputs: int
    optimizer_states: int

    @cached_property
    def running(self) -> tuple[Operation, ...]:
        """Operations that a device has to run, without views."""
        return tuple(op for op in self.operations if op.runs)

    @property
    def launches(self) -> int:
        """How many run."""
        return len(self.running)

    @property
    def bytes(self) -> int:
        """Read and written by all of them."""
        return sum(op.bytes for op in self.running)

    @property
    def flops(self) -> int:
        """Of all matrix products and convolutions."""
        return sum(op.flops for op in self.running)

    def of(self, *kinds: str) -> Iterator[Operation]:
        """The operations of these kinds."""
        return (op for op in self.operations if op.kind in kinds)

    def fused(self, which: frozenset[int] | None = None) -> Work:
        """The same step with each layer of neurons as one kernel forward and one backward.

        Forward reads x and writes spikes; backward reads x and the gradient of the spikes, goes forward once more, and
        writes the gradient of x; the state stays inside (``bench.floor``). Layers whose step is not elementwise stay as
        they are.

        Args:
            which: numbers of the layers to fuse; None: all that can be.
        """
        fusible = frozenset(i for i in range(len(self.layers)) if self._fusible(i))
        chosen = fusible if which is None else fusible & which
        done: set[tuple[int, str]] = set()
        operations: list[Operation] = []
        for op in self.operations:
            if op.layer is None or op.layer not in chosen:
                operations.append(op)
            elif (op.layer, op.phase) not in done:
                done.add((op.layer, op.phase))
                operations.append(self._kernel(op.layer, op.phase))
        return replace(self, operations=tuple(operations))

    def _fusible(self, layer: int) -> bool:
        allowed = ("view", "allocate", "elementwise", "copy", "reduction", "fused")
        return all(op.kind in allowed for op in self._of_layer[layer])

    @cached_property
    def _of_layer(self) -> dict[int, list[Operation]]:
        found: dict[int, list[Operation]] = {i: [] for i in range(len(self.layers))}
        for op in self.operations:
            if op.layer is not None:
                found[op.layer].append(op)
        return found

    def _kernel(self, number: int, phase: str) -> Operation:
        layer = self.layers[number]
        inside = self._of_layer[number]
        # Backward computes the states anew, from x.
        counted = [op for op in inside if op.kind == "elementwise" and (phase == "backward" or op.phase == phase)]
        every = layer.steps * layer.neurons
        x = (layer.neurons if layer.static else every) * layer.size
        reads = x if phase == "forward" else x + every * layer.size
        writes = every * layer.size if phase == "forward" else x if layer.gradient else 0
        return Operation(
            f"{layer.name} {phase}", "fused", phase, reads, writes, every, layer=number,
            simple=sum(op.simple for op in counted), costly=sum(op.costly for op in counted),
        )  # fmt: skip
