"""Which engine runs each layer of a model, which way each product goes, and why: the notes of one run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from snnkit import checks
from snnkit.engine.plan import Plan, noted_fallbacks, noted_products, plan_for, state_dtype
from snnkit.engine.trace import name_of
from snnkit.tables import html_table, text_table

if TYPE_CHECKING:
    from snnkit.event_lists import EventList

_NO_NEURONS = "no neurons in this model"
_NONE_CALLED = "no neuron of this model was called on a sequence; of one whose step is called, the engine is eager"


@dataclass(frozen=True)
class Row:
    """One neuron layer: its name in the model, class, shape of input [T, B, ...], engine, and the reason."""

    layer: str
    neuron: str
    shape: tuple[int, ...]
    engine: str
    reason: str


class Product(NamedTuple):
    """A product of a linear layer or a convolution: its name in the model, the shapes of its input and weight, what
    computed it ("events", "oneDNN" or "PyTorch"; in a ``Recurrent`` that is one call, its engine), and the reason."""

    layer: str
    shape: tuple[int, ...]
    weight: tuple[int, ...]
    way: str
    reason: str


class Explanation(list[Row]):
    """A list of rows that prints as a table, and the ``products`` between the neurons, in another."""

    def __init__(self) -> None:
        super().__init__()
        self.products: list[Product] = []
        self.nothing = _NO_NEURONS

    def _tables(self) -> list[tuple[tuple[str, ...], list[tuple[str, ...]]]]:
        """Head and rows: of the neurons, and of the products."""
        rows = [(r.layer, r.neuron, "x".join(map(str, r.shape)), r.engine, r.reason) for r in self]
        products = [(p.layer, *("x".join(map(str, shape)) for shape in p[1:3]), *p[3:]) for p in self.products]
        return [
            (("layer", "neuron", "input [T, B, ...]", "engine", "why"), rows),
            (("layer", "input", "weight", "product by", "why"), products),
        ]

    def __str__(self) -> str:
        texts = ["\n".join(text_table(head, rows, left=5)) for head, rows in self._tables() if rows]
        return "\n\n".join(texts if self else [self.nothing, *texts])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Tables whose long reasons are broken between words."""
        texts = [html_table(head, rows, left=5) for head, rows in self._tables() if rows]
        return "".join(texts if self else [f"<div>{self.nothing}</div>", *texts])


@checks.arguments
def explain(model: nn.Module, x: Tensor | EventList, state: Any = None) -> Explanation:
    """Run ``model`` once on ``x`` [T, B, ...] without gradients, and return the engine of each layer with the reason.

    A neuron is any module with ``step``, ``initial_state`` and ``engine``; a ``Recurrent`` around one is a layer where
    one call of a kernel runs it over all steps, with its weights. The order is that of execution. ``products`` of the
    result has the linear layers that ``nn.Sequential`` and ``Recurrent`` call, and large convolutions: a product is by
    spikes ("events") where few enough of its inputs are.
    """
    rows = Explanation()
    modules: list[nn.Module] = []
    names = {module: name or "(model)" for name, module in model.named_modules()}
    hooks: dict[nn.Module, Any] = {}
    others: list[Any] = []
    loops: dict[nn.Module, str] = {}  # neurons that are called step by step, and why
    fallbacks: dict[int, Plan] = {}
    products: list[tuple[Any, torch.Size, str, str]] = []
    token, products_token = noted_fallbacks.set(fallbacks), noted_products.set(products)

    def note(module: nn.Module, args: tuple, kwargs: dict) -> None:
        name, sequence = names[module], args[0] if args else kwargs["x"]
        if any(row.layer == name for row in rows) or not isinstance(sequence, Tensor):
            return  # a neuron inside Recurrent is called once per time step; what is no tensor, the layer refuses
        neuron: Any = getattr(module, "neuron", module) if hasattr(module, "whole_plan") else module
        like = torch.empty(sequence.shape[1:], dtype=state_dtype(sequence), device=sequence.device)
        state = neuron.initial_state(like)
        if neuron is module:
            plan = plan_for(neuron.engine, neuron, sequence, state)
        else:
            hooks.pop(neuron).remove()  # a neuron with hooks is called step by step
            plan = module.whole_plan(sequence, state)  # type: ignore[operator]
            if plan.equation is None:
                loops[neuron] = plan.reason
                watch(neuron)
                return
        loop = loops.get(module, plan.reason)
        reason = plan.reason if loop == plan.reason else f"{loop}; of a step: {plan.reason}"
        rows.append(Row(name, name_of(module), tuple(sequence.shape), plan.engine, reason))
        modules.append(module)

    def watch(module: nn.Module) -> None:
        if module not in hooks:
            hooks[module] = module.register_forward_pre_hook(note, with_kwargs=True)

    try:
        for module in names:
            if hasattr(module, "whole_plan"):
                # The neuron may be a layer elsewhere, too.
                others.append(module.register_forward_hook(lambda layer, *call: watch(layer.neuron)))  # type: ignore[arg-type]
            if hasattr(module, "whole_plan") or all(hasattr(module, a) for a in ("step", "initial_state", "engine")):
                watch(module)
        with torch.no_grad():
            model(x) if state is None else model(x, state)
    finally:
        noted_fallbacks.reset(token)
        noted_products.reset(products_token)
        for handle in (*hooks.values(), *others):
            handle.remove()
    for i, module in enumerate(modules):
        if ran := fallbacks.get(id(module)):  # its kernel could not be compiled
            rows[i] = replace(rows[i], engine=ran.engine, reason=ran.reason)
    if hooks and not rows:
        rows.nothing = _NONE_CALLED
    for layer, shape, way, reason in products:
        row = Product(names.get(layer, ""), tuple(shape), tuple(layer.weight.shape), way, reason)
        if not any(one.layer == row.layer for one in rows.products):  # one inside Recurrent is called at each step
            rows.products.append(row)
    return rows
