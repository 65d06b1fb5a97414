"""Is this model ready for an IPU? The check needs no IPU and no PopTorch; the rules are in ``poptorch_rules``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from snnkit import checks, tables
from snnkit.lab.hardware import chips
from snnkit.lab.hardware.ipu.nets import NotOneLoss, WithLoss
from snnkit.lab.hardware.ipu.poptorch_rules import RULES, Case, Finding, MemoryEstimate, compiled_module, folded


@dataclass
class Report:
    """Whether a model is ready for an IPU, as far as a check without an IPU can say."""

    findings: list[Finding]  # errors first
    rules: dict[str, str]  # for each rule "ok", "warning", "error", or "not reached" after an earlier error
    memory: MemoryEstimate | None = None  # None if it was not reached

    @property
    def ready(self) -> bool:
        """Whether no rule is broken and all were reached."""
        return all(verdict in ("ok", "warning") for verdict in self.rules.values())

    @property
    def errors(self) -> list[Finding]:
        """Problems that must be solved."""
        return [finding for finding in self.findings if finding.severity == "error"]

    def __str__(self) -> str:
        count = tables.count_of(len(self.errors), "error")
        lines = ["IPU-ready, by the rules of PopTorch 3.4" if self.ready else f"not IPU-ready: {count}"]
        lines += [str(finding) for finding in self.findings]
        lines.append(folded("rules: " + ", ".join(f"{rule}: {verdict}" for rule, verdict in self.rules.items()), 7))
        if self.memory is not None:
            lines.append(folded(f"memory: {self.memory}", 8))
        lines.append("(checked without an IPU and without PopTorch; never run on one)")
        return "\n".join(lines)

    __repr__ = __str__


@checks.arguments
def check(
    model: nn.Module,
    example: Tensor | Sequence[Tensor],
    loss: Callable[[Tensor, Tensor], Tensor] | None = None,
    *,
    device_iterations: int = 1,
    gradient_accumulation: int = 1,
    tiles: int | None = None,
) -> Report:
    """Whether PopTorch 3.4 would accept ``model`` and train it as written; if not, the reasons and the fixes.

    A copy of the model runs on the example, and without values on PyTorch's meta device, which PopTorch also uses for
    types and shapes. The rules come from PopTorch's documentation and sources; nothing here was run on an IPU. The
    compiler may still refuse a model that is ready, above all for memory.

    Args:
        model: as for ``poptorch.trainingModel``: a module from x to out, with ``loss``; or one that returns its own
            loss, such as ``WithLoss``. The state of a snnkit network, ``out, state = net(x)``, is dropped.
        example: the tensors of one call, batch first (x and y; y last). Their batch is micro-batch × device iterations
            × gradient accumulation.
        loss: ``loss(out, y)`` to a scalar; None: the model holds its loss.
        device_iterations, gradient_accumulation: as in ``poptorch.Options``.
        tiles: their number sets the memory; None: the 1472 of a GC200 or Bow. PopTorch's small IPU model has 4.

    Raises ValueError for a model that does not run here on the whole example, or can't be copied (a pruned one, say).
    """
    inputs = _inputs(model, example, loss)
    checks.integer("device_iterations", device_iterations, at_least=1)
    checks.integer("gradient_accumulation", gradient_accumulation, at_least=1)
    chip = chips.get("GC200")
    tiles = int(chip.value("tiles")) if tiles is None else checks.integer("tiles", tiles, at_least=1)
    trained = model
    if loss is not None:  # a network of snnkit returns its state as well
        stateful = "state" in inspect.signature(model.forward).parameters
        trained = WithLoss(model, (lambda result, y: loss(result[0], y)) if stateful else loss)
    chip_bytes = tiles * int(chip.value("tile_bytes"))
    micro_batches = device_iterations * gradient_accumulation
    return _checked(Case(trained, inputs, micro_batches, gradient_accumulation, chip_bytes))


def _checked(case: Case) -> Report:
    """Check the rules that can be reached."""
    findings: list[Finding] = []
    verdicts = dict.fromkeys(RULES, "not reached")
    for rule in _reached(case, verdicts):
        problems = dict.fromkeys(problem._replace(rule=rule) for problem in RULES[rule](case))
        findings += problems
        severities = {finding.severity for finding in problems}
        verdicts[rule] = "error" if "error" in severities else "warning" if severities else "ok"
    order = list(RULES)
    findings.sort(key=lambda finding: (finding.severity != "error", order.index(finding.rule)))
    return Report(findings, verdicts, case.memory if verdicts["memory"] != "not reached" else None)


def _reached(case: Case, verdicts: dict[str, str]) -> Iterator[str]:
    """The rules in an order in which no error hides another one, by the verdicts of those before."""
    if compiled_module(case.model) is not None:
        yield "static graph"
        return
    yield "batch"
    if (error := case.real.error) is not None:
        if isinstance(error, NotOneLoss):
            yield "one loss"
        elif verdicts["batch"] != "error":
            raise ValueError(f"model must run on example, but it raises {type(error).__name__}: {error}") from error
        return
    yield from ("state in place", "static graph", "supported operations")
    if case.graph.error is not None:
        return  # later parts would seem to be missing
    # State from call to call makes later calls differ from the first; made-up values may have led elsewhere.
    if not case.graph.reads and verdicts["state in place"] != "error":
        yield "same trace"
    yield from ("no autograd.Function", "one loss", "dtypes", "memory")
    if case.graph.losses:
        yield "gradients"


def _inputs(model: nn.Module, example: Tensor | Sequence[Tensor], loss: object) -> list[Tensor]:
    """The example's tensors on the CPU; raises if there are no values to compute with."""
    inputs = [example] if isinstance(example, Tensor) else example
    if not inputs:
        raise ValueError("example must hold a tensor, such as (x, y), but it is empty")
    if loss is not None and (len(inputs) != 2 or isinstance(model, WithLoss)):
        raise ValueError("loss must be None unless example is (x, y) and the model has none, but it is not")
    checks.copyable("model", model)
    checks.values("model", model)
    for i, x in enumerate(inputs):
        if x.is_meta or x.layout != torch.strided:
            raise ValueError(f"example must hold dense values, but its tensor {i} is {x.layout} on {x.device}")
    return [x.cpu() for x in inputs]
