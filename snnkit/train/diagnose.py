"""Why a network does not learn: one pass forward and backward, a short trial, and what is known to stop learning."""

from __future__ import annotations

import copy
import functools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from snnkit import checks
from snnkit.data import resolve_device
from snnkit.loss import accuracy
from snnkit.neuron import Neuron
from snnkit.surrogate import ATan
from snnkit.tables import html_table, text_table
from snnkit.train.batches import pair_of
from snnkit.train.metrics import aligned, apply_loss
from snnkit.train.recipe import make_optimizer
from snnkit.train.seeding import generators_of
from snnkit.train.step import prepared, run_model

# Bounds of what is told. They are wide: a network within them may still be slow to learn.
_RARE = 0.1  # share of neurons that fire, below which a layer is called silent
_ALWAYS = 0.9  # share of all steps with a spike, above which a layer is called saturated
_FELT = 1e-3  # change of all later spikes for a change of an input, above which the surrogate is counted as felt
_SEEN = 0.01  # share of inputs that are felt, below which the surrogate is called blind
_FADED = 1e-6  # gradient of a weight relative to the largest, below which it is called faded
_LARGE, _SMALL = 0.3, 1e-5  # change of the weights by one update, relative to their size
# A trial: so many updates on so many samples of the batch, each of which changes weights by a share of their size. A
# network that can learn lowers its loss by more than a tenth, which biases alone can reach.
_UPDATES, _SAMPLES, _STEP, _FALL = 60, 64, 0.06, 0.15


class Finding(NamedTuple):
    """Something that is known to stop learning.

    Attributes:
        what: in one sentence, with the numbers.
        do: what to do about it, with the code to change.
    """

    what: str
    do: str

    def __str__(self) -> str:
        return f"{self.what}\n   -> {self.do}"


@dataclass
class Layer:
    """What one layer did in a pass forward and backward; NaN where it has no such number.

    Attributes:
        name, kind: in the model, and its class.
        rate: mean output per neuron and step.
        silent: share of neurons without a spike in any sample and step.
        always: share of neurons that fire in nearly all steps.
        felt: share of inputs whose change the surrogate's gradient passes on.
        gradient: norm of the loss's gradient with respect to the output.
        weight: root of the mean square of its weights.
        change: of its weights by the first update, relative to their size.
    """

    name: str
    kind: str
    spiking: bool = False
    rate: float = math.nan
    silent: float = math.nan
    always: float = math.nan
    felt: float = math.nan
    gradient: float = math.nan
    weight: float = math.nan
    change: float = math.nan


@dataclass
class Diagnosis:
    """The result of ``diagnose``; shown as a table in a notebook, and printed as text.

    Attributes:
        findings: what stops the network from learning, the likeliest cause first; empty if nothing was found.
        layers: numbers of each layer, in the order in which they ran.
        loss: of the batch, before any update.
        chance: what a guess would cost: ln(classes); NaN for targets without classes.
    """

    findings: list[Finding] = field(default_factory=list)
    layers: list[Layer] = field(default_factory=list)
    loss: float = math.nan
    chance: float = math.nan

    _HEAD = ("layer", "rate", "silent", "always", "felt", "gradient", "weights", "change")

    def _rows(self) -> list[tuple[str, ...]]:
        def shown(value: float, form: str) -> str:
            return "" if math.isnan(value) else format(value, form)

        return [
            (
                f"{layer.name} {layer.kind}", shown(layer.rate, ".3f"), shown(layer.silent, ".0%"),
                shown(layer.always, ".0%"), shown(layer.felt, ".0%"), shown(layer.gradient, ".1e"),
                shown(layer.weight, ".1e"), shown(layer.change, ".1e"),
            )
            for layer in self.layers
        ]  # fmt: skip

    def _lines(self) -> list[str]:
        chance = "" if math.isnan(self.chance) else f"; a guess costs ln(classes) = {self.chance:.3g}"
        lines = [] if math.isnan(self.loss) else [f"loss {self.loss:.4g}{chance}"]
        if not self.findings:
            return [*lines, "Nothing found that stops this network from learning."]
        return [*lines, *(f"{i}. {finding}" for i, finding in enumerate(self.findings, 1))]

    def __str__(self) -> str:
        table = text_table(self._HEAD, self._rows(), always=1) if self.layers else []
        return "\n".join([*table, *([""] if table else []), *self._lines()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        notes = [part for line in self._lines() for part in line.split("\n")]
        return html_table(self._HEAD, self._rows(), notes)


@checks.arguments
def diagnose(
    model: nn.Module,
    samples: Any,
    targets: Any,
    *,
    encode: Callable[[Any], Tensor] | None,
    loss: Callable[[Tensor, Tensor], Tensor],
    optimizer: torch.optim.Optimizer | None = None,
    lr: float = 1e-3,
    device: str | torch.device = "auto",
) -> Diagnosis:
    """Say why a network does not learn: ``print(train.diagnose(net, x, y, encode=..., loss=...))``.

    A copy of the model makes one pass forward and backward, in training mode, and the first step of the optimizer.
    Then a second copy tries to learn 64 samples in up to 60 updates, with a learning rate that suits the weights. If it
    can, silent layers and the like are no reason, as many networks start so; if it can't, they are told. Neither the
    model, nor the optimizer, nor PyTorch's random numbers change.

    Args:
        model, encode, loss: as for ``fit``.
        samples, targets: a batch as for ``fit``; some hundred samples are enough.
        optimizer: of which the learning rates are compared with the weights; None: Adam with ``lr``.
        lr: of Adam.
        device: where to compute.

    Returns:
        What was found, the likeliest cause first, and a number for each layer of what it did. "Nothing found" says that
        none of these was seen: NaN, zeros or an odd range in the data, labels out of range or all the same, weights
        that are not trained or not finite, silent or saturated layers, a surrogate whose gradient is nearly 0, a
        gradient that is lost, fades or explodes, a loss that rises as the answer becomes right, a learning rate that
        does not suit the weights.

    Raises:
        TypeError, ValueError: as ``fit``.
    """
    batch = pair_of((samples, targets), "samples, targets")
    checks.number("lr", lr, above=0)
    target = resolve_device(device)
    net = copy.deepcopy(model).to(target).train()
    x = batch[0].to(target) if isinstance(batch[0], Tensor) else batch[0]
    y = batch[1].to(target)
    generators = generators_of(encode, loss, model)
    states = [generator.get_state() for generator in generators]
    try:
        with torch.random.fork_rng():
            return _diagnosed(model, net, x, y, encode, loss, optimizer, lr)
    finally:
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)


def _diagnosed(
    model: nn.Module,
    net: nn.Module,
    x: Any,
    y: Tensor,
    encode: Callable | None,
    loss: Callable,
    optimizer: torch.optim.Optimizer | None,
    lr: float,
) -> Diagnosis:
    result = Diagnosis()
    result.findings += _of_samples(x)
    result.findings += _of_targets(y)
    result.findings += _of_weights(model, net, optimizer)
    if any("NaN" in finding.what for finding in result.findings):
        return result
    sequences: list[Tensor] = []

    def seen(samples: Any) -> Tensor:
        sequences.append(samples.transpose(0, 1) if encode is None else encode(samples))
        return sequences[-1]

    passes = _Passes(net)
    try:
        with torch.enable_grad():
            out = run_model(net, net, seen if encode is not None or x.ndim > 2 else None, prepared(x))
    finally:
        passes.remove()
    found = result.findings
    found += _of_sequence(sequences[0], x)
    goal = aligned(y, out)
    classes = y.dtype == torch.int64 and out.ndim == 3
    if classes:
        result.chance = math.log(max(out.shape[2], 1))
        if problem := _of_labels(goal, out):
            result.findings, result.layers = [problem, *found], passes.layers()
            return result
    if out.requires_grad:
        out.retain_grad()
    value = apply_loss(loss, out, goal)
    result.loss = value.item()
    if not value.requires_grad:
        what = "no gradient leads from the loss to the network"
        advice = "look for .detach(), torch.no_grad(), .item(), argmax or a comparison between the weights and the loss"
        found.append(Finding(what, advice))
    elif not math.isfinite(result.loss):
        found.append(Finding(f"the loss is {result.loss}", "look for a logarithm or a root of 0, or a division, in it"))
    else:
        value.backward()
        passes.felt()
    result.layers = passes.layers()
    if not value.requires_grad or not math.isfinite(result.loss):
        return result
    lost, suspected = _of_gradients(net, result.layers)
    found += [*lost, *_of_saturation(result.layers)]
    if classes and out.grad is not None and goal.ndim == 1:
        found += _of_direction(out.grad, goal)
    trial = functools.partial(_can_learn, model, x, y, encode, loss)
    able = trial()
    if not able:
        layers = list(_of_layers(result.layers))
        blind = [layer for layer in result.layers if layer.spiking and layer.felt < _SEEN]
        if blind and trial(wide=True):
            layers.insert(0, _blind(blind[0]))
        found += layers or suspected
    found += _of_changes(result.layers, _first_update(model, net, optimizer, lr))
    if not able and not found:
        what = "no learning rate lowers the loss of a single batch, but none of the known causes was seen"
        found.append(
            Finding(what, "try a smaller network, other neurons or a loss of snnkit.loss, one after the other")
        )
    return result


def _can_learn(
    model: nn.Module, x: Any, y: Tensor, encode: Callable | None, loss: Callable, *, wide: bool = False
) -> bool:
    """Whether a copy lowers the loss of some samples; ``wide``: with surrogates that reach far from the threshold."""
    net = copy.deepcopy(model).to(y.device).train()
    for neuron in net.modules():
        if wide and isinstance(neuron, Neuron) and neuron.surrogate is not None:
            neuron.surrogate = ATan(2.0)
    x, y = x[:_SAMPLES], y[:_SAMPLES]
    trained = [p for p in net.parameters() if p.requires_grad]
    sizes = [p.detach().float().square().mean().sqrt().item() for p in trained]
    typical = sorted(size for p, size in zip(trained, sizes, strict=True) if p.ndim > 1 or len(trained) == 1)
    # Biases and numbers of neurons change as weights do: else a huge one would be corrected at once.
    middle = typical[len(typical) // 2] if typical else 1.0
    sizes = [size if p.ndim > 1 else min(size, middle) for p, size in zip(trained, sizes, strict=True)]
    optimizer = torch.optim.Adam(
        [{"params": [p], "lr": _STEP * max(size, 1e-3)} for p, size in zip(trained, sizes, strict=True)]
    )
    first = math.nan
    with torch.enable_grad():
        for update in range(_UPDATES):
            out = run_model(net, net, encode, prepared(x))
            goal = aligned(y, out)
            value = apply_loss(loss, out, goal)
            now = value.item()
            first = now if update == 0 else first
            answered = y.dtype == torch.int64 and y.ndim == 1 and out.ndim == 3 and accuracy(out, goal) > 0.6
            if answered or first - now > _FALL * abs(first):
                return True
            if not math.isfinite(now):
                return False
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
    return False


# --- one pass --------------------------------------------------------------------------------------------------------


class _Passes:
    """Records inputs and outputs of the layers of a network, in the order in which they run."""

    def __init__(self, net: nn.Module) -> None:
        self.seen: list[tuple[str, nn.Module, Tensor, Tensor]] = []
        self.sensitivity: dict[int, float] = {}
        self._hooks = []
        for name, module in net.named_modules():
            if isinstance(module, Neuron) or (not list(module.children()) and list(module.parameters(False))):
                self._hooks.append(module.register_forward_hook(self._note(name)))

    def _note(self, name: str) -> Callable[..., None]:
        def note(module: nn.Module, arguments: tuple[Any, ...], result: Any) -> None:
            out = result[0] if isinstance(result, tuple) else result
            x = arguments[0]
            for tensor in (x, out):
                if isinstance(tensor, Tensor) and tensor.requires_grad and not tensor.is_leaf:
                    tensor.retain_grad()
            self.seen.append((name, module, x, out))

        return note

    def remove(self) -> None:
        for hook in self._hooks:
            hook.remove()

    def felt(self) -> None:
        """How far a change of each neuron's input changes its output, by the surrogate."""
        for i, (_, module, x, _) in enumerate(self.seen):
            if isinstance(module, Neuron) and module.spiking and i not in self.sensitivity:
                probe = x.detach().requires_grad_()
                with torch.enable_grad():
                    again, _ = module(probe)
                    if again.requires_grad:
                        (change,) = torch.autograd.grad(again.sum(), probe, allow_unused=True)
                        self.sensitivity[i] = 0.0 if change is None else (change.abs() > _FELT).float().mean().item()
                    else:
                        self.sensitivity[i] = 0.0

    def layers(self) -> list[Layer]:
        return [self._layer(i, *one) for i, one in enumerate(self.seen)]

    def _layer(self, i: int, name: str, module: nn.Module, x: Tensor, out: Tensor) -> Layer:
        layer = Layer(name or "model", type(module).__name__)
        values = out.detach().float()
        if isinstance(module, Neuron):
            layer.rate = values.mean().item()
            layer.spiking = module.spiking
            if module.spiking and values.ndim > 1:
                per_neuron = values.flatten(0, 1).flatten(1) if values.ndim > 2 else values.flatten(0, 1).unsqueeze(1)
                layer.silent = (per_neuron.amax(0) == 0).float().mean().item()
                layer.always = (per_neuron.mean(0) > _ALWAYS).float().mean().item()
                layer.felt = self.sensitivity.get(i, math.nan)
        if out.requires_grad and out.grad is not None:
            layer.gradient = out.grad.float().norm().item()
        weights = [p.detach().float().flatten() for p in module.parameters(False) if p.ndim > 1]
        if weights:
            layer.weight = torch.cat(weights).square().mean().sqrt().item()
        return layer


# --- what is looked for ----------------------------------------------------------------------------------------------


def _of_samples(x: Any) -> Iterator[Finding]:
    if not isinstance(x, Tensor):
        return
    if x.is_floating_point() and (bad := int((~x.isfinite()).sum())):
        yield Finding(
            f"{bad} values of samples are NaN or infinite", "samples = samples.nan_to_num(), or leave them out"
        )
        return
    low, high = (bound.item() for bound in torch.aminmax(x))
    if low == high:
        yield Finding(
            f"all values of samples are {low:g}" if low else "samples are all zero",
            "look at how they are loaded and scaled, e.g. print(samples[0])",
        )
    elif len(x) > 1 and bool((x == x[:1]).all()):
        yield Finding("all samples are the same", "look at how they are loaded: print(samples[0], samples[1])")
    elif x.is_floating_point() and max(abs(low), abs(high)) > 20:
        yield Finding(
            f"samples go from {low:.3g} to {high:.3g}, and thresholds are about 1",
            "scale them: data.to_unit for images, else (samples - samples.mean(0)) / samples.std(0)",
        )
    elif max(abs(low), abs(high)) < 0.02:
        yield Finding(f"samples go from {low:.2g} to {high:.2g}, and thresholds are about 1", "scale them to about 1")


def _of_targets(y: Tensor) -> Iterator[Finding]:
    if y.is_floating_point() and not bool(y.isfinite().all()):
        yield Finding("targets hold NaN or infinity", "leave these samples out: keep = targets.isfinite()")
    elif len(y) > 1 and bool((y == y.flatten()[0]).all()):
        yield Finding(f"all targets are {y.flatten()[0].item():g}", "look at how they are loaded: print(targets[:10])")


def _of_labels(labels: Tensor, out: Tensor) -> Finding | None:
    low, high, classes = int(labels.min()), int(labels.max()), out.shape[2]
    if low >= 0 and high < classes:
        return None
    return Finding(
        f"labels go from {low} to {high}, but the network has {classes} outputs, for classes 0 to {classes - 1}",
        "labels = labels - 1" if low >= 1 and high == classes else f"give the last layer {high + 1} outputs",
    )


def _of_weights(model: nn.Module, net: nn.Module, optimizer: torch.optim.Optimizer | None) -> Iterator[Finding]:
    named = dict(net.named_parameters())
    if spoilt := [name for name, p in named.items() if not bool(p.isfinite().all())]:
        yield Finding(
            f"weights of {_some(spoilt)} are NaN or infinite", "make the network anew, with a lower lr or clip=1"
        )
        return
    matrices = {name: p for name, p in named.items() if p.ndim > 1}
    if zeros := [name for name, p in matrices.items() if not p.any()]:
        yield Finding(
            f"all weights of {_some(zeros)} are 0", "initialise them: torch.nn.init.kaiming_uniform_(layer.weight)"
        )
    if frozen := [name for name, p in matrices.items() if not p.requires_grad]:
        yield Finding(f"{_some(frozen)} can't learn: requires_grad is False", "net.requires_grad_(True)")
    if optimizer is not None:
        held = {id(p) for group in optimizer.param_groups for p in group["params"]}
        own = dict(model.named_parameters())
        if left := [name for name in matrices if id(own[name]) not in held and own[name].requires_grad]:
            yield Finding(
                f"the optimizer does not hold {_some(left)}",
                "make it with net.parameters(), after the last change of the network's layers",
            )


def _of_sequence(sequence: Tensor, x: Any) -> Iterator[Finding]:
    if not bool(sequence.isfinite().all()):
        yield Finding("what encode returns holds NaN or infinity", "look at encode(samples)")
    elif not bool(sequence.any()):
        yield Finding("what encode returns is all zero: no input reaches the network", "look at encode(samples)")
    elif sequence.shape[1] > 1 and bool((sequence == sequence[:, :1]).all()):
        if not isinstance(x, Tensor) or not bool((x == x[:1]).all()):
            yield Finding("what encode returns is the same for all samples", "look at encode(samples)")
    elif len(sequence) < 2:
        yield Finding("a sequence has a single time step, so no neuron has time to integrate", "encode with more steps")


def _of_layers(layers: list[Layer]) -> Iterator[Finding]:
    silent = [i for i, layer in enumerate(layers) if layer.spiking and layer.silent > 1 - _RARE]
    # Silence alone heals, where the surrogate passes gradients on: what doesn't is the cause.
    for i in ([i for i in silent if layers[i].felt < _SEEN] or silent)[:1]:
        before = [one.name for one in layers[:i] if not math.isnan(one.weight)]
        where = f"the weights of {before[-1]!r}" if before else "its input"
        yield Finding(
            f"{layers[i].kind} {layers[i].name!r} is silent: {layers[i].silent:.0%} of its neurons never fire",
            f"make {where} larger (layer.weight.data *= 3), lower its threshold, or let more time pass (steps)",
        )


def _of_saturation(layers: list[Layer]) -> Iterator[Finding]:
    for layer in layers:
        if layer.spiking and layer.always > 1 - _RARE:
            yield Finding(
                f"{layer.kind} {layer.name!r} is saturated: {layer.always:.0%} of its neurons fire nearly always",
                "raise its threshold, or make its input or the weights before it smaller (layer.weight.data /= 3)",
            )
            return


def _of_gradients(net: nn.Module, layers: list[Layer]) -> tuple[list[Finding], list[Finding]]:
    """What is certainly wrong with gradients, and what may be."""
    trained = {name: p for name, p in net.named_parameters() if p.requires_grad and p.ndim > 1}
    norms = {name: None if p.grad is None else p.grad.float().norm().item() for name, p in trained.items()}
    if spoilt := [name for name, norm in norms.items() if norm is not None and not math.isfinite(norm)]:
        what = f"the gradient of {_some(spoilt)} is NaN or infinite"
        return [Finding(what, "look for a root or logarithm of 0, or a division by 0, in loss and forward")], []
    certain: list[Finding] = []
    if lost := [name for name, norm in norms.items() if norm is None]:
        what = f"no gradient reaches {_some(lost)}"
        advice = "look for .detach(), torch.no_grad() or a comparison after it in forward; or is it not used?"
        certain.append(Finding(what, advice))
    known = {name: norm for name, norm in norms.items() if norm is not None}
    largest = max(known.values(), default=0.0)
    suspected = [_blind(layer) for layer in layers if layer.spiking and layer.felt < _SEEN][:1]
    if largest > 1e4:
        what = f"gradients explode: the largest has the norm {largest:.1e}"
        suspected.append(Finding(what, "set clip=1, make (recurrent) weights smaller, or the sequences shorter"))
    if faded := [name for name, norm in known.items() if norm <= _FADED * largest]:
        which = "no weight gets any gradient" if largest == 0 else f"the gradient has faded at {_some(faded)}"
        suspected.append(Finding(which, "look at the column `gradient` of the table: where does it become small?"))
    return certain, suspected


def _blind(layer: Layer) -> Finding:
    return Finding(
        f"{layer.kind} {layer.name!r} passes the gradient on for only {layer.felt:.1%} of its inputs: its surrogate is "
        "nearly 0 at these membranes",
        "take a wider surrogate (surrogate.ATan(2.0), say), or scale its input so that membranes come near threshold",
    )


def _of_direction(gradient: Tensor, labels: Tensor) -> Iterator[Finding]:
    per_class = gradient.sum(0)
    right = per_class.gather(1, labels.unsqueeze(1)).mean().item()
    others = (per_class.sum() - per_class.gather(1, labels.unsqueeze(1)).sum()).item() / max(
        per_class.numel() - len(labels), 1
    )
    if right > 0 and right > others:
        yield Finding(
            "the loss rises when the right class has more output: training moves away from the answer",
            "turn its sign, or use a loss of snnkit.loss",
        )


def _first_update(
    model: nn.Module, net: nn.Module, optimizer: torch.optim.Optimizer | None, lr: float
) -> dict[str, Tensor]:
    """The change of each parameter of ``net`` by the first step of an optimizer of the same kind."""
    parameters = {name: p for name, p in net.named_parameters() if p.requires_grad and p.grad is not None}
    before = {name: p.detach().clone() for name, p in parameters.items()}
    if optimizer is None:
        make_optimizer("adam", net, lr, fused=False).step()
    else:
        names = {id(p): name for name, p in model.named_parameters()}
        again = copy.copy(optimizer)
        again.state = defaultdict(dict)
        again.param_groups = [
            group | {"params": [parameters[name] for p in group["params"] if (name := names.get(id(p))) in parameters]}
            for group in optimizer.param_groups
        ]
        again.step()
    return {name: parameters[name].detach() - old for name, old in before.items()}


def _of_changes(layers: list[Layer], changes: dict[str, Tensor]) -> Iterator[Finding]:
    by_layer = {layer.name: layer for layer in layers}
    relative: dict[str, float] = {}
    for name, change in changes.items():
        place = name.rpartition(".")[0]
        layer = by_layer.get(place or "model")
        if layer is not None and change.ndim > 1 and layer.weight > 0:
            layer.change = relative[name] = change.float().square().mean().sqrt().item() / layer.weight
    if not relative:
        return
    name = max(relative, key=relative.__getitem__)
    largest = relative[name]
    if largest > _LARGE:
        yield Finding(
            f"the learning rate is too high: one update changes {name} by {largest:.0%} of its size",
            f"divide lr by {10 ** math.ceil(math.log10(largest / 0.03))}",
        )
    elif largest < _SMALL:
        yield Finding(
            f"the learning rate is too low: one update changes no weight by more than {largest:.1e} of its size",
            f"multiply lr by {10 ** min(math.ceil(math.log10(1e-3 / max(largest, 1e-30))), 9)}",
        )


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
