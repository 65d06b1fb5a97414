"""Is this model fit for an IPU? Ten rules, checked without one and without its software."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from .. import chips
from . import rules_data, rules_graph, rules_training
from .losses import NotOneLoss, WithLoss
from .report import RULES, Finding, MemoryEstimate, Report
from .runs import Runs, run

__all__ = ["check"]


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
    """Whether PopTorch 3.4 would take ``model`` for training and train what it says; where not, why and what to do.

    The model is copied and run, on the example and without values on PyTorch's meta device, which is what PopTorch
    itself asks for types and shapes. Its rules are known from its documentation and sources; nothing
    here was run on an IPU. A model that is ready may still be refused by the compiler, above all for memory.

    Args:
        model: as it would be given to ``poptorch.trainingModel``: an ``IPUNet`` or another module from x to out, with
            ``loss``; or one that returns its own loss, such as ``WithLoss``. A network of snnkit, called ``out, state =
            net(x)``, is taken with its state dropped.
        example: the tensors of one call, batch first (x and y; y last), as large as the combined batch: micro-batch ×
            device iterations × gradient accumulation × replicas.
        loss: ``loss(out, y)`` to a scalar, out being [T, B, C] for an ``IPUNet``; None: the model holds its loss.
        device_iterations, gradient_accumulation, replicas: as in ``poptorch.Options``.
        loader: the ``DataLoader`` that the batches come from, to be checked as well.
        optimizer_states: numbers that the optimiser keeps per weight: 2 for Adam, 1 for momentum, 0 for plain SGD.
        chip: an IPU of ``hardware.chips``, whose memory counts.
        tiles: how many tiles of it there are; None: all. PopTorch's small IPU model has 4.

    Returns:
        A report that prints: ``ready``, the findings (what, where, how to mend it), the memory.

    Raises:
        TypeError, ValueError: of the arguments of this function. A model that runs nowhere, not even here on the whole
            example: ValueError with what it said.
    """
    inputs = _checked(model, example, loss)
    for name, value, least in (
        ("device_iterations", device_iterations, 1),
        ("gradient_accumulation", gradient_accumulation, 1),
        ("replicas", replicas, 1),
        ("optimizer_states", optimizer_states, 0),
        ("tiles", 1 if tiles is None else tiles, 1),
    ):
        _whole(name, value, least)
    if loader is not None and not isinstance(loader, torch.utils.data.DataLoader):
        raise TypeError(f"loader must be a torch.utils.data.DataLoader or None, but it is a {type(loader).__name__}")
    processor = chips.get(chip)
    if processor.kind != "ipu":
        known = " or ".join(chips.names("ipu"))
        raise ValueError(f"chip must be an IPU, {known}, but {chip} is a {processor.kind.upper()}")
    if tiles is not None and tiles > processor.value("tiles"):
        raise ValueError(
            f"tiles of a {processor.name} must be at most {processor.value('tiles'):.0f}, but it is {tiles}"
        )
    compiled = [path for path, module in model.named_modules() if _is_compiled(module)]
    if compiled:
        what = f"{compiled[0] or 'model'} is compiled by torch.compile, which PopTorch does not support"
        return _report([Finding("static graph", "error", what, "give the module itself, before torch.compile")], ())
    trained = model if loss is None else WithLoss(model, _of_output(model, loss))
    micro_batches = device_iterations * gradient_accumulation * replicas
    findings = rules_data.batch(inputs, micro_batches, loader)
    micro = inputs
    if not any(f.severity == "error" and f.what.startswith(("a batch", "input", "the inputs")) for f in findings):
        micro = [x[: x.shape[0] // micro_batches] for x in inputs]
    runs = run(trained, micro)
    error = runs.real.error
    if error is not None and micro_batches > 1 and run(trained, inputs).real.error is None:
        findings.append(rules_data.hard_coded_batch(runs, inputs[0].shape[0], micro[0].shape[0]))
        return _report(findings, ("batch",))
    if isinstance(error, NotOneLoss):
        findings.append(Finding("one loss", "error", str(error), "return one scalar tensor, such as the sum"))
        return _report(findings, ("batch", "one loss"))
    if error is not None:
        raise ValueError(f"model can't be run on example, even here: {type(error).__name__}: {error}") from error
    reached, found, memory = _all_rules(
        runs,
        optimizer_states=optimizer_states,
        gradient_accumulation=gradient_accumulation,
        tiles=int(processor.value("tiles")) if tiles is None else tiles,
        tile_memory=int(processor.value("tile_bytes")),
    )
    return _report(findings + found, ("batch", *reached), memory)


def _all_rules(runs: Runs, **chip: int) -> tuple[tuple[str, ...], list[Finding], MemoryEstimate | None]:
    """The rules that could be asked, what they found, and the memory."""
    found = rules_training.state_in_place(runs) + rules_graph.static_graph(runs)
    found += rules_graph.supported_operations(runs)
    reached = ["state in place", "static graph", "supported operations"]
    if runs.graph.error is not None:
        return tuple(reached), found, None  # what lies behind that point would be mistaken for what is missing
    functions = rules_training.no_functions(runs)
    # State that is carried on makes later calls other than the first; made-up values may have led elsewhere.
    if runs.graph.finished and not any(f.severity == "error" for f in found if f.rule == "state in place"):
        found += rules_graph.same_trace(runs)
        reached.append("same trace")
    found += functions + rules_training.one_loss(runs) + rules_data.dtypes(runs)
    reached += ["one loss", "no autograd.Function", "dtypes", "memory"]
    if rules_training.final_losses(runs.graph):
        found += rules_training.gradients(runs, without_functions=not functions)
        reached.append("gradients")
    memory, crowded = rules_data.memory(runs, **chip)
    return tuple(reached), found + crowded, memory


def _report(findings: list[Finding], reached: tuple[str, ...], memory: MemoryEstimate | None = None) -> Report:
    worst = {}
    for finding in findings:
        worst[finding.rule] = "error" if "error" in (finding.severity, worst.get(finding.rule)) else "warning"
    rules = {rule: worst.get(rule, "ok" if rule in reached else "not reached") for rule in RULES}
    order = list(RULES)
    ordered = sorted(findings, key=lambda f: (f.severity != "error", order.index(f.rule)))
    return Report(ordered, rules, memory)


def _of_output(model: nn.Module, loss: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Any, Tensor], Tensor]:
    """``loss``; for a network of snnkit, which returns its state as well, of its output alone."""
    # As nn.is_stateful, which needs a newer PyTorch than PopTorch runs with.
    stateful = "state" in inspect.signature(model.forward).parameters
    return (lambda result, y: loss(result[0], y)) if stateful else loss


def _checked(model: nn.Module, example: Any, loss: Any) -> list[Tensor]:
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, but it is a {type(model).__name__}")
    inputs = [example] if isinstance(example, Tensor) else example
    if not isinstance(inputs, (list, tuple)) or not inputs or not all(isinstance(x, Tensor) for x in inputs):
        raise TypeError(f"example must be a tensor or a tuple of tensors, such as (x, y), but it is {_kind(example)}")
    if loss is not None and not callable(loss):
        raise TypeError(f"loss must be a function of (out, y), or None, but it is a {type(loss).__name__}")
    if loss is not None and len(inputs) != 2:
        raise ValueError(f"example must be (x, y) where a loss is given, but it holds {len(inputs)} tensors")
    if loss is not None and isinstance(model, WithLoss):
        raise ValueError("loss must be None for a WithLoss, which has its own")
    _check_values(model, list(inputs))
    return [x.cpu() for x in inputs]


def _check_values(model: nn.Module, inputs: list[Tensor]) -> None:
    """ValueError where there is nothing to compute with: lazy parameters, tensors on the meta device, sparse ones."""
    for path, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            raise ValueError(
                f"model must be plain Python, but {path or 'it'} is TorchScript, which can't be looked into: give the "
                "module that it was made of"
            )
    for path, tensor in (*model.named_parameters(), *model.named_buffers()):
        if is_lazy(tensor):
            raise ValueError(f"model has no shape for {path} yet: call it once, so that its lazy layers are made")
        if tensor.is_meta:
            raise ValueError(f"model must have values, but {path} is on the meta device: give it some (to_empty, load)")
    for i, x in enumerate(inputs):
        if x.is_meta:
            raise ValueError(f"example must have values, but its tensor {i} is on the meta device")
        if x.layout != torch.strided or x.is_nested:
            raise ValueError(f"example must hold dense tensors, but its tensor {i} is {x.layout}")


def _is_compiled(module: nn.Module) -> bool:
    return hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None


def _kind(example: Any) -> str:
    if isinstance(example, (list, tuple)):
        return f"a {type(example).__name__} of {', '.join(type(x).__name__ for x in example) or 'nothing'}"
    return f"a {type(example).__name__}"


def _whole(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, but it is {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, but it is {value}")
