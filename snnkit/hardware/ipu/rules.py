"""The ten rules of an IPU, and the table of all ways to break them.

Each row of ``ROWS`` is a decorated function: its name is the id of the row, the decorator holds rule, message, fix and
severity, and the function yields a ``Hit`` for each place that breaks the rule, with the values for the braces in
message and fix. To extend the checker, add a function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .nets import NotOneLoss
from .operations import SIZE_FROM_VALUES, is_supported
from .recording import Applied, Loss, Operation, Place, Record, Runs, copied, record, run

# The rules, in the order in which they are checked, and what each asks.
RULES = {
    "batch": "every input's first dimension is the batch, fixed, and divides into the micro-batches of one call",
    "static graph": "the forward pass runs without reading a value: it is recorded once, on tensors without values",
    "state in place": "parameters and buffers stay the tensors they were; state is copied into them",
    "supported operations": "every operation of the forward pass is one that PopTorch 3.4 documents",
    "no autograd.Function": "no custom backward pass is used between the loss and the parameters",
    "gradients": "differentiating the recorded forward pass gives each parameter the gradient it has here",
    "one loss": "the model holds exactly one loss, a scalar, and nothing trained on comes after it",
    "dtypes": "no float64, no integers beyond 32 bits, and no types that an IPU does not have",
    "same trace": "every call runs the same operations, for any input and any number of earlier calls",
    "memory": "weights, optimizer and saved activations fit into the memory of the tiles",
}

# Above this share of the memory a warning: code, exchange buffers and temporaries are not in the estimate. Assumed.
CROWDED = 0.6
_INT32 = 2**31


@dataclass(frozen=True)
class MemoryEstimate:
    """Estimated bytes on the chip in a training step, evenly spread over the tiles.

    Not included, as only the compiler knows them: code, buffers of the exchange, temporaries of an operation.

    Attributes:
        weights, gradients, optimizer, accumulation, activations, transfer: bytes. The activations are those that
            autograd saves for the backward pass of one micro-batch; transfer is its inputs and outputs.
        tiles, tile_memory: the chip's number of tiles, and the bytes of each.
    """

    weights: int
    gradients: int
    optimizer: int
    accumulation: int
    activations: int
    transfer: int
    tiles: int
    tile_memory: int

    def _parts(self) -> dict[str, int]:
        return {name: size for name, size in vars(self).items() if not name.startswith("tile")}

    @property
    def total(self) -> int:
        """Bytes in all."""
        return sum(self._parts().values())

    @property
    def per_tile(self) -> float:
        """Bytes per tile."""
        return self.total / self.tiles

    @property
    def share(self) -> float:
        """Of the chip's memory."""
        return self.per_tile / self.tile_memory

    def __str__(self) -> str:
        shares = ", ".join(f"{part} {size / 1e6:.3g} MB" for part, size in self._parts().items())
        return (
            f"{self.total / 1e6:.3g} MB of {self.tiles * self.tile_memory / 1e6:.3g} MB (estimated, {self.share:.1%}), "
            f"{self.per_tile / 1024:.1f} of {self.tile_memory / 1024:.0f} KiB per tile: {shares}"
        )


@dataclass
class Case:
    """What is checked: a model with its inputs and options, and its runs, made when a rule first needs them."""

    model: nn.Module
    inputs: list[Tensor]
    device_iterations: int
    gradient_accumulation: int
    replicas: int
    loader: Any
    optimizer_states: int
    tiles: int
    tile_memory: int

    @property
    def micro_batches(self) -> int:
        return self.device_iterations * self.gradient_accumulation * self.replicas

    @property
    def sizes(self) -> list[int]:
        return [x.shape[0] if x.dim() else 0 for x in self.inputs]

    @cached_property
    def runs(self) -> Runs:
        """Of one micro-batch, or of the whole example where it can't be split."""
        splits = len(set(self.sizes)) == 1 and self.sizes[0] and not self.sizes[0] % self.micro_batches
        count = self.micro_batches if splits else 1
        return run(self.model, [x[: x.shape[0] // count] if x.dim() else x for x in self.inputs])

    @property
    def graph(self) -> Record:
        return self.runs.graph

    @cached_property
    def losses(self) -> list[Loss]:
        """The final losses of the graph."""
        return final_losses(self.graph)

    @cached_property
    def memory(self) -> MemoryEstimate:
        parameters = list(self.model.parameters())
        trained = sum(p.nbytes for p in parameters if p.requires_grad)
        return MemoryEstimate(
            weights=sum(t.nbytes for t in (*parameters, *self.model.buffers())),
            gradients=trained,
            optimizer=self.optimizer_states * trained,
            accumulation=trained if self.gradient_accumulation > 1 else 0,
            activations=self.runs.saved,
            transfer=sum(t.nbytes for t in (*self.runs.inputs, *self.graph.outputs)),
            tiles=self.tiles,
            tile_memory=self.tile_memory,
        )


class Hit(NamedTuple):
    """One break of a rule: its place, values for the braces in message and fix, and the severity if it varies."""

    place: Place
    values: dict[str, Any]
    severity: str = ""


class Row(NamedTuple):
    """One way to break a rule; ``hits`` yields where a case does."""

    id: str
    rule: str
    message: str
    fix: str
    severity: str
    hits: Callable[[Case], Iterable[Hit]]


ROWS: list[Row] = []


def _row(rule: str, message: str, fix: str, severity: str = "error") -> Callable:
    def add(hits: Callable[[Case], Iterable[Hit]]) -> Callable[[Case], Iterable[Hit]]:
        ROWS.append(Row(hits.__name__, rule, message, fix, severity, hits))
        return hits

    return add


def _hit(place: Place = Place(), /, **values: Any) -> Hit:  # noqa: B008, a constant
    return Hit(place, values)


# --- batch


@_row("batch", "input {i} has no batch to split: its shape is {shape}", "make the batch its first dimension")
def no_batch(case: Case) -> Iterator[Hit]:
    if 0 in case.sizes:
        i = case.sizes.index(0)
        yield _hit(i=i, shape=list(case.inputs[i].shape))


@_row(
    "batch",
    "the inputs' first dimensions differ: {sizes}; PopTorch splits every input along its first dimension",
    "put the batch first: x.transpose(0, 1) of what has time first, or ipu.convert(net)",
)
def batches_differ(case: Case) -> Iterator[Hit]:
    if 0 not in case.sizes and len(set(case.sizes)) > 1:
        sizes = ", ".join(map(str, case.sizes))
        yield Hit(Place(), {"sizes": sizes}, "error" if case.micro_batches > 1 else "warning")


@_row(
    "batch",
    "a batch of {size} can't be divided into {count} micro-batches (device iterations × gradient accumulation × "
    'replicas; "Invalid batch dimension")',
    "use a multiple of {count}, such as {below} or {above}",
)
def batch_not_divisible(case: Case) -> Iterator[Hit]:
    size, count = case.sizes[0], case.micro_batches
    if len(set(case.sizes)) == 1 and size % count:
        below = size // count * count
        yield _hit(size=size, count=count, below=below or count, above=below + count)


@_row(
    "batch",
    "the loader makes batches of its own sizes, but an IPU's graph is made for one size",
    "give it batch_size and drop_last=True",
)
def loader_without_batches(case: Case) -> Iterator[Hit]:
    if case.loader is not None and case.loader.batch_size is None:
        yield _hit()


@_row(
    "batch",
    "the loader's last batch {last} smaller than the others, but an IPU's graph is made for one size",
    "use drop_last=True",
)
def last_batch_smaller(case: Case) -> Iterator[Hit]:
    if case.loader is None or case.loader.batch_size is None or case.loader.drop_last:
        return
    try:
        rest = len(case.loader.dataset) % case.loader.batch_size
    except TypeError:
        yield _hit(last="may be")
    else:
        if rest:
            yield _hit(last=f"has {rest} of {case.loader.batch_size} samples and is")


@_row(
    "batch",
    "the loader's batches hold {batch} samples, the example {size}: the graph would be made for {size}",
    "check with a batch of the loader",
)
def loader_of_other_size(case: Case) -> Iterator[Hit]:
    if case.loader is not None and case.loader.batch_size not in (None, case.sizes[0]):
        yield _hit(batch=case.loader.batch_size, size=case.sizes[0])


@_row(
    "batch",
    "the model runs on the whole batch of {whole}, but not on a micro-batch of {micro}, which is what an IPU gives it "
    "({error})",
    "take the size from the input: x.flatten(1), x.view(x.shape[0], -1)",
)
def batch_size_written_out(case: Case) -> Iterator[Hit]:
    real, whole, micro = case.runs.real, case.inputs[0].shape[:1], case.runs.inputs[0].shape[:1]
    if real.error is not None and whole != micro and run(case.model, case.inputs).real.error is None:
        yield _hit(real.error_place, whole=whole[0], micro=micro[0], error=_first_line(real.error))


# --- static graph


@_row(
    "static graph",
    "{path} is compiled by torch.compile, which PopTorch does not support",
    "give the module itself, before torch.compile",
)
def compiled_module(case: Case) -> Iterator[Hit]:
    for path, module in case.model.named_modules():
        if hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None:
            yield _hit(path=path or "model")
            return


@_row(
    "static graph",
    "the forward pass reads {how} from a tensor, but there are no values while a graph is recorded; Python would "
    "decide once, for all batches",
    "decide per element with torch.where or arithmetic, and by constants of the constructor in Python; return a "
    "tensor instead of a number",
)
def reads_a_value(case: Case) -> Iterator[Hit]:
    return (_hit(place, how=how) for how, place in case.graph.reads)


@_row(
    "static graph",
    "the size of the result of {call} depends on values, but in a static graph every size is fixed",
    "choose by arithmetic instead of by taking out: x * mask, or torch.where(mask, x, 0), keeps the size; torch.topk "
    "takes a fixed number",
)
def size_from_values(case: Case) -> Iterator[Hit]:
    for op in case.graph.operations:
        if _sized_by_values(op):
            yield _hit(op.place, call="x[mask]" if op.name == "index" else f"torch.{op.name}")


@_row(
    "static graph",
    "{name} takes a tensor that is neither input, parameter nor buffer and is on the CPU "
    '("Expected an IPU tensor but got tensor(device=cpu …")',
    "make it a buffer (register_buffer), so that it moves with the model, or create it in the forward pass on x.device",
)
def tensor_of_the_host(case: Case) -> Iterator[Hit]:
    for op in case.graph.operations:
        devices = {t.device.type for t in (*op.inputs, *op.outputs)}
        if "cpu" in devices and len(devices) > 1 and op.name not in ("_to_copy", "copy_"):
            yield _hit(op.place, name=op.name)


@_row(
    "static graph",
    "the forward pass calls a function that torch.compile has made, which PopTorch does not support",
    "call the function itself, without torch.compile",
)
def compiled_function(case: Case) -> Iterator[Hit]:
    if case.graph.compiled is not None:
        yield _hit(case.graph.compiled)


@_row(
    "static graph",
    "the forward pass differentiates by torch.func, which this check can't look into",
    "write the derivative in plain operations",
)
def differentiates(case: Case) -> Iterator[Hit]:
    if "saved tensor hooks" in str(case.graph.error):
        yield _hit(case.graph.error_place)


@_row(
    "static graph",
    "the forward pass can't be recorded without values: {error}",
    "use operations whose result's type and shape follow from those of their arguments",
)
def not_recordable(case: Case) -> Iterator[Hit]:
    """An error of the forward pass on the meta device that no other row explains."""
    others = (reads_a_value, size_from_values, tensor_of_the_host, compiled_function, differentiates)
    if case.graph.error is not None and not any(any(True for _ in other(case)) for other in others):
        yield _hit(case.graph.error_place, error=_first_line(case.graph.error))


# --- state in place


@_row(
    "state in place",
    "{path} is another tensor after the forward pass; PopTorch compares addresses and refuses this "
    '("Buffer … is reassigned within the model")',
    "write into it, self.{name}.copy_(…), or pass the state in and out instead of storing it",
)
def tensor_replaced(case: Case) -> Iterator[Hit]:
    for path in case.runs.replaced:
        yield _hit(_owner(case.model, path), path=path, name=path.rpartition(".")[2])


@_row(
    "state in place",
    "{path} is state in a plain attribute, carried from call to call; the recorded graph begins with its first value "
    "in every call",
    "register it as a buffer and write with copy_, or begin each call at rest",
)
def state_in_an_attribute(case: Case) -> Iterator[Hit]:
    for path, tensor in case.runs.attributes.items():
        if reader := _reader(case.runs, tensor):
            yield _hit(reader.place, path=path)


@_row(
    "state in place",
    "the forward pass leaves a tensor in the attribute {path}; after the recording it has no value",
    "return it with the output if it is needed",
    "warning",
)
def tensor_in_an_attribute(case: Case) -> Iterator[Hit]:
    for path, tensor in case.runs.attributes.items():
        if not _reader(case.runs, tensor) and path.rpartition(".")[2] not in case.runs.replaced:
            yield _hit(_owner(case.model, path), path=path)


def _reader(runs: Runs, tensor: Tensor) -> Operation | None:
    return next((op for op in runs.meta[1].operations if any(t is tensor for t in op.inputs)), None)


# --- supported operations

# What to write instead of some operations in networks of spiking neurons.
_INSTEAD = {
    "heaviside": "write (x > 0).to(x.dtype)",
    "lerp": "write a + weight * (b - a)",
    "nan_to_num": "prevent NaN; torch.where(torch.isnan(x), 0, x) also works",
    "sinc": "write it with torch.sin and torch.where",
    "rand_like": "write torch.rand(x.shape)",
    "randn_like": "write torch.randn(x.shape)",
    "bernoulli_": "write torch.bernoulli(p)",
}
_NORMS = {"native_batch_norm": 1, "native_group_norm": 1, "native_layer_norm": 2}  # position of the weight


@_row("supported operations", "{name} is not among the operations that PopTorch 3.4 documents or handles", "{fix}")
def unknown_operation(case: Case) -> Iterator[Hit]:
    for op in case.graph.operations:
        if not is_supported(op.name) and not op.part and not _sized_by_values(op):
            default = "write it with operations that are (snnkit.hardware.ipu.operations.SUPPORTED)"
            yield _hit(op.place, name=op.name, fix=_INSTEAD.get(op.name, default))


@_row("supported operations", "{what} is not supported by PopTorch (its user guide)", "{fix}")
def limit_of_an_operation(case: Case) -> Iterator[Hit]:
    for op in case.graph.operations:
        weight = op.args[_NORMS[op.name]] if op.name in _NORMS and len(op.args) > _NORMS[op.name] else None
        if op.name in _NORMS and weight is None:
            yield _hit(op.place, what="a norm without weights", fix="give it affine=True (elementwise_affine=True)")
        elif op.name == "topk" and not (op.args[4] if len(op.args) > 4 else op.kwargs.get("sorted", True)):
            yield _hit(op.place, what="torch.topk with sorted=False", fix="use sorted=True")
        elif op.name == "embedding" and len(op.args) > 2 and op.args[2] not in (-1, None):
            fix = "leave padding_idx out and mask the result"
            yield _hit(op.place, what="an embedding with padding_idx", fix=fix)
        elif op.name == "convolution" and op.args[6] and any(d != 1 for d in op.args[5]):
            yield _hit(op.place, what="a transposed convolution with dilation", fix="use dilation 1")


@_row("supported operations", "{name} with {what} is not supported by PopTorch (its user guide)", "use {fix}")
def limit_of_a_layer(case: Case) -> Iterator[Hit]:
    """Limits that can't be seen in the recorded operations, which are what a layer is decomposed into."""
    for path, module in case.model.named_modules():
        place, name = _owner(case.model, f"{path}."), type(module).__name__
        if isinstance(module, nn.RNNBase) and (module.num_layers > 1 or module.bidirectional or module.dropout > 0):
            what = "more than one layer, two directions or dropout"
            yield _hit(place, name=name, what=what, fix="one layer, one direction, no dropout")
        elif getattr(module, "return_indices", False) is True:
            yield _hit(place, name=name, what="return_indices=True", fix="the layer without return_indices")


@_row(
    "supported operations",
    "PopTorch has no class weights in cross_entropy and nll_loss",
    "weight the loss of each sample by arithmetic",
)
def class_weights(case: Case) -> Iterator[Hit]:
    if any(loss.weighted for loss in case.graph.losses):
        yield _hit(case.losses[0].place)


# --- no autograd.Function


@_row(
    "no autograd.Function",
    "the gradient passes the autograd.Function {name}, whose backward PopTorch does not use: it differentiates the "
    "recorded forward pass{evidence}",
    "snnkit nets: ipu.convert(net). Others: put the surrogate into the forward pass, h + (s - s.detach()) with h the "
    "spike and s smooth (ipu.Detached)",
)
def custom_backward(case: Case) -> Iterator[Hit]:
    functions = _functions_on_the_path(case)
    lost = _changed_gradients(case.runs) if functions else ""
    for applied in functions:
        name = applied.function.__qualname__.replace("_spike_of.<locals>.", "")
        yield _hit(applied.place, name=name, evidence=f"; here it changes the gradients of {lost}" if lost else "")


def _functions_on_the_path(case: Case) -> list[Applied]:
    """Those whose node the loss's gradient passes."""
    nodes: set = set()
    waiting = [t.grad_fn for t in ([loss.output for loss in case.losses] or case.graph.outputs)]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in nodes:
            nodes.add(node)
            waiting.extend(following for following, _ in node.next_functions)
    return [applied for applied in case.graph.functions if any(t.grad_fn in nodes for t in applied.outputs)]


def _changed_gradients(runs: Runs) -> str:
    """Parameters whose gradient changes if no ``autograd.Function`` has a backward."""
    model = copied(runs.model)
    without = final_losses(record(model, runs.inputs, detach_functions=True))
    real = final_losses(runs.real)
    if len(real) != 1 or len(without) != 1 or not real[0].output.requires_grad:
        return ""
    try:
        true = _gradients(runs.real_model, real[0].output)
    except RuntimeError:  # reported by ``backward_fails``
        return ""
    other = _gradients(model, without[0].output) if without[0].output.requires_grad else dict.fromkeys(true)
    changed = [
        path
        for path, a in true.items()
        if a is not None and ((b := other[path]) is None or not torch.allclose(a, b, rtol=1e-4, atol=1e-6))
    ]
    return ", ".join(changed[:3]) + (f" and {len(changed) - 3} more" if len(changed) > 3 else "")


def _gradients(model: nn.Module, loss: Tensor) -> dict[str, Tensor | None]:
    named = {path: p for path, p in model.named_parameters() if p.requires_grad}
    if not named:
        return {}
    gradients = torch.autograd.grad(loss.sum(), list(named.values()), retain_graph=True, allow_unused=True)
    return dict(zip(named, gradients, strict=True))


# --- gradients


@_row(
    "gradients",
    "a gradient hook (register_hook) is set in the forward pass, but only the forward pass is recorded: it never runs "
    "on an IPU",
    "clip or scale in the forward pass, or by the optimizer",
)
def hook_in_the_forward_pass(case: Case) -> Iterator[Hit]:
    return (_hit(place) for place in case.graph.hooks)


@_row(
    "gradients",
    "input {i} requires a gradient, but PopTorch has no backward pass to the inputs and detaches them",
    "detach it, or make it a parameter of the model",
    "warning",
)
def gradient_of_an_input(case: Case) -> Iterator[Hit]:
    return (_hit(i=i) for i, x in enumerate(case.runs.inputs) if x.requires_grad)


@_row(
    "gradients",
    "{path} has a gradient hook, which never runs on an IPU",
    "remove it; scale by the learning rate of a parameter group",
)
def hook_on_a_parameter(case: Case) -> Iterator[Hit]:
    for path, parameter in case.model.named_parameters():
        if parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None):
            yield _hit(_owner(case.model, path), path=path)


def _loss_without_functions(case: Case) -> Tensor | None:
    """The one loss of the real run, if no ``autograd.Function`` could be why a gradient is missing."""
    losses = final_losses(case.runs.real)
    return losses[0].output if len(losses) == 1 and not _functions_on_the_path(case) else None


@_row(
    "gradients",
    "the loss has no gradient: nothing between it and the parameters can be differentiated",
    "check for torch.no_grad, detach, and spikes without a surrogate",
)
def loss_without_gradient(case: Case) -> Iterator[Hit]:
    loss = _loss_without_functions(case)
    if loss is not None and not loss.requires_grad:
        yield _hit()


@_row(
    "gradients",
    "the backward pass fails, here as well: {error}",
    "do not overwrite what the gradient needs: write a new tensor instead of an in-place change, copy_ only what is "
    "detached",
)
def backward_fails(case: Case) -> Iterator[Hit]:
    try:
        list(_without_gradient(case))
    except RuntimeError as error:
        yield _hit(error=(str(error).splitlines() or [""])[0][:200])


@_row(
    "gradients",
    "{path} takes part in the forward pass, but no gradient reaches it: it would not be trained",
    "give the spikes behind it a surrogate in detach form; or freeze it, requires_grad_(False)",
)
def parameter_without_gradient(case: Case) -> Iterator[Hit]:
    return (_hit(_owner(case.model, path), path=path) for path, used in _missing(case) if used)


@_row(
    "gradients",
    "{path} takes no part in the forward pass",
    "remove it, or freeze it with requires_grad_(False)",
    "warning",
)
def unused_parameter(case: Case) -> Iterator[Hit]:
    return (_hit(_owner(case.model, path), path=path) for path, used in _missing(case) if not used)


def _without_gradient(case: Case) -> Iterator[tuple[str, bool]]:
    """(path, whether it is used) of each parameter that gets no gradient."""
    loss, runs = _loss_without_functions(case), case.runs
    if loss is None or not loss.requires_grad:
        return
    gradients = _gradients(runs.real_model, loss)
    used = {id(t) for op in runs.real.operations for t in op.inputs}
    parameters = dict(runs.real_model.named_parameters())
    yield from ((path, id(parameters[path]) in used) for path, value in gradients.items() if value is None)


def _missing(case: Case) -> list[tuple[str, bool]]:
    try:
        return list(_without_gradient(case))
    except RuntimeError:  # reported by ``backward_fails``
        return []


# --- one loss


@_row("one loss", "{error}", "return one scalar tensor, such as the sum")
def loss_function_of_another_kind(case: Case) -> Iterator[Hit]:
    if isinstance(case.runs.real.error, NotOneLoss):
        yield _hit(error=case.runs.real.error)


@_row(
    "one loss",
    'the model holds no loss ("Couldn\'t find a loss in graph")',
    "compute the loss in the model and return it, marked with snnkit.hardware.ipu.identity_loss: ipu.WithLoss(net, "
    "loss)",
)
def no_loss(case: Case) -> Iterator[Hit]:
    if not case.losses:
        yield _hit()


@_row(
    "one loss",
    'the model holds {count} losses that are independent of each other ("Multiple independent losses found in graph"): '
    "{places}",
    "add them up and mark the sum: identity_loss(a + b); compute mere measures outside of the model",
)
def several_losses(case: Case) -> Iterator[Hit]:
    if len(case.losses) > 1:
        places = "; ".join(f"{loss.name} at {loss.place.where}" for loss in case.losses)
        yield _hit(case.losses[1].place, count=len(case.losses), places=places)


@_row("one loss", "the loss is no scalar, its shape is {shape}", 'reduce it: identity_loss(loss, "mean")')
def loss_not_scalar(case: Case) -> Iterator[Hit]:
    if len(case.losses) == 1 and case.losses[0].output.numel() != 1:
        yield _hit(case.losses[0].place, shape=list(case.losses[0].output.shape))


@_row(
    "one loss",
    "training starts at {name}, so what is computed from it afterwards (terms added, factors) is not trained on",
    "mark the whole loss: return identity_loss(loss)",
)
def part_of_a_loss(case: Case) -> Iterator[Hit]:
    if len(case.losses) != 1 or case.losses[0].name == "identity_loss":
        return
    (loss,) = case.losses
    others = [out for out in case.graph.outputs if out.requires_grad and out is not loss.output]
    if any(id(loss.output) in _ancestors(case.graph, [out]) for out in others):
        yield _hit(loss.place, name=loss.name)


def final_losses(record: Record) -> list[Loss]:
    """The losses that no later one is made of."""
    return [
        loss
        for i, loss in enumerate(record.losses)
        if not any(id(loss.output) in _ancestors(record, later.inputs) for later in record.losses[i + 1 :])
    ]


def _ancestors(record: Record, tensors: Iterable[Tensor]) -> set[int]:
    """``id`` of all tensors that some tensors were computed from, including themselves."""
    known = {id(t) for t in tensors}
    for op in reversed(record.operations):
        if any(id(t) in known for t in op.outputs):
            known.update(id(t) for t in op.inputs)
    return known


# --- dtypes

_OTHER_DTYPE = "use float32 (.float()), or float16 (.half()) throughout"
_FEWER_BITS = "split them, renumber their values from 0 to stay below 2**31, or compute in float32"


@_row("dtypes", "{path} is {dtype}{why}", _OTHER_DTYPE)
def tensor_of_another_dtype(case: Case) -> Iterator[Hit]:
    named = (*case.model.named_parameters(), *case.model.named_buffers())
    for path, t in (*named, *((f"input {i}", x) for i, x in enumerate(case.runs.inputs))):
        if why := _not_on_an_ipu(t.dtype):
            yield _hit(path=path, dtype=t.dtype, why=why)


@_row("dtypes", "{name} gives {dtype}{why}", _OTHER_DTYPE)
def result_of_another_dtype(case: Case) -> Iterator[Hit]:
    if any(True for _ in tensor_of_another_dtype(case)):
        return
    for op in case.graph.operations:
        new = [t.dtype for t in op.outputs if _not_on_an_ipu(t.dtype)]
        if new and not any(_not_on_an_ipu(t.dtype) for t in op.inputs):
            yield _hit(op.place, name=op.name, dtype=new[0], why=_not_on_an_ipu(new[0]))


@_row("dtypes", "{what} integers beyond 32 bits, but PopTorch converts int64 to int32", _FEWER_BITS)
def large_integers(case: Case) -> Iterator[Hit]:
    def is_large(x: Tensor) -> bool:
        return x.dtype == torch.int64 and x.numel() > 0 and int(x.abs().max()) >= _INT32

    large = (_hit(what=f"input {i} holds") for i, x in enumerate(case.runs.inputs) if is_large(x))
    ops = (
        _hit(op.place, what=f"{op.name} gives") for op in case.runs.real.operations if any(map(is_large, op.outputs))
    )
    if first := next(large, None) or next(ops, None):
        yield first


@_row(
    "dtypes",
    "an output is int64; PopTorch returns it as int32",
    "nothing, if the values fit; else return it as a float",
    "warning",
)
def integer_output(case: Case) -> Iterator[Hit]:
    return (_hit() for out in case.graph.outputs if out.dtype == torch.int64)


def _not_on_an_ipu(dtype: torch.dtype) -> str:
    if dtype == torch.float64:
        return ", which an IPU computes in float32"
    if dtype == torch.bfloat16:
        return ": PopTorch documents float16 as its only 16-bit float"
    return ", which PopTorch does not know" if dtype.is_complex else ""


# --- same trace


@_row(
    "same trace",
    "a later call runs other operations than the first, so the model keeps state in Python, such as a counter; an IPU "
    "would repeat the first call in every call",
    "do the same in every call; put what changes into a buffer (with copy_) or pass it as an input",
)
def calls_differ(case: Case) -> Iterator[Hit]:
    """The recorded calls have no values, so that they can't differ by the input."""
    places = (_difference(case.graph, later) for later in case.runs.meta[1:])
    if place := next((place for place in places if place is not None), None):
        yield _hit(place)


def _difference(one: Record, other: Record) -> Place | None:
    """Where two records begin to differ; None if they don't."""
    if other.error is not None:
        return other.error_place
    longer, shorter = sorted((one.operations, other.operations), key=len, reverse=True)
    for a, b in zip(longer, shorter, strict=False):
        if _signature(a) != _signature(b):
            # The longer one has something that the other left out.
            return a.place if longer is one.operations or len(longer) > len(shorter) else b.place
    return longer[len(shorter)].place if len(longer) > len(shorter) else None


def _signature(op: Operation) -> tuple:
    return op.name, op.overload, [tuple(t.shape) for t in op.outputs]


# --- memory


@_row(
    "memory",
    "{verdict}: {estimate}",
    "use smaller micro-batches (gradient accumulation), fewer steps, half precision, or several IPUs",
)
def memory_crowded(case: Case) -> Iterator[Hit]:
    if case.memory.share > CROWDED:
        fits = case.memory.share <= 1
        verdict = "memory is short" if fits else "it does not fit"
        yield Hit(Place(), {"verdict": verdict, "estimate": case.memory}, "warning" if fits else "error")


# --- common


def _owner(model: nn.Module, path: str) -> Place:
    """The module that holds the tensor at ``path``."""
    owner = path.rpartition(".")[0]
    try:
        return Place(f"{owner or 'model'} ({type(model.get_submodule(owner)).__name__})")
    except AttributeError:
        return Place(owner)


def _sized_by_values(op: Operation) -> bool:
    if op.name == "index":
        return any(t is not None and t.dtype in (torch.bool, torch.uint8) for t in op.args[1])
    if op.name == "repeat_interleave":
        return op.overload == "Tensor" and op.kwargs.get("output_size") is None
    return op.name in SIZE_FROM_VALUES


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"
