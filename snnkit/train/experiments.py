"""Experiments on copies of a network: a pass, repeats of it, made-up answers for the loss, trials to learn samples."""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from snnkit.neuron import Neuron
from snnkit.surrogate import ATan
from snnkit.train.batches import as_sequence
from snnkit.train.metrics import Metric, aligned, apply_loss
from snnkit.train.seeding import generators_of
from snnkit.train.step import prepared, run_model

ALWAYS = 0.9  # share of all steps with a spike, above which a neuron counts as firing all the time
_FELT = 1e-3  # change of all later spikes for a change of an input, above which the surrogate passes it on
_LASTS = 0.05  # share of the largest gradient, below which a neuron has forgotten an input
# A trial: so many updates on so many samples of the batch, each of which changes weights by a share of their size.
UPDATES, _SAMPLES, _STEP = 60, 64, 0.06
# By how many standard deviations the loss is below that of the same output with targets of other samples: for the
# samples of the trial, and for some that it does not see. It is 0 for a network that answers all samples alike.
_LEARNED, _CARRIED = 6.0, 4.0


@dataclass(frozen=True)
class Case:
    """What is examined, on one device. The model itself never runs, only copies."""

    model: nn.Module
    x: Any
    y: Tensor
    encode: Callable[[Any], Tensor] | None
    loss: Callable[[Tensor, Tensor], Tensor]

    def copy(self) -> nn.Module:
        return copy.deepcopy(self.model).to(self.y.device).train()

    def encoded(self, x: Any) -> Tensor:
        return as_sequence(prepared(x)) if self.encode is None else self.encode(prepared(x))

    def cost(self, out: Tensor, y: Tensor) -> Tensor:
        return apply_loss(self.loss, out, aligned(y, out))

    @property
    def labels(self) -> bool:
        return not self.y.is_floating_point()


# --- one pass --------------------------------------------------------------------------------------------------------


@dataclass
class Layer:
    """What one layer did in a pass forward and backward; NaN where it has no such number."""

    name: str  #: in the model
    kind: str  #: its class
    spiking: bool = False
    rate: float = math.nan  #: mean output per neuron and step
    silent: float = math.nan  #: share of neurons without a spike in any sample and step
    always: float = math.nan  #: share of neurons that fire in nearly all steps
    latched: float = math.nan  #: share of spike trains that never pause after their first spike
    felt: float = math.nan  #: share of inputs whose change the surrogate's gradient passes on
    gradient: float = math.nan  #: norm of the loss's gradient with respect to the output
    weight: float = math.nan  #: root of the mean square of its weights
    usual: float = math.nan  #: the same of PyTorch's initial weights for as many inputs
    positive: float = math.nan  #: share of its weights that are above 0
    bias: float = math.nan  #: mean of its bias
    drive: float = math.nan  #: root of the mean square of its input
    change: float = math.nan  #: of its weights by the first update, relative to their size
    memory: float = math.nan  #: time steps until the output at the last step has forgotten an input
    lasts: float = math.nan  #: time constant of its membrane in steps
    membrane: float = math.nan  #: the largest potential, if some neurons are silent
    rest: float = math.nan  #: the potential without input, if some are silent
    threshold: float = math.nan  #: of the membrane
    blocked: bool = False  #: no gradient passes through it, however wide its surrogate is
    merged: bool = False  #: its output is the same for all samples, and its input is not
    restarts: bool = False  #: it is called step by step, and begins at rest each time

    @property
    def gap(self) -> float:
        """From rest to the threshold."""
        return self.threshold - self.rest

    @property
    def reach(self) -> float:
        """The largest potential as a share of the way from rest to the threshold."""
        return (self.membrane - self.rest) / self.gap if self.gap > 0 else math.nan


class _Call(NamedTuple):
    module: nn.Module
    x: Tensor
    state: Any
    out: Tensor


class Pass:
    """A copy of the model runs the sequence [T, B, ...] once, forward and, by ``backward``, back.

    Attributes:
        net, sequence, out: the copy, its input and its output [T, B, ...].
        loss: its value; NaN before ``backward``.
        strays: shapes of trainable tensors that the loss depends on, and that are no parameters of the model.
    """

    def __init__(self, case: Case, sequence: Tensor) -> None:
        self.case, self.net, self.loss, self.strays = case, case.copy(), math.nan, []
        self.sequence = sequence
        self._calls: dict[str, list[_Call]] = defaultdict(list)  # of a layer in a loop, one for each time step
        hooks = [
            module.register_forward_hook(self._note(name), with_kwargs=True)
            for name, module in self.net.named_modules()
            if isinstance(module, Neuron) or not list(module.children())
        ]
        try:
            with torch.enable_grad():
                self.out = run_model(self.net, self.net, lambda _: sequence, case.x)
        finally:
            for hook in hooks:
                hook.remove()
        if self.out.requires_grad:
            self.out.retain_grad()

    def _note(self, name: str) -> Callable[..., None]:
        def note(module: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any], result: Any) -> None:
            x = arguments[0] if arguments else next(iter(named.values()), None)
            out = result[0] if isinstance(result, tuple) else result
            if not (isinstance(x, Tensor) and isinstance(out, Tensor)):
                return
            for tensor in (x, out):
                if tensor.requires_grad and not tensor.is_leaf:
                    tensor.retain_grad()
            if named.get("repeat"):  # of a neuron: x is one step
                x = x.expand(named["repeat"], *x.shape)
            self._calls[name].append(_Call(module, x, named.get("state", (*arguments, None)[1]), out))

        return note

    def backward(self) -> Tensor:
        """The loss, after its gradients were computed where it has some."""
        value = self.case.cost(self.out, self.case.y)
        self.loss = value.item()
        if value.requires_grad and math.isfinite(self.loss):
            known = {id(p) for p in self.net.parameters()}
            self.strays = [list(leaf.shape) for leaf in _leaves(value) if id(leaf) not in known]
            value.backward()
        return value

    def layers(self) -> list[Layer]:
        """Numbers of each, in the order in which they ran."""
        return [self._layer(name, calls) for name, calls in self._calls.items()]

    def _layer(self, name: str, calls: list[_Call]) -> Layer:
        module, batch = calls[0].module, len(self.case.y)
        x, out = (torch.cat(parts) if len({p.shape[1:] for p in parts}) == 1 else parts[0]
                  for parts in ([c.x.detach() for c in calls], [c.out.detach() for c in calls]))  # fmt: skip
        layer = Layer(name or "model", type(module).__name__)
        layer.merged = _alike(out, batch) and not _alike(x, batch)
        layer.drive = x.float().square().mean().sqrt().item()
        gradients = [call.out.grad for call in calls if call.out.requires_grad and call.out.grad is not None]
        if gradients:
            layer.gradient = torch.stack([g.float().norm() for g in gradients]).norm().item()
            back = [call.x.grad for call in calls if call.x.requires_grad]
            layer.blocked = bool(back) and layer.gradient > 0 and not any(g is not None and g.any() for g in back)
        if isinstance(module, Neuron):
            layer.rate, layer.spiking = out.float().mean().item(), module.spiking
            decay = getattr(module, "decay", None)
            if isinstance(decay, (float, Tensor)) and (slowest := torch.as_tensor(decay).max().item()) < 1:
                layer.lasts = 1 / (1 - slowest)
            layer.restarts = len(calls) > 2 and all(len(call.x) == 1 and call.state is None for call in calls)
            if module.spiking and out.ndim > 1:
                _of_spikes(layer, out.float())
                _of_neuron(layer, calls)
        if weights := [p.detach().float() for p in module.parameters(False) if p.ndim > 1]:
            every = torch.cat([w.flatten() for w in weights])
            layer.weight, layer.positive = every.square().mean().sqrt().item(), (every > 0).float().mean().item()
            layer.usual = 1 / math.sqrt(3 * max(weights[0][0].numel(), 1))
        if isinstance(bias := getattr(module, "bias", None), Tensor):
            layer.bias = bias.detach().float().mean().item()
        return layer


def _of_spikes(layer: Layer, spikes: Tensor) -> None:
    trains = spikes.flatten(2) if spikes.ndim > 2 else spikes.unsqueeze(2)  # [T, B, N]
    layer.silent = (trains.amax((0, 1)) == 0).float().mean().item()
    layer.always = (trains.mean((0, 1)) > ALWAYS).float().mean().item()
    begun = trains.cummax(0).values
    early = begun[-4:].amin(0) > 0  # a train says something only if it has time for a pause
    layer.latched = (trains >= begun).all(0)[early].float().mean().item() if early.any() else 0.0


def _of_neuron(layer: Layer, calls: list[_Call]) -> None:
    """How far a change of its input changes its output, by the surrogate; and the membrane of a silent one."""
    module, x, state, _ = calls[len(calls) // 2]
    assert isinstance(module, Neuron)
    change = _change(module, x, state, slice(None))
    layer.felt = (change > _FELT).float().mean().item()
    layer.blocked = layer.felt == 0 and x.requires_grad and not _change(widened(module), x, state, slice(None)).any()
    if len(calls) == 1 and len(x) > 1:
        late = _change(module, x, state, slice(-1, None)).flatten(1).norm(dim=1)
        layer.memory = int((late > _LASTS * late.max()).sum())
    threshold = getattr(module, "threshold", None)
    if layer.silent > 0 and isinstance(threshold, (float, Tensor)):
        layer.threshold, layer.membrane, state = torch.as_tensor(threshold).max().item(), -math.inf, calls[0].state
        with torch.no_grad():
            layer.rest = module.membrane(module(torch.zeros_like(calls[0].x[:1]), None)[1]).mean().item()
            for step in (step for call in calls for step in call.x.split(1)):
                _, state = module(step, state)
                layer.membrane = max(layer.membrane, module.membrane(state).max().item())


def _change(neuron: nn.Module, x: Tensor, state: Any, steps: slice) -> Tensor:
    """Size of the gradient of a neuron's output at some steps with respect to its input."""
    probe = x.detach().requires_grad_()
    with torch.enable_grad():
        out, _ = neuron(probe, state)
        if not out.requires_grad:
            return torch.zeros_like(probe)
        (change,) = torch.autograd.grad(out[steps].sum(), probe, allow_unused=True, retain_graph=state is not None)
    return torch.zeros_like(probe) if change is None else change.abs()


def _alike(out: Tensor, batch: int) -> bool:
    """Whether an output, [T, B, ...], [T * B, ...] or [B, ...], is the same for all samples."""
    if out.ndim < 2 or out.shape[1] != batch:
        if out.ndim == 0 or len(out) % batch:
            return False
        out = out.unflatten(0, (-1, batch))
    return batch > 1 and bool((out - out[:, :1]).abs().max() <= 1e-6 * out.abs().max())


def _leaves(value: Tensor) -> list[Tensor]:
    """The tensors that a gradient of ``value`` is for."""
    nodes: list[Any] = [value.grad_fn]
    seen: set[Any] = {None}
    leaves: list[Tensor] = []
    while nodes:
        if (node := nodes.pop()) not in seen:
            seen.add(node)
            leaves += [node.variable] if hasattr(node, "variable") else []
            nodes += [following for following, _ in node.next_functions]
    return leaves


def widened(net: nn.Module) -> nn.Module:
    """A copy whose surrogates reach far from the threshold, without a kernel to compile for it."""
    wide = copy.deepcopy(net)
    for neuron in wide.modules():
        if isinstance(neuron, Neuron) and neuron.surrogate is not None:
            neuron.surrogate, neuron.engine = ATan(2.0), "eager"
    return wide


def renewed(net: nn.Module) -> nn.Module | None:
    """A copy with weights as PyTorch initialises them; None if a module does not say how."""
    made = copy.deepcopy(net)
    for module in made.modules():
        if callable(renew := getattr(module, "reset_parameters", None)):
            renew()
        elif not isinstance(module, Neuron) and list(module.parameters(recurse=False)):
            return None
    return made


# --- the same samples again, and fewer of them ------------------------------------------------------------------------


class Repeats(NamedTuple):
    """``signal``: share of the variance among samples that is the same in two calls, near 0 for noise; ``mixes``: the
    result for a sample is another one as others leave the batch; ``fixed``: it is the same for other samples; ``cut``:
    an earlier input changes the output, and no gradient leads to it."""

    first: Tensor
    signal: float = 1.0
    mixes: bool = False
    fixed: bool = False
    cut: bool = False


def encoding(case: Case) -> Repeats:
    """``encode`` is called twice with all samples, and where it draws no numbers once more with half, in reverse."""
    first, again = case.encoded(case.x), case.encoded(case.x)
    if not isinstance(first, Tensor) or first.ndim < 2 or first.shape[1] != len(case.y):
        return Repeats(first)  # which ``run_model`` refuses, in words
    if first.shape == again.shape and not torch.equal(first, again):
        shares = [_signal(first, again), _signal(first.mean(0, keepdim=True), again.mean(0, keepdim=True))]
        return Repeats(first, max(shares))
    half = len(case.y) // 2
    try:
        few = case.encoded(case.x[:half].flip(0) if isinstance(case.x, Tensor) else case.x[:half][::-1])
    except (RuntimeError, ValueError):  # it may take only batches of one size
        return Repeats(first)
    part = first[:, :half].flip(1)
    if few.shape != part.shape or half < 4 or torch.equal(few, part):
        return Repeats(first, mixes=few.shape[1] != half)
    return Repeats(first, 1.0, _signal(few, part) < 0.5, torch.equal(few, first[:, :half]))


def passes(case: Case, sequence: Tensor) -> Repeats:
    """The network in evaluation mode, twice with the same random numbers; ``signal`` is 0 if the outputs differ, as by
    state that stays, and ``mixes`` whether an output has a gradient with respect to other samples."""
    net = case.copy().eval()
    some = sequence[:, :_SAMPLES].detach().clone().requires_grad_(sequence.is_floating_point())

    def run() -> Tensor:
        torch.manual_seed(0)
        for generator in generators_of(net):
            generator.manual_seed(0)
        return run_model(net, net, lambda _: some, some[0])

    def cut() -> bool:
        """Whether the last output has a gradient to the last input alone, and depends on others."""
        (slope,) = torch.autograd.grad(again[-1].sum(), some, allow_unused=True)
        if slope is None or not slope[-1].any() or slope[:-1].any():
            return False
        with torch.no_grad():
            some[:-1] = 0
            return not torch.allclose(run()[-1], first[-1], rtol=1e-2, atol=1e-4)

    with torch.no_grad():
        first = run()
    with torch.enable_grad():
        again = run()
    if first.shape != again.shape or not torch.allclose(first, again, rtol=1e-3, atol=1e-5, equal_nan=True):
        return Repeats(first, 0.0)
    if not (again.requires_grad and some.requires_grad):
        return Repeats(first)
    one = again.shape[1] // 2  # the first may be one that others follow
    (slope,) = torch.autograd.grad(again[:, one].sum(), some, allow_unused=True, retain_graph=True)
    each = some.new_zeros(1) if slope is None else slope.transpose(0, 1).flatten(1).abs().sum(1)
    own = each[min(one, len(each) - 1)]
    return Repeats(first, 1.0, bool(each.sum() - own > 0.5 * own), cut=cut())


def is_linear(case: Case, sequence: Tensor) -> bool:
    """Whether outputs of sums of inputs are sums of outputs, but for what comes out without input."""
    net, a = case.copy().eval(), sequence[:, :_SAMPLES].float()
    b = a.roll(1, 1)
    with torch.no_grad():
        of_a, of_b, of_sum, of_none = (run_model(net, net, lambda _, x=x: x, x[0]) for x in (a, b, a + b, 0 * a))
    made = (of_a - of_none).abs().max()
    return bool(made > 0 and (of_a + of_b - of_sum - of_none).abs().max() < 1e-3 * made)


def _signal(first: Tensor, again: Tensor) -> float:
    """Of two results [T, B, ...] for the same samples."""
    order = torch.randperm(first.shape[1], generator=torch.Generator().manual_seed(1)).to(first.device)
    within = (first - again).float().square().mean().item()
    between = sum(
        (first - again[:, order.roll(i)][:, order.argsort()]).float().square().mean().item() for i in (1, 2, 3)
    )
    return 1 - 3 * within / between if between > 0 else 0.0


# --- made-up answers --------------------------------------------------------------------------------------------------


class Answers(NamedTuple):
    """What the loss makes of outputs that no network gave; NaN where there is no such answer."""

    constant: bool = False  # the same for all outputs
    unlabelled: bool = False  # the same for all targets
    unpaired: bool = False  # the same whichever sample a target belongs to
    mixed: bool = False  # another one if outputs and targets come in another order
    ignored: float = 0.0  # share of the samples that it does not depend on
    right: float = math.nan  # the least for outputs that name the right class
    wrong: float = math.nan  # the least for outputs that name another
    silence: float = math.nan  # of an output of zeros
    sharp: float = math.nan  # of the right class beyond doubt: with probability 1, or 1000 against -1000
    steps: Sequence[int] = ()  # those that it reads


def answers(case: Case, out: Tensor) -> Answers:
    """Random outputs, with the targets permuted and replaced, and outputs that name a class."""
    out, y = out.detach(), case.y
    binary = bool(((out == 0) | (out == 1)).all())
    range_of = out if case.labels else torch.cat([out.flatten(), y.flatten()])  # else targets may be far beyond
    low, high = (0.0, 1.0) if binary else (range_of.min().item(), range_of.max().item() + 1e-3)

    def made_up() -> Tensor:
        return low + (high - low) * torch.rand_like(out) * (torch.rand_like(out) < 0.3)

    def cost(output: Tensor, targets: Tensor) -> float:
        try:
            return case.cost(output, targets).item()
        except (RuntimeError, ValueError, TypeError, IndexError):  # it may refuse what is no output of this network
            return math.nan

    def same(*costs: float) -> bool:
        return all(math.isclose(first, other, rel_tol=2e-6) for other in costs)

    def with_gradient(targets: Tensor) -> tuple[float, Tensor | None]:
        """The loss of ``one``, and its gradient."""
        with torch.enable_grad():
            value = case.cost(one, targets)
            slope = torch.autograd.grad(value, one, allow_unused=True)[0] if value.requires_grad else None
        return value.item(), slope

    def is_unchanged_by(targets: Tensor) -> bool:
        """Whether other targets change nothing, the gradient neither: large outputs can hide them in the loss."""
        if not same(cost(one.detach(), targets)):
            return False
        other = with_gradient(targets)[1]
        return slope is None or other is None or bool((other - slope).abs().max() <= 2e-6 * slope.abs().max())

    one = made_up().requires_grad_()
    first, slope = with_gradient(y)
    classes = int(y.max()) + 1 if case.labels else 0
    counted = slice(None) if y.is_floating_point() or y.ndim > 1 else y >= 0
    result = Answers(
        (slope is None or not slope.any()) and same(*(cost(made_up(), y) for _ in range(3))),
        is_unchanged_by(
            torch.where(y < 0, y, (y + 1) % max(classes, 2)) if case.labels else y + y.std(correction=0) + 1
        ),
        all(is_unchanged_by(given) for given in (y.roll(1, 0), y.flip(0), y[torch.randperm(len(y)).to(y.device)])),
        not math.isclose(cost(one.detach().flip(1), y.flip(0)), first, rel_tol=1e-3) and same(cost(one.detach(), y)),
        0.0 if slope is None else (slope.transpose(0, 1).flatten(1).abs().amax(1) == 0)[counted].float().mean().item(),
        silence=cost(torch.zeros_like(out), y),
        steps=[] if slope is None else slope.flatten(1).abs().amax(1).nonzero().flatten().tolist(),
    )
    # An output for each class, as far as labels say: else it may be populations, or one number for two classes.
    if not case.labels or out.ndim != 3 or y.min() < 0 or not classes <= out.shape[2] < 2 * classes:
        return result

    def naming(targets: Tensor, height: float = 1.0, steps: slice = slice(None), others: float = 0.0) -> Tensor:
        goal, made = aligned(targets, out), torch.zeros_like(out)
        labels = goal if goal.ndim > 1 else goal.expand(len(out), -1)
        made[steps] = torch.full_like(out, others).scatter(2, labels.unsqueeze(2), height)[steps]
        return made

    def least(targets: Tensor) -> float:
        spans = (slice(None), slice(0, 1), slice(-1, None), slice(None, None, 3))
        costs = [cost(naming(targets, height, span), y) for height in (1.0, 1.0 if binary else 10.0) for span in spans]
        return min((c for c in costs if not math.isnan(c)), default=math.nan)

    probabilities = bool((out.sum(2) - 1).abs().max() < 1e-3) and bool((out >= 0).all())
    sharp = cost(naming(y) if probabilities else naming(y, 1000.0, others=-1000.0), y)
    return result._replace(right=least(y), wrong=least((y + 1) % classes), sharp=sharp)


# --- trials -----------------------------------------------------------------------------------------------------------


@dataclass
class Trial:
    """A copy learns some samples, and then answers others."""

    learned: bool = False  # the loss became far lower than with targets of other samples
    carried: bool = False  # so it did for samples that the trial has not seen
    began: float = 0.0  # by how many standard deviations the loss was lower before the first update
    evaluated: bool = True  # it still is in evaluation mode, where batch norms use running statistics
    named: bool = True  # the right class has the largest output more often than by chance
    losses: list[float] = field(default_factory=list)

    @property
    def at_first(self) -> bool:
        """Whether it was learned before the first update."""
        return self.began > _LEARNED

    @property
    def first(self) -> float:
        return self.losses[0] if self.losses else math.nan

    @property
    def last(self) -> float:
        """The loss at the end, a mean of five."""
        return sum(self.losses[-5:]) / len(self.losses[-5:]) if self.losses else math.nan

    @property
    def moving(self) -> bool:
        """Whether the loss was still falling at the end."""
        return len(self.losses) > 20 and self.losses[-1] < 0.9 * abs(self.losses[-15])

    def fell(self, share: float) -> bool:
        """Whether it learned, and the loss fell by at least such a share."""
        return self.learned and self.first - self.last > share * abs(self.first)


def trial(
    case: Case, optimizer: Callable[[nn.Module], torch.optim.Optimizer] | None = None, updates: int = UPDATES
) -> Trial:
    """Up to ``updates`` on the same 64 samples; without an optimizer, once these are learned, as many on others.

    Args:
        case: it is a copy of its model that learns.
        optimizer: makes one for the copy. None: Adam, with rates that suit the weights.
        updates: at most; where they are more than 60, they end as soon as the loss has fallen by two fifths.
    """
    result, net = Trial(), case.copy()
    order = torch.randperm(len(case.y), generator=torch.Generator().manual_seed(0)).to(case.y.device)
    x, y = case.x[order] if isinstance(case.x, Tensor) else [case.x[i] for i in order.tolist()], case.y[order]
    unseen = slice(len(y) - min(len(y) // 3, 2 * _SAMPLES), len(y))
    made = (optimizer or _suited)(net)
    few = start = slice(0, min(_SAMPLES, max(unseen.start, 1)))

    def run(which: slice) -> Tensor:
        return run_model(net, net, case.encode, prepared(x[which]))

    def separated(which: slice) -> float:
        with torch.no_grad():
            return _separation(case, run(which), y[which])

    try:
        for update in range(updates if optimizer else 2 * updates):
            if update >= updates:
                if not result.learned:
                    break
                first = (update * _SAMPLES) % unseen.start
                few = slice(first, min(first + _SAMPLES, unseen.start))
            with torch.enable_grad():
                out = run(few)
                value = case.cost(out, y[few])
            if update % 5 == 0:
                separation = _separation(case, out, y[few])
                far, result.began = separation > _LEARNED, result.began if update else separation
                result.learned = far or (result.learned and optimizer is None)
                if result.learned and optimizer is None:
                    result.carried = unseen.stop - unseen.start < 16 or separated(unseen) > _CARRIED
                    if result.carried:
                        break
                if optimizer and update >= 10 and updates > UPDATES and result.fell(0.4):
                    break
            if not value.isfinite():
                result.learned = False
                break
            result.losses.append(value.item())
            made.zero_grad()
            value.backward()
            made.step()
    except (RuntimeError, ValueError) as error:
        # State with a graph that is gone, or values that became NaN: both are named by what was seen before.
        if "second time" not in str(error) and "finite" not in str(error):
            raise
        result.learned = False
        return result
    with torch.no_grad():
        out = run(start)
        if case.labels and out.ndim == 3 and int(y.min()) >= 0 and int(y.max()) < out.shape[2]:
            goal = y[start].flatten()
            guess = goal.bincount().max().item() / len(goal)
            accuracy = Metric(None, y.device, case.loss)(out, aligned(y[start], out)).item()
            result.named = accuracy > guess + 4 * math.sqrt(max(guess * (1 - guess), 0.01) / len(goal))
        if result.learned and optimizer is None and any(isinstance(module, _BatchNorm) for module in net.modules()):
            for module in net.modules():
                if isinstance(module, _BatchNorm) and (module.momentum is None or module.momentum > 0.02):
                    module.reset_running_stats()  # those of a short trial lag behind its weights
                    module.momentum = None  # a plain mean from here
            for _ in range(50):
                run(start)
            in_training = separated(start)
            net.eval()
            result.evaluated = separated(start) > min(_CARRIED, 0.5 * in_training)
    return result


def remembered(sequence: Tensor, decay: float) -> Tensor:
    """A running average of a sequence, as large as it."""
    parts = [sequence[0]]
    for x in sequence[1:]:
        parts.append(decay * parts[-1] + x)
    made = torch.stack(parts)
    return made * (sequence.std() / made.std().clamp(min=1e-30))


def _suited(net: nn.Module) -> torch.optim.Optimizer:
    trained = [p for p in net.parameters() if p.requires_grad]
    sizes = [p.detach().float().square().mean().sqrt().item() for p in trained]
    typical = sorted(size for p, size in zip(trained, sizes, strict=True) if p.ndim > 1 or len(trained) == 1)
    # Biases and numbers of neurons change as weights do: else a huge one would be corrected at once.
    middle = typical[len(typical) // 2] if typical else 1.0
    rates = [
        _STEP * max(size if p.ndim > 1 else min(size, middle), 1e-3) for p, size in zip(trained, sizes, strict=True)
    ]
    return torch.optim.Adam([{"params": [p], "lr": rate} for p, rate in zip(trained, rates, strict=True)])


@torch.no_grad()
def _separation(case: Case, out: Tensor, y: Tensor) -> float:
    """By how many standard deviations the loss is lower than with targets of other samples."""
    orders = [torch.randperm(len(y)).to(y.device) for _ in range(30)]
    value, *others = (case.cost(out, targets).item() for targets in (y, *(y[order] for order in orders)))
    spread = torch.tensor(others, dtype=torch.float64)
    return (spread.mean().item() - value) / (spread.std().item() + 1e-6 * abs(value) + 1e-30)


def optimizer_like(
    optimizer: torch.optim.Optimizer, model: nn.Module, net: nn.Module, **changed: float
) -> torch.optim.Optimizer:
    """An optimizer of the same kind at its first step, for a copy ``net`` of ``model``; ``lr`` is a factor."""
    names, parameters = {id(p): name for name, p in model.named_parameters()}, dict(net.named_parameters())
    made = copy.copy(optimizer)
    vars(made).pop("step", None)  # a scheduler puts one there that steps the original
    made.state, made.param_groups = defaultdict(dict), []
    for group in optimizer.param_groups:
        options = changed | {"lr": group["lr"] * changed.get("lr", 1.0)}
        own = [parameters[names[id(p)]] for p in group["params"] if id(p) in names]
        made.param_groups.append(group | {key: options[key] for key in options if key in group} | {"params": own})
    return made
