"""The ten rules of an IPU, in one table (``RULES``): each is a generator of the problems of a model."""

from __future__ import annotations

import copy
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from snnkit.lab.hardware.ipu.graph_recording import Location, Operation, Record, module_name, record
from snnkit.lab.hardware.ipu.nets import NotOneLoss
from snnkit.lab.hardware.ipu.operations import SIZE_FROM_VALUES, is_supported

# Above this share of the memory: a warning. The estimate lacks code, exchange buffers and temporaries. Assumed.
CROWDED = 0.6
# Calls of one copy without values. One of 2**(calls - 1) checks misses Python's random numbers, such as
# random.random() < 0.5.
_CALLS = 3
_NOWHERE = Location()
_WIDE = 100  # characters of a line


def folded(text: str, indent: int) -> str:
    """Lines for a notebook, which breaks longer ones inside words; ``indent``: spaces before all but the first."""
    return textwrap.fill(text, _WIDE, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)


class Finding(NamedTuple):
    """One problem."""

    what: str
    fix: str
    location: Location = _NOWHERE
    severity: str = "error"  # PopTorch would refuse it, or train something else; or "warning"
    rule: str = ""  # a key of RULES

    @property
    def module(self) -> str:
        """Path and class, as in "net.1 (Leaky)"; empty if it is no single module."""
        return self.location.module

    @property
    def where(self) -> str:
        """ "file.py:12: the line itself"; empty if it is no single line."""
        return self.location.where

    def __str__(self) -> str:
        location = "  ".join(part for part in (self.module, self.where) if part)
        where = [f"    where: {location}"] if location else []
        what = folded(f"{self.severity}: {self.rule}: {self.what}", 7)
        return "\n".join([what, *where, folded(f"    fix:   {self.fix}", 11)])


class MemoryEstimate(NamedTuple):
    """Estimated bytes on the chip in a training step with Adam, evenly spread over the tiles.

    Code, exchange buffers and temporaries are not included, as only the compiler knows them. The activations are saved
    by autograd for the backward pass of one micro-batch. ``transfer`` is its inputs and outputs, ``chip`` all memory.
    """

    weights: int
    gradients: int
    optimizer: int
    accumulation: int
    activations: int
    transfer: int
    chip: int

    @property
    def total(self) -> int:
        """Bytes in all."""
        return sum(self[:-1])

    @property
    def share(self) -> float:
        """Of the chip's memory."""
        return self.total / self.chip

    def __str__(self) -> str:
        parts = ", ".join(f"{part} {size / 1e6:.3g} MB" for part, size in self._asdict().items() if part != "chip")
        return f"{self.total / 1e6:.3g} MB of {self.chip / 1e6:.3g} MB (estimated, {self.share:.1%}): {parts}"


@dataclass
class Case:
    """A model with its example and options. Its copies run when a rule first needs them."""

    model: nn.Module
    inputs: list[Tensor]
    micro_batches: int  # of one call
    gradient_accumulation: int
    chip_bytes: int

    @property
    def sizes(self) -> list[int]:
        return [x.shape[0] if x.dim() else 0 for x in self.inputs]

    @property
    def micro_batch(self) -> list[Tensor]:
        """The inputs of one micro-batch, or the whole example if it can't be split."""
        size, *others = set(self.sizes)
        if others or not size or size % self.micro_batches:
            return self.inputs
        return [x[: size // self.micro_batches] for x in self.inputs]

    def run(self, inputs: list[Tensor]) -> Record:
        """A call of a copy on the CPU."""
        return record(copy.deepcopy(self.model).cpu(), inputs)

    @cached_property
    def real(self) -> Record:
        """A call on one micro-batch, with values."""
        return self.run(self.micro_batch)

    @cached_property
    def traces(self) -> list[Record]:
        """Several calls of one copy without values."""
        model, inputs = copy.deepcopy(self.model).to("meta"), [x.to("meta") for x in self.micro_batch]
        return [record(model, inputs, meta=True) for _ in range(_CALLS)]

    @property
    def graph(self) -> Record:
        """The forward pass as PopTorch would record it: the first of the traces."""
        return self.traces[0]

    def holder(self, path: str, at: Location = _NOWHERE) -> Location:
        """The module that holds the tensor at ``path``, with the line of another location."""
        holder = path.rpartition(".")[0]
        try:
            name = module_name(holder, self.model.get_submodule(holder))
        except AttributeError:
            name = holder
        return at._replace(module=name)

    @cached_property
    def functions(self) -> list[tuple[type, Location]]:
        """Each ``autograd.Function`` on the way of the loss's gradient, with its location."""
        nodes: set = set()
        waiting = [t.grad_fn for t in ([loss.outputs[0] for loss in self.graph.losses] or self.graph.outputs)]
        while waiting:
            node = waiting.pop()
            if node is not None and node not in nodes:
                nodes.add(node)
                waiting.extend(following for following, _ in node.next_functions)
        return list(dict.fromkeys(call for node, call in self.graph.functions.items() if node in nodes))

    @cached_property
    def memory(self) -> MemoryEstimate:
        parameters = list(self.model.parameters())
        trained = sum(p.nbytes for p in parameters if p.requires_grad)
        return MemoryEstimate(
            weights=sum(t.nbytes for t in (*parameters, *self.model.buffers())),
            gradients=trained,
            optimizer=2 * trained,
            accumulation=trained if self.gradient_accumulation > 1 else 0,
            activations=self.graph.saved,
            transfer=sum(t.nbytes for t in (*self.micro_batch, *self.graph.outputs)),
            chip=self.chip_bytes,
        )


def _batch(case: Case) -> Iterator[Finding]:
    """Every input's first dimension is the batch, fixed, and divides into the micro-batches of one call."""
    sizes, count = case.sizes, case.micro_batches
    if 0 in sizes:
        i = sizes.index(0)
        shape = list(case.inputs[i].shape)
        yield Finding(f"input {i} has no batch to split: its shape is {shape}", "make the batch its first dimension")
    elif len(set(sizes)) > 1:
        yield Finding(
            f"the inputs' first dimensions differ: {', '.join(map(str, sizes))}; PopTorch splits every input along its "
            "first dimension",
            "put the batch first: x.transpose(0, 1) if time is first",
            severity="error" if count > 1 else "warning",
        )
    elif sizes[0] % count:
        yield Finding(
            f"a batch of {sizes[0]} can't be divided into {count} micro-batches (device iterations × gradient "
            'accumulation; "Invalid batch dimension")',
            f"use a multiple of {count}",
        )
    error, size = case.real.error, case.micro_batch[0].shape[:1]
    if error is not None and size != case.inputs[0].shape[:1] and case.run(case.inputs).error is None:
        yield Finding(
            f"the model runs on the whole batch of {sizes[0]}, but not on a micro-batch of {size[0]}, which is what "
            f"an IPU gives it ({_first_line(error)})",
            "take the size from the input: x.flatten(1), x.view(x.shape[0], -1)",
            case.real.error_location,
        )


def compiled_module(model: nn.Module) -> str | None:
    """The path of the first module that torch.compile has made, which can't be recorded; None if there is none."""
    for path, module in model.named_modules():
        if hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None:
            return path or "model"
    return None


def _static_graph(case: Case) -> Iterator[Finding]:
    """The forward pass reads no value: it is recorded once, on tensors without values."""
    if compiled := compiled_module(case.model):
        what = f"{compiled} is compiled by torch.compile, which PopTorch does not support"
        yield Finding(what, "give the module itself, before torch.compile")
        return
    graph = case.graph
    explained = bool(graph.reads)  # why the recording fails, if it does
    for name, location in graph.calls:
        if name in ("__repr__", "__format__"):
            yield Finding(
                "a tensor is printed: once, while the graph is recorded, and with <unavailable> in place of its values "
                "(poptorch/python/__init__.py)",
                "print what the model returns, or use x = poptorch.ipu_print_tensor(x)",
                location,
                "warning",
            )
    for how, location in graph.reads:
        yield Finding(
            f"the forward pass reads {how} from a tensor, but there are no values while a graph is recorded; Python "
            "would decide once, for all batches",
            "decide per element with torch.where or arithmetic, and by constants of the constructor in Python; return "
            "a tensor instead of a number",
            location,
        )
    for op in graph.operations:
        if _sized_by_values(op):
            explained = True
            yield Finding(
                f"the size of the result of {'x[mask]' if op.name == 'index' else f'torch.{op.name}'} depends on "
                "values, but in a static graph every size is fixed",
                "select by arithmetic, not by indexing: x * mask, or torch.where(mask, x, 0), keeps the size; "
                "torch.topk takes a fixed number",
                op.location,
            )
        devices = {t.device.type for t in (*op.inputs, *op.outputs)}
        if "cpu" in devices and len(devices) > 1 and op.name not in ("_to_copy", "copy_"):
            explained = True
            yield Finding(
                f"{op.name} takes a tensor that is neither input, parameter nor buffer and is on the CPU "
                '("Expected an IPU tensor but got tensor(device=cpu …")',
                "make it a buffer (register_buffer), so that it moves with the model, or create it in the forward "
                "pass on x.device",
                op.location,
            )
    if graph.compiled is not None:
        what = "the forward pass calls a function that torch.compile has made, which PopTorch does not support"
        yield Finding(what, "call the function itself, without torch.compile", graph.compiled)
    elif "saved tensor hooks" in str(graph.error):
        what = "the forward pass differentiates by torch.func, which this check can't look into"
        yield Finding(what, "write the derivative in plain operations", graph.error_location)
    elif graph.error is not None and not explained:
        yield Finding(
            f"the forward pass can't be recorded without values: {_first_line(graph.error)}",
            "use operations whose result's type and shape follow from those of their arguments",
            graph.error_location,
        )


def _state_in_place(case: Case) -> Iterator[Finding]:
    """Parameters and buffers stay the same tensors; state is copied into them."""
    for path in case.real.replaced:
        yield Finding(
            f"{path} is another tensor after the forward pass; PopTorch compares addresses and refuses this "
            '("Buffer … is reassigned within the model")',
            f"write into it, self.{path.rpartition('.')[2]}.copy_(…), or pass the state in and out",
            case.holder(path, case.real.assigned.get(path, _NOWHERE)),
        )
    for path, tensor in case.graph.attributes.items():
        reader = next((op for op in case.traces[1].operations if any(t is tensor for t in op.inputs)), None)
        if reader is not None:
            yield Finding(
                f"{path} is state in a plain attribute, carried from call to call; the recorded graph begins with its "
                "first value in every call",
                "register it as a buffer and write with copy_, or begin each call at rest",
                reader.location,
            )
        elif path.rpartition(".")[2] not in case.real.replaced:
            yield Finding(
                f"the forward pass leaves a tensor in the attribute {path}; after the recording it has no value",
                "return it with the output if it is needed",
                case.holder(path, case.graph.assigned.get(path, _NOWHERE)),
                "warning",
            )


# Replacements for some operations of spiking networks.
_INSTEAD = {
    "heaviside": "write (x > 0).to(x.dtype)",
    "lerp": "write a + weight * (b - a)",
    "nan_to_num": "prevent NaN; torch.where(torch.isnan(x), 0, x) also works",
    "sinc": "write it with torch.sin and torch.where",
    "rand_like": "write torch.rand(x.shape)",
    "randn_like": "write torch.randn(x.shape)",
    "bernoulli_": "write torch.bernoulli(p)",
}


def _argument(op: Operation, name: str) -> Any:
    """An argument by its name, or its default."""
    overload = getattr(getattr(torch.ops.aten, op.name), op.overload or "default")
    position, argument = next((i, a) for i, a in enumerate(overload._schema.arguments) if a.name == name)
    return op.args[position] if position < len(op.args) else op.kwargs.get(name, argument.default_value)


def _no_plain_rnn(op: Operation) -> bool:
    if len(op.args) < 9 or not isinstance(op.args[3], bool):  # of a packed sequence, sizes come before it
        return True
    biases, layers, dropout, _training, both_directions = op.args[3:8]
    return layers > 1 or dropout > 0 or both_directions or not (biases or op.name == "torch.gru")


def _uneven_pooling(op: Operation) -> bool:
    size = _argument(op, "output_size")
    return any(given % wanted for given, wanted in zip(op.inputs[0].shape[-len(size) :], size, strict=True))


# Calls of supported operations that PopTorch refuses (user guide) or computes differently (sources,
# poptorch/source/popart_canonicalization): the operations, whether a call is such a call, its name, and the fix.
# fmt: off
LIMITS: tuple[tuple[str, Callable[[Operation], Any], str, str], ...] = (
    ("native_batch_norm native_group_norm native_layer_norm", lambda op: _argument(op, "weight") is None,
     "a norm without weights", "give it affine=True (elementwise_affine=True)"),
    ("topk", lambda op: not _argument(op, "sorted"),
     "torch.topk with sorted=False", "use sorted=True"),
    ("embedding _embedding_bag", lambda op: _argument(op, "padding_idx") != -1,
     "an embedding with padding_idx", "leave padding_idx out and mask the result"),
    ("embedding _embedding_bag", lambda op: _argument(op, "sparse") or _argument(op, "scale_grad_by_freq"),
     "an embedding with sparse or scale_grad_by_freq", "leave them out"),
    ("convolution", lambda op: _argument(op, "transposed") and any(d != 1 for d in _argument(op, "dilation")),
     "a transposed convolution with dilation", "use dilation 1"),
    ("torch.cross_entropy torch.nll_loss",
     lambda op: (op.args[2] if len(op.args) > 2 else op.kwargs.get("weight")) is not None,
     "a loss with class weights", "weight the loss of each sample by arithmetic"),
    ("torch.lstm torch.gru torch.rnn_tanh torch.rnn_relu", _no_plain_rnn,
     "an RNN, GRU or LSTM with more than one layer, two directions, dropout, a packed sequence, or (except GRU) "
     "without bias", "stack layers of one direction, with dropout between them"),
    ("torch.max_pool1d_with_indices torch.max_pool2d_with_indices torch.max_pool3d_with_indices", lambda op: True,
     "max pooling with return_indices=True", "leave return_indices out"),
    ("avg_pool2d avg_pool3d", lambda op: _argument(op, "divisor_override") is not None,
     "average pooling with divisor_override", "multiply the result by a constant"),
    ("_adaptive_avg_pool2d _adaptive_avg_pool3d", _uneven_pooling,
     "adaptive pooling to a size that does not divide its input's", "pool or pad to a size that does"),
    ("index_put index_put_", lambda op: _argument(op, "accumulate"),
     "index_put with accumulate=True", "use scatter_add"),
)
# fmt: on


def _supported_operations(case: Case) -> Iterator[Finding]:
    """Every operation of the forward pass is one that PopTorch 3.4 documents."""
    for op in case.graph.operations:
        if not is_supported(op.name) and not op.part and not _sized_by_values(op):
            what = f"{op.name} is not among the operations that PopTorch 3.4 documents or handles"
            fix = "write it with operations that are (snnkit.lab.hardware.ipu.operations.SUPPORTED)"
            yield Finding(what, _INSTEAD.get(op.name, fix), op.location)
        for operations, broken, what, fix in LIMITS:
            if op.name in operations.split() and broken(op):
                yield Finding(f"{what} is not supported by PopTorch", fix, op.location)


def _no_function(case: Case) -> Iterator[Finding]:
    """No custom backward pass is used between the loss and the parameters."""
    for function, location in case.functions:
        name = function.__qualname__.replace("_spike_of.<locals>.", "")
        yield Finding(
            f"the gradient passes the autograd.Function {name}, whose backward PopTorch does not use: it "
            "differentiates the recorded forward pass",
            "put the surrogate into the forward pass, h + (s - s.detach()) with h the spike and s smooth "
            '(snnkit nets: surrogate=ipu.Detached(…) and engine="eager")',
            location,
        )


def _every_gradient(case: Case) -> Iterator[Finding]:
    """Differentiating the recorded forward pass gives each parameter the gradient it has here."""
    for name, location in case.graph.calls:
        if name == "register_hook":
            yield Finding(
                "a gradient hook (register_hook) is set in the forward pass, but only the forward pass is recorded: it "
                "never runs on an IPU",
                "clip or scale in the forward pass, or by the optimizer",
                location,
            )
        elif name in ("grad", "backward"):
            yield Finding(
                "the forward pass differentiates by torch.autograd; what PopTorch makes of that is not known: it "
                "documents only its own backward pass (github.com/graphcore/poptorch/issues/18, without an answer)",
                "write the derivative in plain operations",
                location,
                "warning",
            )
    for path, parameter in case.model.named_parameters():
        if parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None):
            fix = "remove it; scale by the learning rate of a parameter group"
            yield Finding(f"{path} has a gradient hook, which never runs on an IPU", fix, case.holder(path))
    real, losses = case.real, case.real.losses
    if len(losses) != 1 or case.functions:  # an autograd.Function may be the reason for a missing gradient
        return
    loss = losses[0].outputs[0]
    parameters = {path: p for path, p in real.model.named_parameters() if p.requires_grad}
    if not loss.requires_grad:
        what = "the loss has no gradient: no operation between it and the parameters can be differentiated"
        fix = "check for torch.no_grad, detach, and spikes without a surrogate"
        yield Finding(what, fix, _lost(real, parameters.values(), loss))
        return
    try:
        gradients = torch.autograd.grad(loss.sum(), list(parameters.values()), allow_unused=True)
    except RuntimeError as error:
        yield Finding(
            f"the backward pass fails, here as well: {_first_line(error)}",
            "do not overwrite what the gradient needs: write a new tensor instead of an in-place change, copy_ only "
            "what is detached",
        )
        return
    used = {id(t) for op in real.operations for t in op.inputs}
    for (path, parameter), gradient in zip(parameters.items(), gradients, strict=True):
        if gradient is None and id(parameter) in used:
            what = f"{path} takes part in the forward pass, but its gradient is lost: it would not be trained"
            fix = "give the spikes behind it a surrogate in detach form; or freeze it, requires_grad_(False)"
            yield Finding(what, fix, case.holder(path, _lost(real, [parameter], loss)))
        elif gradient is None:
            fix = "remove it, or freeze it with requires_grad_(False)"
            yield Finding(f"{path} takes no part in the forward pass", fix, case.holder(path), "warning")


def _lost(record: Record, parameters: Iterable[Tensor], loss: Tensor) -> Location:
    """The last operation before the loss whose inputs have a gradient to parameters and whose result has none."""
    towards, reached, location = record.ancestors([loss]), {id(p) for p in parameters}, _NOWHERE
    for op in record.operations:
        if any(id(t) in reached for t in op.inputs):
            if any(t.requires_grad for t in op.outputs):
                reached.update(id(t) for t in op.outputs)
            elif any(id(t) in towards for t in op.outputs):
                location = op.location
    return location


def _one_loss(case: Case) -> Iterator[Finding]:
    """The model holds exactly one loss, a scalar, and nothing trained on comes after it."""
    if isinstance(case.real.error, NotOneLoss):
        yield Finding(str(case.real.error), "return one scalar tensor, such as the sum")
        return
    losses = [(op.name.removeprefix("torch."), op.outputs[0], op.location) for op in case.graph.losses]
    if not losses:
        yield Finding(
            'the model holds no loss ("Couldn\'t find a loss in graph")',
            "compute the loss in the model and return it, marked with snnkit.lab.hardware.ipu.identity_loss: "
            "ipu.WithLoss(net, loss)",
        )
    elif len(losses) > 1:
        listed = "; ".join(f"{name} at {location.where}" for name, _, location in losses)
        yield Finding(
            f'the model holds {len(losses)} losses that are independent of each other ("Multiple independent '
            f'losses found in graph"): {listed}',
            "add them up and mark the sum: identity_loss(a + b); compute mere measures outside of the model",
            losses[1][2],
        )
    else:
        name, loss, location = losses[0]
        if loss.numel() != 1:
            what = f"the loss is no scalar, its shape is {list(loss.shape)}"
            yield Finding(what, 'reduce it: identity_loss(loss, "mean")', location)
        later = [out for out in case.graph.outputs if out.requires_grad and out is not loss]
        if name != "identity_loss" and any(id(loss) in case.graph.ancestors([out]) for out in later):
            yield Finding(
                f"training starts at {name}, so what is computed from it afterwards (terms added, factors) is "
                "not trained on",
                "mark the whole loss: return identity_loss(loss)",
                location,
            )


# What is wrong with a dtype.
_NOT_ON_AN_IPU = {
    torch.float64: ", which an IPU computes in float32",
    torch.bfloat16: ": PopTorch documents float16 as its only 16-bit float",
    **dict.fromkeys((torch.complex32, torch.complex64, torch.complex128), ", which PopTorch does not know"),
}


def _dtypes(case: Case) -> Iterator[Finding]:
    """No float64, no integers beyond 32 bits, and no types that an IPU lacks."""
    fix = "use float32 (.float()), or float16 (.half()) throughout"
    inputs = [(f"input {i}", x) for i, x in enumerate(case.micro_batch)]
    given = [(path, t.dtype) for path, t in (*case.model.named_parameters(), *case.model.named_buffers(), *inputs)]
    wrong = [(path, dtype) for path, dtype in given if dtype in _NOT_ON_AN_IPU]
    for path, dtype in wrong:
        yield Finding(f"{path} is {dtype}{_NOT_ON_AN_IPU[dtype]}", fix)
    for op in case.graph.operations if not wrong else ():
        new = [t.dtype for t in op.outputs if t.dtype in _NOT_ON_AN_IPU]
        if new and not any(t.dtype in _NOT_ON_AN_IPU for t in op.inputs):
            yield Finding(f"{op.name} gives {new[0]}{_NOT_ON_AN_IPU[new[0]]}", fix, op.location)
    large = [(f"{path} holds", _NOWHERE) for path, x in inputs if _is_large(x)]
    large += [(f"{op.name} gives", op.location) for op in case.real.operations if any(map(_is_large, op.outputs))]
    for what, location in large[:1]:
        fix = "split them, renumber their values from 0 to stay below 2**31, or compute in float32"
        yield Finding(f"{what} integers beyond 32 bits, but PopTorch converts int64 to int32", fix, location)


def _is_large(x: Tensor) -> bool:
    return x.dtype == torch.int64 and x.numel() > 0 and int(x.abs().max()) >= 2**31


def _same_trace(case: Case) -> Iterator[Finding]:
    """Every call runs the same operations. (Recorded calls have no values, so they can't differ by the input.)"""
    first = case.graph.operations
    for trace in case.traces[1:]:
        longer = max(trace.operations, first, key=len)  # it has an entry that the shorter lacks
        pairs = zip(first, trace.operations, strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0].signature == pair[1].signature, pairs))
        if trace.error is not None or same < len(longer):
            yield Finding(
                "a later call runs other operations than the first, so the model keeps state in Python, such as a "
                "counter; an IPU would repeat the first call in every call",
                "do the same in every call; put what changes into a buffer (with copy_) or pass it as an input",
                trace.error_location if trace.error is not None else longer[same].location,
            )
            return


def _memory(case: Case) -> Iterator[Finding]:
    """Weights, optimizer and saved activations fit into the memory of the tiles."""
    if case.memory.share > CROWDED:
        fits = case.memory.share <= 1
        yield Finding(
            f"{'memory is short' if fits else 'it does not fit'}: {case.memory}",
            "use smaller micro-batches (gradient accumulation), fewer steps, half precision, or several IPUs",
            severity="warning" if fits else "error",
        )


def _sized_by_values(op: Operation) -> bool:
    if op.name == "index":
        return any(t is not None and t.dtype in (torch.bool, torch.uint8) for t in op.args[1])
    if op.name == "repeat_interleave":
        return op.overload == "Tensor" and op.kwargs.get("output_size") is None
    return op.name in SIZE_FROM_VALUES


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"


# In the order in which a report lists them.
RULES: dict[str, Callable[[Case], Iterator[Finding]]] = {
    "batch": _batch,
    "static graph": _static_graph,
    "state in place": _state_in_place,
    "supported operations": _supported_operations,
    "no autograd.Function": _no_function,
    "gradients": _every_gradient,
    "one loss": _one_loss,
    "dtypes": _dtypes,
    "same trace": _same_trace,
    "memory": _memory,
}
