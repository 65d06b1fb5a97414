"""Is this model ready for an IPU? Checked without one and without its software; the rules are in ``poptorch_rules``."""

from __future__ import annotations

import html
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from ... import checks
from .. import chips
from .nets import NotOneLoss, WithLoss
from .poptorch_rules import RULES, Case, MemoryEstimate, Problem, compiled_modules


@dataclass(frozen=True)
class Finding:
    """One problem.

    Attributes:
        rule: a key of ``RULES``.
        severity: "error" (PopTorch would refuse it, or train something else) or "warning".
        what: the problem.
        fix: how to solve it.
        module: the module's path and class, as in "net.1 (Leaky)"; empty if it is no single module.
        where: "file.py:12: the line itself"; empty if it is no single line.
    """

    rule: str
    severity: str
    what: str
    fix: str
    module: str = ""
    where: str = ""

    @property
    def place(self) -> str:
        """Module and line."""
        return "  ".join(part for part in (self.module, self.where) if part)

    def __str__(self) -> str:
        where = [f"    where: {self.place}"] if self.place else []
        return "\n".join([f"{self.severity}: {self.rule}: {self.what}", *where, f"    fix:   {self.fix}"])


class NotReady(ValueError):
    """A model breaks rules of an IPU; the message lists them."""


@dataclass
class Report:
    """Whether a model is ready for an IPU, as far as that can be known without one.

    Attributes:
        findings: errors first.
        rules: of each rule "ok", "warning", "error", or "not reached" because of an earlier error.
        memory: the estimate; None if it was not reached.
    """

    findings: list[Finding]
    rules: dict[str, str]
    memory: MemoryEstimate | None = field(default=None)

    @property
    def ready(self) -> bool:
        """Whether no rule is broken and all were reached."""
        return all(verdict in ("ok", "warning") for verdict in self.rules.values())

    @property
    def errors(self) -> list[Finding]:
        """Problems that must be solved."""
        return [finding for finding in self.findings if finding.severity == "error"]

    @property
    def warnings(self) -> list[Finding]:
        """Problems that should be looked at."""
        return [finding for finding in self.findings if finding.severity == "warning"]

    def raise_for_errors(self) -> None:
        """Raise ``NotReady`` with all errors, if there are any."""
        if not self.ready:
            raise NotReady(str(self))

    def __str__(self) -> str:
        count = f"{len(self.errors)} error{'s' * (len(self.errors) != 1)}"
        lines = ["IPU-ready, by the rules of PopTorch 3.4" if self.ready else f"not IPU-ready: {count}"]
        lines += [str(finding) for finding in self.findings]
        lines.append("rules: " + ", ".join(f"{rule}: {verdict}" for rule, verdict in self.rules.items()))
        if self.memory is not None:
            lines.append(f"memory: {self.memory}")
        lines.append("(checked without an IPU and without PopTorch; never run on one)")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        marks = {"ok": "✓", "warning": "!", "error": "✗", "not reached": "–"}
        rows = []
        for rule, verdict in self.rules.items():
            texts = [_cell(finding) for finding in self.findings if finding.rule == rule] or [
                html.escape(RULES[rule].asks)
            ]
            rows.append(
                f"<tr><td>{marks[verdict]}</td><td style='white-space:nowrap;text-align:left'>{rule}</td>"
                f"<td>{verdict}</td><td style='text-align:left'>{'<br>'.join(texts)}</td></tr>"
            )
        title = "IPU-ready, by the rules of PopTorch 3.4" if self.ready else "Not IPU-ready"
        memory = "" if self.memory is None else f"<p>Memory: {html.escape(str(self.memory))}</p>"
        note = "<p><small>Checked without an IPU and without PopTorch; never run on one.</small></p>"
        return f"<b>{title}</b><table>{''.join(rows)}</table>{memory}{note}"


def _cell(finding: Finding) -> str:
    where = f"<br><code>{html.escape(finding.place)}</code>" if finding.place else ""
    return f"{html.escape(finding.what)}{where}<br><i>{html.escape(finding.fix)}</i>"


def check(
    model: nn.Module,
    example: Tensor | Sequence[Tensor],
    loss: Callable[[Tensor, Tensor], Tensor] | None = None,
    *,
    device_iterations: int = 1,
    gradient_accumulation: int = 1,
    replicas: int = 1,
    loader: Any = None,
    optimizer_states: int = 2,
    chip: str = "GC200",
    tiles: int | None = None,
) -> Report:
    """Whether PopTorch 3.4 would accept ``model`` for training and train what it says; if not, why, and how to fix it.

    The model is copied and run, on the example and without values on PyTorch's meta device, which PopTorch itself uses
    for types and shapes. The rules come from its documentation and sources; nothing here was run on an IPU. A model
    that is ready may still be refused by the compiler, above all for memory.

    Args:
        model: as for ``poptorch.trainingModel``: an ``IPUNet`` or another module from x to out, with ``loss``; or one
            that returns its own loss, such as ``WithLoss``. A network of snnkit, called ``out, state = net(x)``, is
            checked with its state dropped.
        example: the tensors of one call, batch first (x and y; y last), as large as the combined batch: micro-batch ×
            device iterations × gradient accumulation × replicas.
        loss: ``loss(out, y)`` to a scalar, out being [T, B, C] for an ``IPUNet``; None: the model holds its loss.
        device_iterations, gradient_accumulation, replicas: as in ``poptorch.Options``.
        loader: the ``DataLoader`` of the batches, to be checked as well.
        optimizer_states: numbers that the optimizer stores per weight: 2 for Adam, 1 for momentum, 0 for plain SGD.
        chip: an IPU of ``hardware.chips``, whose memory counts.
        tiles: their number; None: all of the chip. PopTorch's small IPU model has 4.

    Raises:
        TypeError, ValueError: a wrong argument, or a model that does not run here on the whole example either.
    """
    inputs = _inputs(model, example, loss)
    for name, value, least in (
        ("device_iterations", device_iterations, 1),
        ("gradient_accumulation", gradient_accumulation, 1),
        ("replicas", replicas, 1),
        ("optimizer_states", optimizer_states, 0),
    ):
        checks.integer(name, value, at_least=least)
    checks.instance("loader", loader, torch.utils.data.DataLoader, "a torch.utils.data.DataLoader", optional=True)
    processor = chips.get(chip)
    if processor.kind != "ipu":
        known = " or ".join(chips.names("ipu"))
        raise ValueError(f"chip must be an IPU, {known}, but {chip} is a {processor.kind.upper()}")
    available = int(processor.value("tiles"))
    tiles = available if tiles is None else checks.integer("tiles", tiles, at_least=1)
    checks.integer(f"tiles of a {processor.name}", tiles, at_most=available)
    trained = model
    if loss is not None:  # a network of snnkit returns its state as well
        stateful = "state" in inspect.signature(model.forward).parameters
        trained = WithLoss(model, (lambda result, y: loss(result[0], y)) if stateful else loss)
    tile_memory = int(processor.value("tile_bytes"))
    case = Case(
        trained,
        inputs,
        device_iterations,
        gradient_accumulation,
        replicas,
        loader,
        optimizer_states,
        tiles,
        tile_memory,
    )
    return _checked(case)


def _checked(case: Case) -> Report:
    """Check the rules in an order in which no error hides behind an earlier one."""
    findings: list[Finding] = []
    reached: list[str] = []

    def add(rule: str, problems: Iterable[Problem]) -> bool:
        """Add the findings of a rule; whether there are errors."""
        new = [Finding(rule, p.severity, p.what, p.fix, p.place.module, p.place.where) for p in problems]
        reached.append(rule)
        findings.extend(dict.fromkeys(new))
        return any(finding.severity == "error" for finding in new)

    def apply(rule: str) -> bool:
        return add(rule, RULES[rule].problems(case))

    def report(memory: MemoryEstimate | None = None) -> Report:
        verdicts = dict.fromkeys(RULES, "not reached") | dict.fromkeys(reached, "ok")
        for severity in ("warning", "error"):
            verdicts |= {finding.rule: severity for finding in findings if finding.severity == severity}
        order = list(RULES)
        return Report(sorted(findings, key=lambda f: (f.severity != "error", order.index(f.rule))), verdicts, memory)

    if add("static graph", compiled_modules(case)):
        return report()
    reached.clear()
    batch = apply("batch")
    if (error := case.runs.real.error) is not None:
        if isinstance(error, NotOneLoss):
            apply("one loss")
        elif not batch:
            raise ValueError(f"model must run on example, but it raises {type(error).__name__}: {error}") from error
        return report()
    replaced = apply("state in place")
    apply("static graph")
    apply("supported operations")
    if case.graph.error is not None:
        return report()  # what comes after that point would be mistaken for missing
    # State that is carried on makes later calls differ from the first; made-up values may have led elsewhere.
    if not case.graph.reads and not replaced:
        apply("same trace")
    for rule in ("no autograd.Function", "one loss", "dtypes", "memory"):
        apply(rule)
    if case.losses:
        apply("gradients")
    return report(case.memory)


def _inputs(model: nn.Module, example: Any, loss: Any) -> list[Tensor]:
    """The example's tensors on the CPU; raises where there is nothing to compute with."""
    checks.instance("model", model, nn.Module, "a torch.nn.Module")
    inputs = [example] if isinstance(example, Tensor) else example
    if not isinstance(inputs, (list, tuple)) or not inputs or not all(isinstance(x, Tensor) for x in inputs):
        kinds = ", ".join(type(x).__name__ for x in inputs) if isinstance(inputs, (list, tuple)) else ""
        what = f"a {type(example).__name__}" + (f" of {kinds}" if kinds else "")
        raise TypeError(f"example must be a tensor or a tuple of tensors, such as (x, y), but it is {what}")
    checks.function("loss", loss, optional=True)
    if loss is not None and len(inputs) != 2:
        raise ValueError(f"example must be (x, y) where a loss is given, but it holds {len(inputs)} tensors")
    if loss is not None and isinstance(model, WithLoss):
        raise ValueError("loss must be None for a WithLoss, which has its own, but it is a function")
    for path, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            raise ValueError(
                f"model must be plain Python, but {path or 'it'} is TorchScript, which can't be looked into"
            )
    for path, tensor in (*model.named_parameters(), *model.named_buffers()):
        if is_lazy(tensor):
            raise ValueError(f"model must have its shapes, but {path} is lazy and has none: call the model once")
        if tensor.is_meta:
            raise ValueError(f"model must have values, but {path} is on the meta device: give it some (to_empty, load)")
    for i, x in enumerate(inputs):
        if x.is_meta:
            raise ValueError(f"example must have values, but its tensor {i} is on the meta device")
        if x.layout != torch.strided or x.is_nested:
            raise ValueError(f"example must hold dense tensors, but its tensor {i} is {x.layout}")
    return [x.cpu() for x in inputs]
