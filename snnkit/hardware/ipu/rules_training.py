"""Rules of training: state in place, one loss, and gradients that come from the forward pass alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from .places import names_of
from .record import Applied, Loss, Record, run_recorded
from .report import Finding, at
from .runs import Runs, copied, quiet


def state_in_place(runs: Runs) -> list[Finding]:
    """Buffers and parameters that the forward pass replaced, and state that it keeps in plain attributes."""
    found = []
    for path in runs.replaced:
        name = path.rpartition(".")[2]
        found.append(
            Finding(
                "state in place",
                "error",
                f"{path} is another tensor after the forward pass; PopTorch compares addresses and refuses this "
                '("Buffer … is reassigned within the model")',
                f"write into it, self.{name}.copy_(…), or hand the state in and out instead of keeping it",
                _module(runs.model, path),
            )
        )
    for path, tensor in runs.attributes.items():
        reader = next((op for op in runs.meta[1].operations if any(t is tensor for t in op.inputs)), None)
        if reader is not None:
            found.append(
                at(
                    reader.place,
                    "state in place",
                    f"{path} is kept from call to call in a plain attribute; the recorded graph begins with its first "
                    "value in every call",
                    "register it as a buffer and write with copy_, or begin each call at rest",
                )
            )
        elif path.rpartition(".")[2] not in runs.replaced:
            found.append(
                Finding(
                    "state in place",
                    "warning",
                    f"the forward pass leaves a tensor in the attribute {path}; after the recording it has no value",
                    "return it with the output if it is wanted",
                    _module(runs.model, path),
                )
            )
    return found


def _module(model: nn.Module, path: str) -> str:
    owner = path.rpartition(".")[0]
    try:
        return f"{owner or 'model'} ({type(model.get_submodule(owner)).__name__})"
    except AttributeError:
        return owner


def one_loss(runs: Runs) -> list[Finding]:
    """Exactly one loss that no other loss is made of; a scalar; and nothing with a gradient made of it."""
    record = runs.graph
    final = final_losses(record)
    if not final:
        return [
            Finding(
                "one loss",
                "error",
                'the model holds no loss ("Couldn\'t find a loss in graph")',
                "compute the loss in the model and return it, marked with snnkit.hardware.ipu.identity_loss: "
                "ipu.WithLoss(net, loss)",
            )
        ]
    if len(final) > 1:
        places = "; ".join(f"{loss.name} at {loss.place.where}" for loss in final)
        return [
            at(
                final[1].place,
                "one loss",
                f'the model holds {len(final)} losses that are independent of each other ("Multiple independent losses '
                f'found in graph"): {places}',
                "add them up and mark the sum: identity_loss(a + b); compute mere measures outside of the model",
            )
        ]
    (loss,) = final
    found = []
    if loss.output.numel() != 1:
        found.append(
            at(
                loss.place,
                "one loss",
                f"the loss is no scalar, its shape is {list(loss.output.shape)}",
                'reduce it: identity_loss(loss, "mean")',
            )
        )
    others = [out for out in record.outputs if out.requires_grad and out is not loss.output]
    if any(loss.output in _Ancestors(record, [out]) for out in others) and loss.name != "identity_loss":
        found.append(
            at(
                loss.place,
                "one loss",
                f"training starts at {loss.name}, so what is computed from it afterwards (terms added, factors) is not "
                "trained on",
                "mark the whole loss: return identity_loss(loss)",
            )
        )
    if any(entry.weighted for entry in record.losses):
        found.append(
            at(
                loss.place,
                "supported operations",
                "PopTorch has no class weights in cross_entropy and nll_loss",
                "weigh the loss of each sample by arithmetic",
            )
        )
    return found


def final_losses(record: Record) -> list[Loss]:
    """The losses that no later one is made of."""
    final = []
    for i, loss in enumerate(record.losses):
        later = record.losses[i + 1 :]
        if not any(loss.output in _Ancestors(record, other.inputs) for other in later):
            final.append(loss)
    return final


class _Ancestors:
    """All tensors that some tensors were computed from, themselves among them; by identity."""

    def __init__(self, record: Record, tensors: Iterable[Tensor]) -> None:
        self.known = {id(t) for t in tensors}
        for op in reversed(record.operations):
            if any(id(t) in self.known for t in op.outputs):
                self.known.update(id(t) for t in op.inputs)

    def __contains__(self, tensor: Tensor) -> bool:
        return id(tensor) in self.known


def no_functions(runs: Runs) -> list[Finding]:
    """``autograd.Function``s between the loss and the parameters, once per place."""
    lost = _lost(runs)
    found = []
    for applied in _on_the_path(runs.graph):
        evidence = f"; here it changes the gradients of {lost}" if lost else ""
        name = applied.function.__qualname__.replace("_spike_of.<locals>.", "")
        found.append(
            at(
                applied.place,
                "no autograd.Function",
                f"the gradient passes the autograd.Function {name}, whose backward PopTorch doesn't use: it "
                f"differentiates the recorded forward pass{evidence}",
                "snnkit nets: ipu.convert(net). Own ones: put the surrogate into the forward pass, "
                "h + (s - s.detach()) with h the spike and s smooth (ipu.Detached)",
            )
        )
    return found


def _on_the_path(record: Record) -> list[Applied]:
    """Of each place and class the first call whose node the loss's gradient passes."""
    nodes = _nodes([loss.output for loss in final_losses(record)] or record.outputs)
    first: dict[Any, Applied] = {}
    for applied in record.functions:
        if any(t.grad_fn in nodes for t in applied.outputs if t.grad_fn is not None):
            first.setdefault((applied.function.__qualname__, applied.place), applied)
    return list(first.values())


def _nodes(tensors: Iterable[Tensor]) -> set:
    nodes, waiting = set(), [t.grad_fn for t in tensors if t.grad_fn is not None]
    while waiting:
        node = waiting.pop()
        if node not in nodes:
            nodes.add(node)
            waiting.extend(following for following, _ in node.next_functions if following is not None)
    return nodes


def gradients(runs: Runs, without_functions: bool) -> list[Finding]:
    """Hooks that change gradients, and parameters that get none (an ``autograd.Function`` may be why, so not with)."""
    found = []
    for place in dict.fromkeys(runs.graph.hooks):
        found.append(
            at(
                place,
                "gradients",
                "a gradient hook (register_hook) is set in the forward pass, but only the forward pass is recorded: it "
                "never runs on an IPU",
                "clip or scale in the forward pass, or by the optimiser",
            )
        )
    for i, x in enumerate(runs.inputs):
        if x.requires_grad:
            what = f"input {i} asks for a gradient, but PopTorch has no backward pass to the inputs and detaches them"
            found.append(Finding("gradients", "warning", what, "detach it, or make it a parameter of the model"))
    for path, parameter in runs.model.named_parameters():
        if parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None):
            found.append(
                Finding(
                    "gradients",
                    "error",
                    f"{path} has a gradient hook, which never runs on an IPU",
                    "remove it; scale by the learning rate of a parameter group",
                    _module(runs.model, path),
                )
            )
    loss = final_losses(runs.real)
    if without_functions and len(loss) == 1:
        try:
            found += _missing(runs, loss[0].output)
        except RuntimeError as error:
            found.append(_no_backward(error))
    return found


def _no_backward(error: RuntimeError) -> Finding:
    """A model that can't be differentiated here either: mostly, what backward needs was overwritten in place."""
    text = (str(error).splitlines() or [""])[0][:200]
    mend = "keep what the gradient needs: write a new tensor where one is changed in place, copy_ only what is detached"
    return Finding("gradients", "error", f"the backward pass fails, here as well: {text}", mend)


def _missing(runs: Runs, loss: Tensor) -> list[Finding]:
    if not loss.requires_grad:
        return [
            Finding(
                "gradients",
                "error",
                "the loss has no gradient: nothing lies between it and the parameters that could be differentiated",
                "check for torch.no_grad, detach, and spikes without a surrogate",
            )
        ]
    named = {path: p for path, p in runs.real_model.named_parameters() if p.requires_grad}
    values = _gradients(loss, list(named.values()))
    used = {id(t) for op in runs.real.operations for t in op.inputs}
    found = []
    for (path, parameter), value in zip(named.items(), values, strict=True):
        if value is not None:
            continue
        module = _module(runs.model, path)
        if id(parameter) in used:
            what = f"{path} takes part in the forward pass, but no gradient reaches it: it would not be trained"
            mend = "give the spikes behind it a surrogate in detach form; or freeze it, requires_grad_(False)"
            found.append(Finding("gradients", "error", what, mend, module))
        else:
            what = f"{path} takes no part in the forward pass"
            found.append(
                Finding("gradients", "warning", what, "remove it, or freeze it with requires_grad_(False)", module)
            )
    return found


def _lost(runs: Runs) -> str:
    """Parameters whose gradient differs once each ``autograd.Function`` is taken without its backward."""
    model = copied(runs.model)
    with quiet():
        without = run_recorded(model, runs.inputs, names_of(model), meta=False, detach_functions=True)
    one, other = final_losses(runs.real), final_losses(without)
    if len(one) != 1 or len(other) != 1 or not one[0].output.requires_grad:
        return ""
    named = {path: p for path, p in runs.real_model.named_parameters() if p.requires_grad}
    try:
        true = _gradients(one[0].output, list(named.values()))
    except RuntimeError:  # which the rule of the gradients tells of
        return ""
    left: list[Tensor | None] = [None] * len(named)
    if other[0].output.requires_grad:
        twins = dict(model.named_parameters())
        left = _gradients(other[0].output, [twins[path] for path in named])
    changed = [path for path, a, b in zip(named, true, left, strict=True) if a is not None and not _equal(a, b)]
    return ", ".join(changed[:3]) + (f" and {len(changed) - 3} more" if len(changed) > 3 else "")


def _gradients(loss: Tensor, parameters: list[Tensor]) -> list[Tensor | None]:
    if not parameters:
        return []
    return list(torch.autograd.grad(loss.sum(), parameters, retain_graph=True, allow_unused=True))


def _equal(a: Tensor, b: Tensor | None) -> bool:
    return b is not None and torch.allclose(a, b, rtol=1e-4, atol=1e-6)
