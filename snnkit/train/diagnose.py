"""Why a network does not learn: experiments on copies of it, and causes that explain what they show."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from snnkit import checks
from snnkit.data import resolve_device
from snnkit.tables import html_table, text_table
from snnkit.train import experiments
from snnkit.train.batches import pair_of
from snnkit.train.experiments import UPDATES, Answers, Case, Layer, Pass, Repeats, Trial
from snnkit.train.metrics import aligned
from snnkit.train.recipe import make_optimizer
from snnkit.train.seeding import generators_restored

# Bounds, wide ones: a network within them may still be slow to learn.
_RARE = 0.1  # share of neurons that fire, below which a layer is called silent
_SEEN = 0.01  # share of inputs that the surrogate passes on, below which it is called blind
_NARROW = 0.2  # the same, below which a wider surrogate is tried
_SHORT = 12  # steps, below which more are tried
_BEYOND = 0.2  # share of the targets beyond what spikes can give, from which that is named
_FADED = 1e-6  # gradient of a weight relative to the largest, below which it is called faded
_LARGE, _SMALL = 0.3, 2e-4  # change of the weights by one update, relative to their size
_ALIVE = 1e-7  # gradient of a weight, below which no learning rate is blamed
_FALL = 0.15  # of the loss, relative to the first
_TINY = 0.02  # largest input that is called unscaled
_SIGNAL = 0.04  # share of the variance of what encode returns, below which it is called noise


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


Findings = Iterator[Finding]


@dataclass
class Diagnosis:
    """The result of ``diagnose``; shown as a table in a notebook, and printed as text.

    Attributes:
        findings: what stops the network from learning, the likeliest cause first; empty if there is none.
        layers: numbers of each layer, in the order in which they ran.
        loss: of the batch, before any update.
        chance: what a guess costs where the loss is a cross-entropy: ln(classes); else NaN.
    """

    findings: list[Finding] = field(default_factory=list)
    layers: list[Layer] = field(default_factory=list)
    loss: float = math.nan
    chance: float = math.nan

    _HEAD = ("layer", "rate", "silent", "always", "felt", "gradient", "weights", "change")

    _NOTHING = (
        "Nothing found: in a short trial, the network learned some of these samples. If the accuracy on others stays "
        "at chance, is each class answered, are samples shuffled with their labels, and are test data prepared in "
        "the same way? Else look at the learning rate and the numbers of epochs and of samples."
    )

    def _rows(self) -> list[tuple[str, ...]]:
        def shown(value: float, form: str) -> str:
            return "" if math.isnan(value) else format(value, form)

        return [
            (
                f"{layer.name} {layer.kind}", shown(layer.rate, ".3f"), shown(layer.silent, ".0%"),
                shown(layer.always, ".0%"), shown(layer.felt, ".0%"), shown(layer.gradient, ".2g"),
                shown(layer.weight, ".2g"), shown(layer.change, ".2g"),
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

    Experiments on copies of the model: a pass forward and backward; the encoding twice; gradients between samples;
    made-up outputs, of which the loss must prefer the right ones; a trial to learn 64 samples with learning rates that
    suit the weights, and then samples that it has not seen; and one with your optimizer. Samples are learned if the
    loss is far lower than with the targets of other samples. What is wrong whatever a trial says comes first, such as
    labels out of range. Then, if the network does not learn, comes what helps: it gets what may be missing (a loss over
    all steps, a memory, inputs and targets of another scale, wider surrogates), and what lets it learn is the cause.
    Else comes what may explain it: many networks start with silent layers and learn. All this takes as long as 30 to
    1,500 updates of 64 samples. Neither the model, nor the optimizer, nor PyTorch's random numbers change.

    Args:
        model, encode, loss: as for ``fit``.
        samples, targets: a batch as for ``fit``; some hundred samples are enough.
        optimizer: tried on a copy of the model, from its first step; None: Adam with ``lr``.
        lr: of Adam.
        device: where to compute.

    Returns:
        The causes, the likeliest first, and numbers of what each layer did. "Nothing found" says that the trials
        learned something and that none of these was seen: NaN, zeros or an odd range in the data; targets out of range,
        all the same, nearly all the same, sorted, of other samples or out of reach of spikes; an encoding that hides or
        mixes the samples or loses their order in time; too few steps; a network that is linear; weights that are equal,
        not finite, not trained or not the model's; state that stays between batches or is lost between steps; layers
        that are silent, saturated or alike for all samples; a gradient that is lost, fades or explodes; a surrogate
        that is too narrow; a loss that does not depend on the output or the targets, prefers other answers or silence,
        mixes or leaves out samples, or reads steps that say nothing; batch norms that fail in evaluation mode; a memory
        that is too short; a learning rate, a weight decay or an eps that does not suit the network. Each is seen where
        it is clear.

    Raises:
        TypeError, ValueError: as ``fit``.
    """
    batch = pair_of((samples, targets), "samples, targets")
    checks.number("lr", lr, above=0)
    target = resolve_device(device)
    x = batch[0].to(target) if isinstance(batch[0], Tensor) else batch[0]
    case = Case(model, x, batch[1].to(target), encode, loss)
    with generators_restored(encode, loss, model), torch.random.fork_rng():
        torch.manual_seed(0)  # so that the same call says the same
        return _examined(case, optimizer, lr)


def _examined(case: Case, optimizer: torch.optim.Optimizer | None, lr: float) -> Diagnosis:
    """Each experiment in its turn, as far as the ones before it make sense."""
    data = [*_of_samples(case.x, case.model)]
    result = Diagnosis([*data, *_of_targets(case.y), *_of_weights(case.model, optimizer)])
    if any("NaN" in finding.what for finding in result.findings):
        return result
    encoded = experiments.encoding(case)
    one = Pass(case, encoded.first)
    result.findings += [] if data else _of_encoding(encoded, _normalises(case.model))
    problem = _of_labels(case, one.out)
    value = one.out if problem else one.backward()
    layers = one.layers()
    result.layers = [layer for layer in layers if not math.isnan(layer.weight) or not math.isnan(layer.rate)]
    result.loss = one.loss
    if problem:
        result.findings.insert(0, problem)
        return result
    result.findings += _of_graph(one, value)
    if one.out.grad is None:
        return result
    answers = experiments.answers(case, one.out)
    result.chance = _chance(case, one.out, answers)
    repeats = experiments.passes(case, encoded.first)
    result.findings += [*_of_loss(one, answers), *_of_gradient(one, layers), *_of_passes(case, layers, repeats)]
    own = functools.partial(_own, case, optimizer, lr)
    change = _first_update(one, layers, own)
    if not result.findings:
        tried = experiments.trial(case)
        if tried.moving and not tried.learned:  # it was not at its end
            tried = experiments.trial(case, updates=3 * UPDATES)
        result.findings = _of_trial(case, one, layers, answers, tried, cut=repeats.cut)
        if not result.findings and (tried.learned or change > _LARGE):
            result.findings = _of_own_trial(case, one, layers, own, change, tried)
        result.findings = result.findings or [*_of_balance(one), *_of_memorising(case, tried), *_of_order(case.y)]
    return result


def _chance(case: Case, out: Tensor, answers: Answers) -> float:
    """What a cross-entropy costs that knows nothing, which it says of an output of zeros."""
    classes = round(math.exp(min(answers.silence, 20.0))) if case.labels and not math.isnan(answers.silence) else 1
    known = classes > 1 and out.shape[-1] % classes == 0  # each may have several outputs
    return math.log(classes) if known and math.isclose(answers.silence, math.log(classes), rel_tol=1e-3) else math.nan


# --- what is wrong whatever a trial says ------------------------------------------------------------------------------


def _of_samples(x: Any, model: nn.Module) -> Findings:
    if not isinstance(x, Tensor):
        return
    if x.is_floating_point() and (bad := int((~x.isfinite()).sum())):
        yield Finding(
            f"{bad} values of samples are NaN or infinite", "samples = samples.nan_to_num(), or leave them out"
        )
        return
    low, high = (bound.item() for bound in torch.aminmax(x))
    size = max(abs(low), abs(high))
    if low == high:
        what = f"all values of samples are {low:g}" if low else "samples are all zero"
        yield Finding(what, "look at how they are loaded and scaled, e.g. print(samples[0])")
    elif len(x) > 1 and bool((x == x[:1]).all()):
        yield Finding("all samples are the same", "look at how they are loaded: print(samples[0], samples[1])")
    elif not x.is_floating_point() or _normalises(model):
        return
    elif size > 20 or size < _TINY or abs(x.mean()) > 5 * x.std(correction=0):
        yield _unscaled("samples go", x)


def _normalises(model: nn.Module) -> bool:
    """Whether its first layer is a norm."""
    return "Norm" in next((type(module).__name__ for module in model.modules() if list(module.parameters(False))), "")


def _unscaled(what: str, x: Tensor) -> Finding:
    low, high = (bound.item() for bound in torch.aminmax(x))
    return Finding(
        f"{what} from {low:.3g} to {high:.3g}, and thresholds are about 1",
        "normalise them: data.to_unit for images, else (samples - samples.mean(0)) / (samples.std(0) + 1e-6)"
        + ("; were they divided twice?" if max(abs(low), abs(high)) < 1 else ""),
    )


def _of_targets(y: Tensor) -> Findings:
    if y.is_floating_point() and not bool(y.isfinite().all()):
        yield Finding("targets hold NaN or infinity", "leave these samples out: keep = targets.isfinite()")
    elif len(y) > 1 and bool((y == y.flatten()[0]).all()):
        yield Finding(f"all targets are {y.flatten()[0].item():g}", "look at how they are loaded: print(targets[:10])")


def _of_labels(case: Case, out: Tensor) -> Finding | None:
    if not case.labels or out.ndim != 3:
        return None
    ignored = (-100, getattr(case.loss, "keywords", {}).get("ignore_index"))  # the first is PyTorch's own
    labels = [label for label in case.y.unique().tolist() if label not in ignored]
    low, high, classes = min(labels, default=0), max(labels, default=0), out.shape[2]
    if low >= 0 and high < max(classes, 2):  # a single output tells two classes apart by its sign
        return None
    return Finding(
        f"labels go from {low} to {high}, but the network has {classes} outputs, for classes 0 to {classes - 1}",
        "labels = labels - 1" if low >= 1 and high == classes else f"give the last layer {high + 1} outputs",
    )


def _of_weights(model: nn.Module, optimizer: torch.optim.Optimizer | None) -> Findings:
    if spoilt := [name for name, p in model.named_parameters() if not bool(p.isfinite().all())]:
        yield Finding(
            f"weights of {_some(spoilt)} are NaN or infinite", "make a new network, with a lower lr or clip=1"
        )
        return
    random = "initialise them at random: torch.nn.init.kaiming_uniform_(layer.weight)"
    matrices = {name: p for name, p in model.named_parameters() if p.ndim > 1}
    if zeros := [name for name, p in matrices.items() if not p.any()]:
        yield Finding(f"all weights of {_some(zeros)} are 0", random)
    trained = {name: p for name, p in matrices.items() if p.requires_grad}
    if equal := [n for n, p in trained.items() if p.numel() > 4 and p.any() and (p == p.flatten()[0]).all()]:
        yield Finding(f"all weights of {_some(equal)} are equal, so neurons stay alike", random)
    if frozen := [name for name in matrices if name not in trained]:
        yield Finding(f"{_some(frozen)} can't learn: requires_grad is False", "net.requires_grad_(True)")
    if optimizer is None:
        return
    groups = optimizer.param_groups
    held = {id(p) for group in groups for p in group["params"]}
    if left := [name for name, p in trained.items() if id(p) not in held]:
        whole = ": was it made for another network?" if len(left) == len(trained) else ""
        yield Finding(
            f"the optimizer does not hold {_some(left)}{whole}",
            "make it with net.parameters(), after the last change of the network's layers",
        )
    if any(group.get("maximize") for group in groups):
        yield Finding("the optimizer makes the loss larger: maximize is True", "leave maximize=True out")
    if all(group["lr"] == 0 for group in groups):
        yield Finding("the learning rate is 0", "is there a scheduler that begins at 0 and is never stepped?")
    decay = max(group["lr"] * (group.get("weight_decay") or 0.0) for group in groups)
    if decay > 0.01 and isinstance(optimizer, (torch.optim.AdamW, torch.optim.SGD)):
        yield Finding(
            f"weight decay shrinks the weights by {decay:.0%} in each update",
            "make weight_decay smaller: 1e-2 or less is usual",
        )


def _of_encoding(encoded: Repeats, normalised: bool) -> Findings:
    sequence, where = encoded.first, "what encode returns"
    spikes = sequence.sum().item() / max(sequence.shape[0] * sequence.shape[1], 1)
    if not bool(sequence.isfinite().all()):
        yield Finding(f"{where} holds NaN or infinity", "look at encode(samples)")
    elif not bool(sequence.any()):
        yield Finding(f"{where} is all zero: no input reaches the network", "look at encode(samples)")
    elif sequence.shape[1] > 1 and bool((sequence == sequence[:, :1]).all()):
        yield Finding(f"{where} is the same for all samples", "look at encode(samples)")
    elif encoded.fixed:
        yield Finding(f"{where} does not depend on its argument: other samples get the same", "use encode's argument")
    elif encoded.mixes:
        yield Finding(
            f"{where} mixes samples: a sample's sequence changes when others leave the batch",
            "bring time to the front with samples.transpose(0, 1); reshape and view do not swap axes",
        )
    elif not normalised and sequence.abs().max() < _TINY:
        yield _unscaled(f"{where} goes", sequence)
    elif spikes < 0.3 and bool(((sequence == 0) | (sequence == 1)).all()):
        yield Finding(
            f"the input is too weak: {where} has {spikes:.2g} spikes per step in all its channels together",
            "raise the rate of the encoding (its samples should go up to about 1), or take more steps",
        )
    elif encoded.signal < _SIGNAL:
        yield Finding(
            f"{where} is random and hardly depends on the samples: only {max(encoded.signal, 0):.1%} of its variance "
            "among samples is the same in a second call",
            "use its argument (encode.poisson(x, steps), say), with less noise",
        )
    elif len(sequence) < 2:
        yield Finding("a sequence has a single time step, so no neuron has time to integrate", "encode with more steps")


def _of_graph(one: Pass, value: Tensor) -> Findings:
    if not value.requires_grad:
        yield Finding(
            "no gradient leads from the loss to the network",
            "look for .detach(), torch.no_grad(), .item(), argmax or a comparison between the weights and the loss",
        )
    elif not math.isfinite(one.loss):
        yield Finding(
            f"the loss is {one.loss}", "look for a logarithm or a root of 0, or a division by 0 (class weights?), in it"
        )
    elif one.out.grad is None:
        yield Finding(
            "no gradient leads from the loss to the output of the network",
            "look for argmax, a comparison, .item() or .detach() in the loss",
        )
    elif one.strays and all(p.grad is None for p in one.net.parameters()):
        yield Finding(
            f"the loss depends on no parameter of the network, but on a new tensor of shape {_some(one.strays)}",
            "look for torch.tensor(…), .detach(), .data or .numpy() between the parameters and what forward returns",
        )
    elif one.strays:
        yield Finding(
            f"the loss depends on tensors that are no parameters of the network, of shapes {_some(one.strays)}: no "
            "optimizer gets them",
            "keep layers in torch.nn.ModuleList or ModuleDict, not in a Python list or dict, and tensors as Parameter",
        )


def _of_loss(one: Pass, answers: Answers) -> Findings:
    goal = aligned(one.case.y, one.out)
    right, wrong, silence = answers.right, answers.wrong, answers.silence
    if answers.constant:
        yield Finding("the loss does not depend on the output: it is the same for all", "use a loss of snnkit.loss")
    elif answers.unlabelled:
        yield Finding(
            "the loss does not depend on the targets: it is the same for others", "compare out with y: see snnkit.loss"
        )
    elif answers.unpaired and not bool((goal == goal.flatten()[0]).all()):
        yield Finding(
            "the loss does not depend on which target belongs to which sample: it is the same if they are permuted",
            "is there a mean over the batch, axis 1 of out [T, B, C], in place of time, axis 0? Or do shapes broadcast "
            "([B, 1] against [B]), so that each output is compared with all targets?",
        )
    elif answers.mixed:
        yield Finding(
            "the loss compares outputs with targets of other samples: it changes if both come in another order",
            "are the axes of out [T, B, C] in order (permute or transpose, not reshape or view)?",
        )
    elif answers.ignored > 0.8:
        yield Finding(
            f"the loss does not depend on {answers.ignored:.0%} of the samples",
            "look for class weights of 0, a mask or ignore_index in it",
        )
    elif right - wrong > 1e-3 * abs(right):
        yield Finding(
            "the loss rises when the right class has more output: training moves away from the answer",
            "turn its sign, or use a loss of snnkit.loss",
        )
    elif right < -1e-3:
        yield Finding(
            f"the loss falls below 0 ({right:.3g}), which the cost of a class can't",
            "give nll_loss log-probabilities, out.sum(0).log_softmax(1), or use F.cross_entropy",
        )
    elif silence < right and silence <= one.loss:
        yield Finding(
            f"a penalty in the loss outweighs the task: an output without spikes costs {silence:.3g}, one that names "
            f"the right class at least {right:.3g}",
            f"divide the weight of the penalty by {_round_up(10 * right / max(silence, 1e-6))}",
        )
    elif math.isclose(answers.sharp, math.log(math.e + one.out.shape[-1] - 1) - 1, rel_tol=0.01):
        yield Finding(
            f"a softmax or sigmoid comes before the cross-entropy, which has a softmax itself: beyond doubt, the right "
            f"class still costs {answers.sharp:.3g}, so gradients are small",
            "leave it out, in the network and in the loss",
        )
    if goal.is_floating_point():
        yield from _of_bounds(one, goal)
    yield from _of_steps(one.out, list(answers.steps))


def _of_bounds(one: Pass, goal: Tensor) -> Findings:
    """Targets that spikes can't reach: at a bound of the output, the loss still leads beyond it."""
    if not bool(((one.out == 0) | (one.out == 1)).all()):
        return
    for bound, sign, words in ((1.0, -1, "fires at every step already, and the loss asks for more"),
                               (0.0, 1, "never fires, and the loss asks for less")):  # fmt: skip
        extreme = torch.full_like(one.out, bound).requires_grad_()
        with torch.enable_grad():
            value = one.case.cost(extreme, one.case.y)
        (slope,) = torch.autograd.grad(value, extreme, allow_unused=True) if value.requires_grad else (None,)
        beyond = bool(goal.min() < 0) if bound == 0 else bool(goal.max() > 1)
        most = _BEYOND if beyond else experiments.ALWAYS
        if slope is not None and slope.any() and (sign * slope[slope != 0] > 0).float().mean() > most:
            yield Finding(
                f"targets, which go from {goal.min():.3g} to {goal.max():.3g}, are out of reach of an output of "
                f"spikes, 0 or 1 at each step: it {words}",
                "end with a neuron.Readout or another layer that does not spike, or scale the targets to [0, 1]",
            )


def _of_steps(out: Tensor, read: list[int]) -> Findings:
    if not read or len(read) == len(out) or len(out) < 4:
        return
    if read[-1] < len(out) / 4:
        yield Finding(
            f"the loss depends only on {_named(read)} of {len(out)}, before the network has seen most of its input",
            "let it read all steps (out.sum(0), a loss of snnkit.loss) or the last one (out[-1])",
        )


def _named(steps: list[int]) -> str:
    return f"step {steps[0]}" if len(steps) == 1 else f"steps {steps[0]} to {steps[-1]}"


def _of_gradient(one: Pass, layers: list[Layer]) -> Findings:
    for layer in layers:
        if layer.blocked and layer.spiking:
            yield Finding(
                f"no gradient passes through the spikes of {layer.kind} {layer.name!r}: it is exactly 0 for all "
                "inputs, with any surrogate",
                "make spikes by self.spike(v - threshold) in its step, not by a comparison such as (v > 1).float()",
            )
            return
        if layer.blocked:
            yield (
                _merged(layer)
                if layer.merged
                else Finding(
                    f"no gradient passes through {layer.kind} {layer.name!r}: it is 0 for all its inputs",
                    "is a ReLU dead, with a bias far below 0 before it (then set the bias to 0), or are its weights "
                    "rounded to 0?",
                )
            )
            return
    norms = _norms(one.net)
    felt = all(layer.felt > _SEEN for layer in layers if layer.spiking)
    cut = {layer.name for layer in layers if layer.gradient == 0 and felt}
    if spoilt := [name for name, norm in norms.items() if norm is not None and not math.isfinite(norm)]:
        yield Finding(
            f"the gradient of {_some(spoilt)} is NaN or infinite",
            "does it explode through time (recurrent weights too large)? Or is there a root or logarithm of 0, or a "
            "division by 0, in loss and forward?",
        )
    elif lost := [name for name, norm in norms.items() if norm is None or name.rpartition(".")[0] in cut]:
        yield Finding(
            f"no gradient reaches {_some(lost)}",
            "look for .detach(), torch.no_grad(), round or a comparison after it in forward; or is it not used?",
        )


def _norms(net: nn.Module) -> dict[str, float | None]:
    """Of the gradients of weights; None where there is none."""
    trained = {name: p for name, p in net.named_parameters() if p.requires_grad and p.ndim > 1}
    return {name: None if p.grad is None else p.grad.float().norm().item() for name, p in trained.items()}


def _of_passes(case: Case, layers: list[Layer], repeats: Repeats) -> Findings:
    if repeats.signal < 1:
        yield Finding(
            "two passes with the same input give different outputs: the model keeps state from one batch to the next",
            "start each batch with state None, as net(x) does: store no state in the module, or reset it",
        )
    elif repeats.mixes:
        yield Finding(
            "the network mixes samples: the output of a sample changes when others leave the batch",
            "is there a softmax, a norm or a reshape over the batch, or a transpose that takes it for time? It is axis "
            "1 of [T, B, ...], and 0 inside a layer",
        )
    if again := [layer.name for layer in layers if layer.restarts]:
        yield Finding(
            f"the state of {_some(again)} is lost: it begins at rest in each of the steps, so nothing is integrated",
            "start with state = None before the loop over time, and hand on: out, state = layer(x[t : t + 1], state)",
        )
    for name, module in case.model.named_modules():
        if isinstance(module, _DropoutNd) and module.p > 1 - _RARE:
            yield Finding(
                f"{name} drops {100 * module.p:g} % of its input", "p is the share that is dropped: try p=0.2"
            )


# --- what explains that a trial fails ---------------------------------------------------------------------------------


def _of_trial(
    case: Case, one: Pass, layers: list[Layer], answers: Answers, tried: Trial, *, cut: bool
) -> list[Finding]:
    """Causes, if the network does not learn even with learning rates that suit it, or only by heart.

    ``cut``: no gradient leads back to earlier inputs.
    """
    learned = tried.learned and tried.carried
    if not learned or _has_weights_without_gradient(one, layers):
        if cut and any(layer.lasts > 1.5 for layer in layers):
            what = "no gradient leads back in time: the output depends on earlier inputs, and has no gradient to them"
            return [Finding(what, "don't detach the state in the loop over time (only between batches, if at all)")]
        for other, cause in _of_changes(case, one, layers, answers) if not learned else ():
            trial = experiments.trial(other)
            if trial.learned and trial.carried:
                return [cause]
    causes = []
    if not tried.named and math.isclose(answers.right, answers.wrong, rel_tol=1e-3):
        what = "the loss does not prefer the right class: an output that names it costs as much as one of another class"
        advice = (
            "is the class taken for a number (MSE against y.float()), is there a sum over classes, axis 2 of out "
            "[T, B, C], in place of time, axis 0, or a reshape in place of a permute? Use a loss of snnkit.loss"
        )
        causes.append(Finding(what, advice))
    if not tried.learned:
        if experiments.is_linear(case, one.sequence):
            what = (
                "the network is linear: nothing spikes between its layers, so it computes a weighted sum of its inputs"
            )
            causes.append(
                Finding(what, "put a spiking neuron after each layer but the last, such as neuron.Leaky(0.9)")
            )
        causes += [_merged(layer) for layer in layers if layer.merged and not layer.spiking][:1]
        causes += _of_activity(layers, len(one.out))
        causes = causes or [*_of_fading(one, layers)]
    elif not tried.evaluated:
        what = "what the network learns is lost in evaluation mode: running statistics of its batch norms do not follow"
        causes.append(Finding(what, "leave momentum at 0.1 (the weight of a new batch), and train in train() mode"))
    else:
        causes += _of_saturation(layers)
    if learned:
        return causes
    counts = case.y.clamp(min=0).flatten().bincount() if case.labels and one.out.ndim == 3 else torch.zeros(1)
    if counts.max() > 0.9 * case.y.numel():
        return [*causes, _unbalanced(counts)]
    if causes or (tried.moving and not tried.learned):  # it was not at its end
        return causes
    return [_unexplained(tried, [case.x, one.sequence.transpose(0, 1)])]


def _has_weights_without_gradient(one: Pass, layers: list[Layer]) -> bool:
    """Whether the gradient of some weights is 0, although their layer has inputs, and a gradient at its output."""
    norms = _norms(one.net)
    return any(norms.get(f"{layer.name}.weight", 1) == 0 and layer.gradient > 0 and layer.drive > 0 for layer in layers)


def _of_balance(one: Pass) -> Findings:
    """Nearly all labels are the same, and the others have hardly a part in the gradient."""
    y = one.case.y
    if not one.case.labels or y.ndim != 1 or one.out.ndim != 3 or one.out.grad is None:
        return
    counts = y.clamp(min=0).bincount()
    gradient = one.out.grad.float().transpose(0, 1).flatten(1).norm(dim=1)  # of each sample
    if counts.max() > 0.95 * len(y) and gradient[y != counts.argmax()].sum() < 0.1 * gradient.sum():
        yield _unbalanced(counts)


def _of_memorising(case: Case, tried: Trial) -> Findings:
    """A trained network may know its samples by heart: with new weights, it shows whether they can be learned."""
    renewed = experiments.renewed(case.model) if tried.began > 2 else None
    if renewed is not None:
        again = experiments.trial(dataclasses.replace(case, model=renewed))
        if again.learned and not again.carried:
            yield _unexplained(again, [case.x])


def _of_order(y: Tensor) -> Findings:
    if not y.is_floating_point() and y.ndim == 1 and len(y) > 31 and bool((y.diff() >= 0).all()):
        yield Finding(
            "samples are sorted by label: without shuffling, each batch has one class, and the others are forgotten",
            "shuffle them in each epoch, as fit does: DataLoader(..., shuffle=True)",
        )


def _unbalanced(counts: Tensor) -> Finding:
    return Finding(
        f"{counts.max() / counts.sum():.0%} of the labels are {int(counts.argmax())}, so a network that answers this "
        "for all samples is nearly right",
        "weight=loss.class_weights(labels) in the loss, or more samples of the others; and look at each class apart",
    )


def _of_changes(case: Case, one: Pass, layers: list[Layer], answers: Answers) -> Iterator[tuple[Case, Finding]]:
    """Other cases, each with the cause if the network learns in it."""
    steps, read = len(one.out), list(answers.steps)
    yield from _of_scales(case, one.sequence)
    if read and len(read) < steps:
        yield (
            dataclasses.replace(case, loss=lambda out, y: case.loss(out.sum(0, keepdim=True).expand_as(out), y)),
            Finding(
                f"the loss reads only {_named(read)} of {steps}, and what tells the samples apart comes at others: "
                "with the sum over all steps in their place, the network learns",
                "let it read all steps: out.sum(0), or a loss of snnkit.loss",
            ),
        )
    yield from _of_time(case, one.sequence)
    narrow = [layer for layer in layers if layer.spiking and layer.felt < _NARROW]
    if any(layer.silent < 1 or layer.reach > 0.3 for layer in narrow):
        worst = min(narrow, key=lambda layer: layer.felt)
        yield dataclasses.replace(case, model=experiments.widened(case.model)), _blind(worst)
    memory = [layer.memory for layer in layers if layer.spiking] or [math.nan]
    if all(it < steps / 4 for it in memory) and bool((one.sequence != one.sequence[:1]).any()):
        for decay in (1 - 2 / steps, 0.5):
            averaged = functools.partial(experiments.remembered, decay=decay)
            yield (
                dataclasses.replace(case, encode=lambda x, f=averaged: f(case.encoded(x))),
                Finding(
                    f"no layer remembers: spiking neurons forget their input after {max(memory):.0f} of {steps} steps; "
                    "with a running average as input, the network learns",
                    "take longer time constants (a larger tau or beta) or nn.Recurrent",
                ),
            )


def _of_time(case: Case, sequence: Tensor) -> Iterator[tuple[Case, Finding]]:
    """The samples' own time in place of what ``encode`` makes of it, and more time."""
    x, steps = case.x, len(sequence)
    if case.encode and isinstance(x, Tensor) and x.ndim > 2 and x.shape[1] > 1 and x.shape[2:] == sequence.shape[2:]:
        yield (
            dataclasses.replace(case, encode=None),
            Finding(
                "encode loses what tells the samples apart: with the samples themselves as the sequence, the network "
                "learns",
                "encode=None, if axis 1 of samples is time; a mean or a sum over time loses its order",
            ),
        )
    if steps < _SHORT and case.y.ndim == 1:
        times = -(-2 * _SHORT // steps)
        yield (
            dataclasses.replace(case, encode=lambda x: case.encoded(x).repeat_interleave(times, 0)),
            Finding(
                f"{steps} time steps are too few to charge one layer of neurons after the other: with {times * steps}, "
                "the network learns",
                f"encode with more steps ({times * steps}, say), or take shorter time constants",
            ),
        )


def _of_scales(case: Case, sequence: Tensor) -> Iterator[tuple[Case, Finding]]:
    y, size = case.y, sequence.abs().max()
    if y.is_floating_point() and y.abs().max() > 5:
        yield (
            dataclasses.replace(case, y=(y - y.mean(0)) / y.std(0, correction=0).clamp(min=1e-6)),
            Finding(
                f"targets go from {y.min():.3g} to {y.max():.3g}, far beyond what the network's output can follow",
                "scale them: targets = (targets - targets.mean(0)) / targets.std(0), and back in what you report",
            ),
        )
    if size < 0.1 or size > 10:
        scaled = dataclasses.replace(case, encode=lambda x: case.encoded(x) / size)
        yield scaled, _unscaled("the network's inputs go", sequence)


def _merged(layer: Layer) -> Finding:
    return Finding(
        f"from {layer.kind} {layer.name!r} on, all samples give the same output",
        "does it normalise over a single value or the wrong axis, are its weights 0, or is it a dead ReLU, with a bias "
        "far below 0 before it?",
    )


def _of_activity(layers: list[Layer], steps: int) -> Findings:
    yield from _of_saturation(layers)
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
        else:
            yield _silence(layers[i], _weights_before(layers, i), steps)


def _weights_before(layers: list[Layer], i: int) -> list[Layer]:
    """Those between the neurons of layer i and the ones before."""
    since = max((k + 1 for k in range(i) if not math.isnan(layers[k].rate)), default=0)
    return [layer for layer in layers[since:i] if layer.weight > 0]


def _silence(layer: Layer, before: list[Layer], steps: int) -> Finding:
    """Names what is furthest from usual: the time constant, the bias, the threshold, the weights or the input."""
    what = f"{layer.kind} {layer.name!r} is silent"
    if layer.lasts > 3 * steps:
        return Finding(
            f"{what}, as its membrane charges too slowly: its time constant is {layer.lasts:.3g} steps, and the "
            f"sequence has {steps}",
            "make the time constant shorter (are its units right, or is its inverse wanted?), or take more steps",
        )
    what += f": {layer.silent:.0%} of its neurons never fire"
    if layer.membrane > -math.inf:
        what += f"; the largest membrane is {layer.membrane:.2g}, the threshold {layer.threshold:.3g}"
    times, lower = _round_up(2 / layer.reach) if layer.reach > 1e-6 else "3", "divide its threshold by {}"
    if abs(layer.rest) > 0.1 * layer.gap:
        what += f", and at rest it is {layer.rest:.3g}"
        lower = "bring threshold and reset nearer together (v_threshold=1 and v_reset=0 suit inputs of about 1)"
    lower, longer = lower.format(times), f"let more time pass (steps, now {steps})"
    if not before:
        return Finding(what, f"{lower}, {longer}, or make its input larger")
    first = before[0]
    larger = f"make the weights of {first.name!r} larger (layer.weight.data *= {times})"
    if first.bias < -0.5 * layer.gap:
        return Finding(f"{what}. The bias of {first.name!r} is {first.bias:.3g} on average", "set it to 0")
    odd = {"threshold": layer.gap, "weights": first.usual / first.weight, "input": 0.3 / max(first.drive, 1e-30)}
    reason = max(odd, key=odd.__getitem__)
    if reason == "input" and odd[reason] > 3:
        what += f". The input of {first.name!r} is weak: the root of its mean square is {first.drive:.2g}"
        return Finding(what, f"make that input {times} times larger, or {larger[5:]}")
    if reason == "weights" and odd[reason] > 3:
        return Finding(f"{what}. The weights of {first.name!r} are {odd[reason]:.2g} times smaller than usual", larger)
    return Finding(what, f"{longer}, {lower}, or {larger}" if steps < 5 else f"{lower}, {longer}, or {larger}")


def _of_saturation(layers: list[Layer]) -> Findings:
    for i, layer in enumerate(layers):
        what = f"{layer.kind} {layer.name!r}"
        if layer.always > 1 - _RARE:
            what += f" is saturated: {layer.always:.0%} of its neurons fire nearly always"
            advice = "raise its threshold, or make its input or the weights before it smaller (layer.weight.data /= 3)"
            for before in _weights_before(layers, i):
                if before.positive > 0.99:
                    what += f", as all weights of {before.name!r} are above 0"
                    advice = "initialise them around 0: torch.nn.init.kaiming_uniform_(layer.weight)"
                if before.bias > max(1, before.weight * before.drive):
                    what += f", by the bias of {before.name!r}, which is {before.bias:.3g} on average"
                    advice = "set the bias to 0: torch.nn.init.zeros_(layer.bias)"
            yield Finding(what, advice)
            return
        if layer.latched > experiments.ALWAYS and layer.rate > 0.3:
            what += " never pauses: once over the threshold, it fires at each step"
            yield Finding(what, 'does it reset (reset_mechanism="subtract")? Else make its input smaller')
            return


def _of_fading(one: Pass, layers: list[Layer]) -> Findings:
    known = {name: norm for name, norm in _norms(one.net).items() if norm is not None}
    largest = max(known.values(), default=0.0)
    yield from [_blind(layer) for layer in layers if layer.spiking and layer.felt < _SEEN][:1]
    yield from _of_explosion(one)
    if faded := [name for name, norm in known.items() if norm <= _FADED * largest]:
        yield Finding(
            "no weight gets any gradient" if largest == 0 else f"the gradient has faded at {_some(faded)}",
            "look at the column `gradient` of the table: where does it become small?",
        )


def _of_explosion(one: Pass) -> Findings:
    largest = max((norm for norm in _norms(one.net).values() if norm is not None), default=0.0)
    if largest > 1e4:
        yield Finding(
            f"gradients explode: the largest has the norm {largest:.1e}",
            "set clip=1, make (recurrent) weights smaller, or the sequences shorter",
        )


def _blind(layer: Layer) -> Finding:
    return Finding(
        f"{layer.kind} {layer.name!r} passes the gradient on for only {layer.felt:.1%} of its inputs: its surrogate is "
        "nearly 0 at these membranes",
        "take a wider surrogate (surrogate.ATan(2.0), say), or scale its input so that membranes come near threshold",
    )


def _unexplained(tried: Trial, inputs: list[Any]) -> Finding:
    what, do = "", ""
    for x in inputs:
        if isinstance(x, Tensor) and len(x) > 7 and x[0].numel() > 3 and len(x.unique()) > 20:
            each = x.float().flatten(1)
            for words, numbers in (
                ("mean and standard deviation", [each.mean(1), each.std(1)]),
                ("largest value", [each.amax(1)]),
                ("norm", [each.norm(dim=1)]),
            ):
                if not what and all(number.std() < 1e-3 * each.std() for number in numbers):
                    what = f". Each sample was scaled on its own: all have the same {words}, so their size is lost"
                    do = "if size tells the classes apart, scale by numbers of the whole training set. Else: "
    if tried.learned:
        return Finding(
            f"the network memorises samples, but what it learned says nothing about samples that it has not seen{what}",
            f"{do}do labels belong to their samples (shuffled or shifted apart)? Are the axes in order (transpose, not "
            "reshape)? Is what tells the classes apart in the input at all? Else give more samples",
        )
    least = min(tried.losses, default=math.inf)
    if tried.first - least > _FALL * abs(tried.first):
        return Finding(
            f"the loss falls from {tried.first:.3g} to {least:.3g}, but the outputs of different samples do not come "
            f"nearer to their own targets{what}",
            f"{do}does the loss compare each output with the target of its own sample? Does the network lose what "
            "tells the samples apart (pooling, dropout)?",
        )
    return Finding(
        f"no learning rate lowers the loss of a single batch, but none of the known causes was seen{what}",
        f"{do}try a smaller network, other neurons or a loss of snnkit.loss, one after the other",
    )


# --- what explains that only the user's optimizer fails ---------------------------------------------------------------


def _own(
    case: Case, optimizer: torch.optim.Optimizer | None, rate: float, net: nn.Module, **changed: float
) -> torch.optim.Optimizer:
    """The user's optimizer, for a copy of the model; ``lr`` in ``changed`` is a factor."""
    if optimizer is None:
        return make_optimizer("adam", net, rate * changed.get("lr", 1.0), fused=False)
    return experiments.optimizer_like(optimizer, case.model, net, **changed)


def _first_update(one: Pass, layers: list[Layer], own: Callable[..., torch.optim.Optimizer]) -> float:
    """The largest change of weights by the first step, relative to their size, noted in each layer; 0 without any."""
    matrices = {name: p for name, p in one.net.named_parameters() if p.ndim > 1 and p.grad is not None and p.any()}
    before = {name: p.detach().clone() for name, p in matrices.items()}
    optimizer = own(one.net)
    optimizer.step()
    momentum = max(group.get("momentum", 0.0) for group in optimizer.param_groups)
    by_name, changes = {layer.name: layer for layer in layers}, [0.0]
    for name, p in matrices.items():
        change = ((p.detach() - before[name]).float().norm() / before[name].float().norm()).item()
        if layer := by_name.get(name.rpartition(".")[0] or "model"):
            layer.change = change
        if p.grad is not None and p.grad.abs().max() > _ALIVE:
            changes.append(change / (1 - min(momentum, 0.99)))  # updates add up
    return max(changes)


def _of_own_trial(
    case: Case, one: Pass, layers: list[Layer], own: Callable[..., torch.optim.Optimizer], change: float, tried: Trial
) -> list[Finding]:
    """Causes, if it learns with learning rates that suit it, but not, or far slower, with the user's."""
    if change > _LARGE:
        too_high = Finding(
            f"the learning rate is too high: one update changes weights by {change:.0%} of their size",
            f"divide lr by {10 ** math.ceil(math.log10(change / 0.03))}",
        )
        return [] if tried.learned and experiments.trial(case, own).fell(0.25) else [too_high]
    if tried.at_first:  # a trained network may rest
        return []
    theirs = experiments.trial(case, own, updates=UPDATES if change < _SMALL else 3 * UPDATES)
    if theirs.fell(0.4):
        return []
    for other, cause in _of_scales(case, one.sequence):
        if experiments.trial(other, own, updates=3 * UPDATES).fell(0.4):
            return [cause]
    if theirs.last > 1.5 * theirs.first > 0:
        what = f"the learning rate is too high: with it, the loss rises from {theirs.first:.3g} to {theirs.last:.3g}"
        return [Finding(what, "divide lr by 100, then look for the largest that works")]

    def better(share: float = 1.4, **changed: float) -> Trial | None:
        """A trial with another setting, if it gets further in a third of the updates."""
        other = experiments.trial(case, functools.partial(own, **changed))
        return other if other.learned and other.first - other.last > share * (theirs.first - theirs.last) else None

    group = max(own(one.net).param_groups, key=lambda group: group.get("weight_decay") or 0.0)
    for name, usual, most in (("weight_decay", 0.0, 0.05), ("eps", 1e-8, 1e-4)):
        value = group.get(name)
        if isinstance(value, (int, float)) and value > most and better(**{name: usual}):
            what = f"{name}={value:g} of the optimizer is too large: with {usual:g} the loss falls faster"
            return [Finding(what, f"make {name} smaller ({most / 5:g} or less)")]
    if not any(_norms(one.net).values()):
        what = "the gradients of all weights are 0, so no update changes them"
        return [Finding(what, "look for round, sign or a comparison of weights or membranes, which have no slope")]
    if change < _SMALL:
        too_low = Finding(
            f"the learning rate is too low: one update changes no weight by more than {change:.1e} of its size",
            f"multiply lr by {10 ** min(max(math.floor(math.log10(1e-2 / max(change, 1e-30))), 1), 9)}",
        )
        return [too_low, *_of_activity(layers, len(one.out))]
    biased = any(
        layer.silent > 0.5 and before.bias < -0.5 * layer.gap
        for i, layer in enumerate(layers)
        for before in _weights_before(layers, i)[:1]
    )
    causes = [] if theirs.learned and not biased else [*_of_activity(layers, len(one.out))]
    for factor, word in ((0.1, "high"),) if causes else ((10.0, "low"), (0.1, "high")):
        if other := better(lr=factor):
            what = f"the learning rate is too {word}: in {len(theirs.losses)} updates the loss went from "
            what += (
                f"{theirs.first:.3g} to {theirs.last:.3g}, and in {len(other.losses)} with {factor:g} times the rate "
            )
            return [Finding(f"{what}to {other.last:.3g}", f"multiply lr by {factor:g}")]
    return causes or [*_of_explosion(one)]


def _round_up(value: float) -> str:
    """To one digit, as a factor is written: 2, 30, 400."""
    unit = 10 ** math.floor(math.log10(max(value, 1.0)))
    return f"{math.ceil(value / unit) * unit:g}"


def _some(names: list[Any]) -> str:
    return ", ".join(map(str, names[:3])) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
