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
_LARGE, _SMALL = 0.3, 2e-4  # change of the weights by one update, relative to their size
_ALIVE = 1e-7  # gradient of a weight, below which no learning rate is blamed
_LASTS = 0.05  # share of the largest gradient, below which a neuron has forgotten an input
# A trial: so many updates on so many samples of the batch, each of which changes weights by a share of their size.
_UPDATES, _SAMPLES, _STEP, _FALL = 60, 64, 0.06, 0.15
# By how many standard deviations the loss is below that of the same output with targets of other samples: for the
# samples of the trial, and for some that are kept back. It is 0 for a network that answers all samples alike.
_LEARNED, _CARRIED = 6.0, 4.0


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
        memory: time steps until the output at the last step has forgotten an input.
        lasts: time constant of its membrane in steps.
        blocked: no gradient passes through its spikes, however wide the surrogate is.
        alike: its output is the same for all samples.
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
    memory: float = math.nan
    lasts: float = math.nan
    blocked: bool = False
    alike: bool = False


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

    _NOTHING = (
        "Nothing found: in a short trial, the network learned some of these samples. If the accuracy on others stays "
        "at chance, look at the learning rate, the number of epochs and of samples, and how test data are prepared."
    )

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
            return [*lines, self._NOTHING]
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
    Then a second copy tries to learn 64 samples in up to 60 updates, with a learning rate that suits the weights, and
    is asked about samples that were kept back. It has learned them if the loss is far lower than with the targets of
    other samples. If it can, silent layers and the like are no reason, as many networks start so; if it can't, they
    are told. Neither the model, nor the optimizer, nor PyTorch's random numbers change.

    Args:
        model, encode, loss: as for ``fit``.
        samples, targets: a batch as for ``fit``; some hundred samples are enough.
        optimizer: of which the learning rates are compared with the weights; None: Adam with ``lr``.
        lr: of Adam.
        device: where to compute.

    Returns:
        What was found, the likeliest cause first, and a number for each layer of what it did. "Nothing found" says that
        a short trial learned something and that none of these was seen: NaN, zeros or an odd range in the data, labels
        out of range, all the same or of other samples, weights that are not trained or not finite, state kept between
        batches, silent or saturated layers, layers that answer all samples alike, no or a blind surrogate, a gradient
        that is lost, fades or explodes, a loss that reads only the first step, is no cost of classes, rises as the
        answer becomes right or is mostly a penalty, targets that spikes can't reach, a memory that is too short, a
        learning rate that does not suit the weights. Each is seen where it is clear. The trial has a learning rate of
        its own, so a network that it can train may still stand still with yours.

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

    passes = _Passes(net, len(y))
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
        if out.grad is None:
            what = "no gradient leads from the loss to the output of the network"
            found.append(Finding(what, "look for argmax, a comparison, .item() or .detach() in the loss"))
        passes.felt()
    result.layers = passes.layers()
    if not value.requires_grad or not math.isfinite(result.loss) or out.grad is None:
        return result
    sequence = sequences[0]
    found += _of_state(model, sequence)
    lost, suspected = _of_gradients(net, result.layers)
    found += [*_of_blocked(result.layers), *lost]
    if y.is_floating_point() and result.layers and result.layers[-1].spiking:
        found += _of_bounds(loss, out, goal)
    if classes and out.grad is not None and goal.ndim == 1:
        found += _of_direction(out.grad, goal)
    trial = functools.partial(_Trial, model, x, y, encode, loss)
    tried = trial()
    found += _of_loss(loss, out, goal, result, tried)
    if not tried.learned:
        layers = [*_of_dropout(net), *_of_alike(result.layers), *_of_layers(result.layers, len(sequence))]
        blind = [layer for layer in result.layers if layer.spiking and layer.felt < _SEEN and not layer.blocked]
        blind = [layer for layer in blind if layer.silent < 1]  # else membranes are far from the threshold
        if blind and trial(wide=True).learned:
            layers.insert(0, _blind(blind[0]))
        found += [*_of_saturation(result.layers), *(layers or suspected)]
    elif not found:
        found += _of_saturation(result.layers)
    changes = _of_changes(result.layers, net, _first_update(model, net, optimizer, lr), optimizer)
    too_low = any("too low" in finding.what for finding in changes)
    if not (too_low and (found or tried.at_first)):  # no learning rate revives a gradient; a trained network may rest
        found += changes
    # Where nearly all labels are the same, a trial says little; nor where it was not at its end.
    clear = not (classes and goal.flatten().bincount().max() > 0.9 * goal.numel())
    clear = clear and (tried.learned or not tried.moving)
    if not found and clear and not (tried.learned and tried.carried):
        found += _of_memory(result.layers, sequence) if encode is None else []
        found += [*_of_dropout(net)] or [tried.told()]
    return result


class _Trial:
    """A copy learns some samples, and is asked about others; ``wide``: by surrogates that reach far from the threshold.

    Attributes:
        learned, carried: whether it learned the samples, and whether that helps with those kept back.
        at_first: it had learned before the first update.
        losses: of the updates.
    """

    def __init__(
        self, model: nn.Module, x: Any, y: Tensor, encode: Callable | None, loss: Callable, *, wide: bool = False
    ) -> None:
        self.learned = self.carried = self.at_first = False
        self.losses: list[float] = []
        self.net = copy.deepcopy(model).to(y.device).train()
        for neuron in self.net.modules():
            if wide and isinstance(neuron, Neuron) and neuron.surrogate is not None:
                neuron.surrogate = ATan(2.0)
        self.encode, self.loss = encode, loss
        if isinstance(x, Tensor):  # as samples often come sorted by class
            order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0)).to(y.device)
            x, y = x[order], y[order]
        kept = min(len(y) // 3, 2 * _SAMPLES)
        rest = max(len(y) - kept, 1)
        try:
            self._learn(x, y, kept, rest, wide)
        except (RuntimeError, ValueError) as error:
            # State with a graph that is gone, or values that became NaN: both are named by what was seen before.
            if "second time" not in str(error) and "finite" not in str(error):
                raise

    @property
    def first(self) -> float:
        """The loss at first."""
        return self.losses[0] if self.losses else math.nan

    @property
    def least(self) -> float:
        """The lowest loss."""
        return min(self.losses, default=math.inf)

    @property
    def moving(self) -> bool:
        """Whether the loss was still falling at the end."""
        return len(self.losses) > 20 and self.losses[-1] < 0.9 * abs(self.losses[-15])

    def _learn(self, x: Any, y: Tensor, kept: int, rest: int, wide: bool) -> None:
        optimizer = self._optimizer()
        with torch.enable_grad():
            # First the same samples again and again; if these are learned by heart, others as well.
            for update in range(2 * _UPDATES):
                start = 0 if update < _UPDATES else (update * _SAMPLES) % rest
                few = slice(start, min(start + _SAMPLES, rest))
                if update == _UPDATES and not self.learned:
                    return
                if few.stop - few.start < min(_SAMPLES, rest) // 2:
                    continue
                out, value = self._run(x[few], y[few])
                if update % 5 == 0:
                    self.learned = self.learned or self._told_apart(out, y[few]) > _LEARNED
                    self.at_first = self.learned if update == 0 else self.at_first
                    self.carried = self.learned and (
                        wide or kept < 16 or self._carries(x[rest:][:kept], y[rest:][:kept])
                    )
                    if self.carried:
                        return
                if not value.isfinite():
                    return
                self.losses.append(value.item())
                optimizer.zero_grad()
                value.backward()
                optimizer.step()

    def _optimizer(self) -> torch.optim.Optimizer:
        trained = [p for p in self.net.parameters() if p.requires_grad]
        sizes = [p.detach().float().square().mean().sqrt().item() for p in trained]
        typical = sorted(size for p, size in zip(trained, sizes, strict=True) if p.ndim > 1 or len(trained) == 1)
        # Biases and numbers of neurons change as weights do: else a huge one would be corrected at once.
        middle = typical[len(typical) // 2] if typical else 1.0
        sizes = [size if p.ndim > 1 else min(size, middle) for p, size in zip(trained, sizes, strict=True)]
        return torch.optim.Adam(
            [{"params": [p], "lr": _STEP * max(size, 1e-3)} for p, size in zip(trained, sizes, strict=True)]
        )

    def _run(self, x: Any, y: Tensor) -> tuple[Tensor, Tensor]:
        out = run_model(self.net, self.net, self.encode, prepared(x))
        return out, apply_loss(self.loss, out, aligned(y, out))

    def _carries(self, x: Any, y: Tensor) -> bool:
        with torch.no_grad():
            return self._told_apart(self._run(x, y)[0], y) > _CARRIED

    @torch.no_grad()
    def _told_apart(self, out: Tensor, y: Tensor) -> float:
        """By how many standard deviations the loss is lower than with targets of other samples."""
        value, *others = (
            apply_loss(self.loss, out, aligned(given, out)).item()
            for given in (y, *(y[torch.randperm(len(y)).to(y.device)] for _ in range(30)))
        )
        spread = torch.tensor(others, dtype=torch.float64)
        return (spread.mean().item() - value) / (spread.std().item() + 1e-6 * abs(value) + 1e-30)

    def told(self) -> Finding:
        if self.learned:
            return Finding(
                "the network memorises samples, but what it learned says nothing about samples that it has not seen",
                "do labels belong to their samples (shuffled or shifted apart)? Are the axes in order (transpose, not "
                "reshape)? Is what tells the classes apart in the input at all? Else give more samples",
            )
        if self.first - self.least > _FALL * abs(self.first):
            return Finding(
                f"the loss falls from {self.first:.3g} to {self.least:.3g}, but the outputs of different samples do "
                "not come nearer to their own targets",
                "does the loss compare each output with the target of its own sample, or do shapes broadcast ([B, 1] "
                "against [B])? Does the network lose what tells the samples apart (pooling, dropout)?",
            )
        return Finding(
            "no learning rate lowers the loss of a single batch, but none of the known causes was seen",
            "try a smaller network, other neurons or a loss of snnkit.loss, one after the other",
        )


# --- one pass --------------------------------------------------------------------------------------------------------


class _Passes:
    """Records inputs and outputs of the layers of a network, in the order in which they run."""

    def __init__(self, net: nn.Module, batch: int) -> None:
        self.batch = batch
        self.seen: list[tuple[str, nn.Module, Tensor, Tensor]] = []
        self.sensitivity: dict[int, float] = {}
        self.blocked: dict[int, bool] = {}
        self.memory: dict[int, int] = {}
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
            if isinstance(module, Neuron) and module.spiking:
                change = _change(module, x, slice(None))
                self.sensitivity[i] = (change > _FELT).float().mean().item()
                if self.sensitivity[i] == 0 and x.requires_grad:
                    wide = copy.deepcopy(module)
                    wide.surrogate = ATan(2.0)
                    self.blocked[i] = not bool(_change(wide, x, slice(None)).any())
                if len(x) > 1:
                    late = _change(module, x, slice(-1, None)).flatten(1).norm(dim=1)
                    self.memory[i] = int((late > _LASTS * late.max()).sum())

    def layers(self) -> list[Layer]:
        calls: dict[str, list[int]] = defaultdict(list)  # a recurrent layer is called at each time step
        for i, (name, *_) in enumerate(self.seen):
            calls[name].append(i)
        return [self._layer(name, which) for name, which in calls.items()]

    def _layer(self, name: str, which: list[int]) -> Layer:
        _, module, _, first = self.seen[which[0]]
        outs = [self.seen[i][3] for i in which]
        layer = Layer(name or "model", type(module).__name__)
        values = torch.cat(
            [out.detach() for out in outs] if all(o.shape[1:] == first.shape[1:] for o in outs) else [first]
        )
        layer.alike = _alike(values, self.batch)
        if isinstance(module, Neuron):
            values = values.float()
            layer.rate = values.mean().item()
            layer.spiking = module.spiking
            decay = getattr(module, "decay", None)
            if isinstance(decay, (float, Tensor)) and (slowest := torch.as_tensor(decay).max().item()) < 1:
                layer.lasts = 1 / (1 - slowest)
            if module.spiking and values.ndim > 1:
                per_neuron = values.flatten(0, 1).flatten(1) if values.ndim > 2 else values.flatten(0, 1).unsqueeze(1)
                layer.silent = (per_neuron.amax(0) == 0).float().mean().item()
                layer.always = (per_neuron.mean(0) > _ALWAYS).float().mean().item()
                known = [self.sensitivity[i] for i in which if i in self.sensitivity]
                layer.felt = sum(known) / len(known) if known else math.nan
                layer.blocked = all(self.blocked.get(i, False) for i in which)
                layer.memory = self.memory.get(which[0], math.nan) if len(which) == 1 else math.nan
        if grads := [out.grad.float().norm() for out in outs if out.requires_grad and out.grad is not None]:
            layer.gradient = torch.stack(grads).norm().item()
        weights = [p.detach().float().flatten() for p in module.parameters(False) if p.ndim > 1]
        if weights:
            layer.weight = torch.cat(weights).square().mean().sqrt().item()
        return layer


def _change(neuron: nn.Module, x: Tensor, steps: slice) -> Tensor:
    """Size of the gradient of a neuron's output at some steps with respect to its input."""
    probe = x.detach().requires_grad_()
    with torch.enable_grad():
        out, _ = neuron(probe)
        if not out.requires_grad:
            return torch.zeros_like(probe)
        (change,) = torch.autograd.grad(out[steps].sum(), probe, allow_unused=True)
    return torch.zeros_like(probe) if change is None else change.abs()


def _alike(out: Tensor, batch: int) -> bool:
    """Whether an output, [T, B, ...], [T * B, ...] or [B, ...], is the same for all samples."""
    if out.ndim > 1 and out.shape[1] == batch:
        by_sample = out
    elif out.ndim and len(out) % batch == 0:
        by_sample = out.unflatten(0, (-1, batch))
    else:
        return False
    return batch > 1 and bool((by_sample - by_sample[:, :1]).abs().max() <= 1e-6 * by_sample.abs().max())


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
    if equal := [
        n for n, p in matrices.items() if p.numel() > 4 and p.any() and p.requires_grad and (p == p.flatten()[0]).all()
    ]:
        yield Finding(
            f"all weights of {_some(equal)} are equal, so its neurons stay alike",
            "initialise them at random: torch.nn.init.kaiming_uniform_(layer.weight)",
        )
    if frozen := [name for name, p in matrices.items() if not p.requires_grad]:
        yield Finding(f"{_some(frozen)} can't learn: requires_grad is False", "net.requires_grad_(True)")
    if optimizer is not None:
        held = {id(p) for group in optimizer.param_groups for p in group["params"]}
        if any(group.get("maximize") for group in optimizer.param_groups):
            yield Finding("the optimizer makes the loss larger: maximize is True", "leave maximize=True out")
        if all(group["lr"] == 0 for group in optimizer.param_groups):
            yield Finding("the learning rate is 0", "is there a scheduler that begins at 0 and is never stepped?")
        decays = [group["lr"] * group.get("weight_decay", 0.0) for group in optimizer.param_groups]
        if isinstance(optimizer, (torch.optim.AdamW, torch.optim.SGD)) and max(decays) > 0.01:
            yield Finding(
                f"weight decay shrinks the weights by {max(decays):.0%} in each update",
                "make weight_decay smaller: 1e-2 or less is usual",
            )
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


def _of_state(model: nn.Module, sequence: Tensor) -> Iterator[Finding]:
    net = copy.deepcopy(model).to(sequence.device).eval()
    outs = []
    for _ in range(2):
        torch.manual_seed(0)
        for generator in generators_of(net):
            generator.manual_seed(0)
        with torch.no_grad():
            outs.append(run_model(net, net, lambda x: x.transpose(0, 1), sequence[:, :_SAMPLES].transpose(0, 1)))
    if outs[0].shape != outs[1].shape or not torch.allclose(*outs, rtol=1e-3, atol=1e-5, equal_nan=True):
        yield Finding(
            "two passes with the same input give different outputs: the model keeps state from one batch to the next",
            "start each batch with state None, as net(x) does: store no state in the module, or reset it",
        )


def _of_bounds(loss: Callable, out: Tensor, goal: Tensor) -> Iterator[Finding]:
    for bound, sign, words in (
        (1.0, -1, "it fires at every step already, and the loss asks for more"),
        (0.0, 1, "it never fires, and the loss asks for less"),
    ):
        extreme = torch.full_like(out, bound).requires_grad_()
        value = apply_loss(loss, extreme, goal)
        (slope,) = torch.autograd.grad(value, extreme, allow_unused=True) if value.requires_grad else (None,)
        if slope is not None and slope.any() and (sign * slope[slope != 0] > 0).float().mean() > _ALWAYS:
            yield Finding(
                f"targets, which go from {goal.min():.3g} to {goal.max():.3g}, are out of reach of an output of "
                f"spikes, 0 or 1 at each step: {words}",
                "end with a neuron.Readout or another layer that does not spike, or scale the targets to [0, 1]",
            )


def _of_loss(loss: Callable, out: Tensor, goal: Tensor, result: Diagnosis, tried: _Trial) -> Iterator[Finding]:
    if not math.isnan(result.chance):
        if min(result.loss, tried.least) < 0:
            yield Finding(
                f"the loss falls below 0 ({min(result.loss, tried.least):.3g}), which the cost of a class can't",
                "give nll_loss log-probabilities, out.sum(0).log_softmax(1), or use F.cross_entropy",
            )
        with torch.no_grad():
            other = apply_loss(loss, out, goal.roll(1, -1)).item()
        if (
            not (tried.learned or result.findings)
            and result.loss > 10 * result.chance
            and abs(other - result.loss) < 0.02 * result.loss
        ):
            yield Finding(
                f"the loss, {result.loss:.3g}, is {result.loss / result.chance:.0f} times that of a guess, and hardly "
                "depends on the targets: a penalty in it outweighs the task",
                f"divide its weight by {10 ** math.ceil(math.log10(10 * result.loss / result.chance))}",
            )
    if out.grad is None or len(out) < 4:
        return
    read = out.grad.flatten(1).abs().amax(1).nonzero().flatten().tolist()
    if read == [0] or (read and not tried.learned and read[-1] < len(out) / 4):
        which = "step 0" if read == [0] else f"steps {read[0]} to {read[-1]}"
        yield Finding(
            f"the loss depends only on {which} of {len(out)}, before the network has seen most of its input",
            "let it read all steps (out.sum(0), a loss of snnkit.loss) or the last one (out[-1])",
        )


def _of_alike(layers: list[Layer]) -> Iterator[Finding]:
    for layer in layers:
        if layer.alike:
            if not (layer.spiking and max(layer.silent, layer.always) > 1 - _RARE):
                yield Finding(
                    f"from {layer.kind} {layer.name!r} on, all samples give the same output",
                    "does it normalise over a single value or the wrong axis, or are its weights 0?",
                )
            return


def _of_dropout(net: nn.Module) -> Iterator[Finding]:
    for name, module in net.named_modules():
        if isinstance(module, nn.modules.dropout._DropoutNd) and module.p > 1 - _RARE:
            yield Finding(
                f"{name} drops {100 * module.p:g} % of its input", "p is the share that is dropped: try p=0.2"
            )


def _of_blocked(layers: list[Layer]) -> Iterator[Finding]:
    for layer in layers:
        if layer.blocked:
            yield Finding(
                f"no gradient passes through the spikes of {layer.kind} {layer.name!r}: it is exactly 0 for all "
                "inputs, with any surrogate",
                "make spikes by self.spike(v - threshold) in its step, not by a comparison such as (v > 1).float()",
            )
            return


def _of_memory(layers: list[Layer], sequence: Tensor) -> Iterator[Finding]:
    spiking = [layer for layer in layers if layer.spiking]
    longest = max((layer.memory for layer in spiking), default=math.nan)
    if any(math.isnan(layer.memory) for layer in spiking) or not longest < len(sequence) / 4:
        return
    yield Finding(
        f"memory may be too short: spiking neurons forget their input after {longest:.0f} of {len(sequence)} steps",
        "take longer time constants (a larger tau or beta) or nn.Recurrent, if the task needs what was long ago",
    )


def _of_layers(layers: list[Layer], steps: int) -> Iterator[Finding]:
    spiking = [i for i, layer in enumerate(layers) if layer.spiking]
    silent = [i for i in spiking if layers[i].silent > 1 - _RARE]
    # Silence alone heals, where the surrogate passes gradients on: what doesn't is the cause.
    for i in ([i for i in silent if layers[i].felt < _SEEN] or silent)[:1]:
        after = spiking[spiking.index(silent[0]) :]
        alive = spiking[0] < silent[0] or (layers[silent[0]].silent < 1 and len(after) > 3)
        if alive and len(after) > 1 and all(k in silent for k in after[1:]):
            first = layers[silent[0]]
            yield Finding(
                f"activity dies with depth: from {first.kind} {first.name!r} on, hardly any neuron fires, in "
                f"{len(after)} of {len(spiking)} spiking layers",
                "put a batch norm before each neuron, make weights larger, or take fewer layers or more time steps",
            )
            return
        before = [one.name for one in layers[:i] if not math.isnan(one.weight)]
        where = f"the weights of {before[-1]!r}" if before else "its input"
        remedies = ["lower its threshold", f"let more time pass (steps, now {steps})"]
        remedies = remedies[::-1] if steps <= 3 * len(spiking) else remedies
        if layers[i].lasts > 3 * steps:
            yield Finding(
                f"{layers[i].kind} {layers[i].name!r} is silent, as its membrane charges too slowly: its time constant "
                f"is {layers[i].lasts:.3g} steps, and the sequence has {steps}",
                "make the time constant shorter (are its units right, or is its inverse wanted?), or take more steps",
            )
            return
        yield Finding(
            f"{layers[i].kind} {layers[i].name!r} is silent: {layers[i].silent:.0%} of its neurons never fire",
            f"{', '.join(remedies)}, or make {where} larger (layer.weight.data *= 3)",
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
        return [
            Finding(
                what,
                "does it explode through time (recurrent weights too large)? Or is there a root or logarithm of 0, "
                "or a division by 0, in loss and forward?",
            )
        ], []
    certain: list[Finding] = []
    if lost := [name for name, norm in norms.items() if norm is None]:
        what = f"no gradient reaches {_some(lost)}"
        advice = "look for .detach(), torch.no_grad() or a comparison after it in forward; or is it not used?"
        certain.append(Finding(what, advice))
    known = {name: norm for name, norm in norms.items() if norm is not None}
    largest = max(known.values(), default=0.0)
    suspected = [_blind(layer) for layer in layers if layer.spiking and layer.felt < _SEEN and not layer.blocked][:1]
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
    if right > max(others, 0.0) + 0.1 * per_class.abs().mean().item() and per_class.abs().max() > _ALIVE:
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


def _of_changes(
    layers: list[Layer], net: nn.Module, changes: dict[str, Tensor], optimizer: torch.optim.Optimizer | None
) -> list[Finding]:
    by_layer = {layer.name: layer for layer in layers}
    groups = optimizer.param_groups if optimizer is not None else []
    momentum = max((group.get("momentum", 0.0) for group in groups), default=0.0)
    relative: dict[str, float] = {}
    for name, change in changes.items():
        place = name.rpartition(".")[0]
        layer = by_layer.get(place or "model")
        if layer is not None and change.ndim > 1 and layer.weight > 0:
            layer.change = change.float().square().mean().sqrt().item() / layer.weight
            gradient = net.get_parameter(name).grad
            if gradient is not None and gradient.abs().max() > _ALIVE:
                relative[name] = layer.change / (1 - min(momentum, 0.99))  # updates add up
    if not relative:
        return []
    name = max(relative, key=relative.__getitem__)
    largest = relative[name]
    if largest > _LARGE:
        return [
            Finding(
                f"the learning rate is too high: one update changes {name} by {largest:.0%} of its size",
                f"divide lr by {10 ** math.ceil(math.log10(largest / 0.03))}",
            )
        ]
    if largest < _SMALL:
        return [
            Finding(
                f"the learning rate is too low: one update changes no weight by more than {largest:.1e} of its size",
                f"multiply lr by {10 ** min(max(math.floor(math.log10(1e-2 / max(largest, 1e-30))), 1), 9)}",
            )
        ]
    return []


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
