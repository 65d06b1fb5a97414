"""Exercises of "Spikes that pay: event-driven layers"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from snnkit.lab.course import expect
from snnkit.lab.course.exercise import Exercise


def by_spikes(places, weight):
    """The product [B, O] of spikes, given by their places, with weights [O, I]; and the number of additions."""
    out = torch.zeros(len(places), weight.shape[0])
    for sample, columns in enumerate(places):
        for i in columns:
            out[sample] += weight[:, i]
    additions = sum(len(columns) for columns in places) * weight.shape[0]
    return out, additions


def as_list(spikes):
    """Spikes [T, B, I] as a list: where the events of each row begin [T B + 1], and the place of each event [n]."""
    rows = spikes.flatten(0, 1)
    _, places = rows.nonzero(as_tuple=True)
    ends = rows.count_nonzero(1).cumsum(0)
    return torch.cat([ends.new_zeros(1), ends]), places


# Exercise 1

_PLACES = [[0, 3], [], [2], [0, 1, 2, 3]]


def _product(candidate: Any, places: Sequence[Sequence[int]], weight: Tensor) -> tuple[Tensor, Any]:
    result = expect.parts(candidate(places, weight), 2, "The answer is two things: the product, the additions.")
    expect.tensor(result[0], torch.zeros(len(places), len(weight)), "The product is [B, O].", hint=0)
    return result[0], result[1]


def _the_product(candidate: Any, reference: Any) -> None:
    weight = torch.arange(1.0, 13.0).view(3, 4)  # not a square
    for places in ([[1]], _PLACES):
        inputs, message = {"places": places}, "Each spike adds the column of weights that belongs to its input."
        misfits = "size of tensor|out of bounds"
        with expect.explained((RuntimeError, IndexError), misfits, message, inputs=inputs, hint=1):
            product, _ = _product(candidate, places, weight)
        last = torch.stack([weight[:, columns[-1]] if columns else torch.zeros(3) for columns in places])
        hint = 2 if torch.equal(product.to(last), last) else 1
        expect.close(product, reference(places, weight)[0], message, inputs=inputs, hint=hint)


def _twice(candidate: Any, reference: Any) -> None:
    weight = torch.arange(1.0, 13.0).view(3, 4)
    product, _ = _product(candidate, [[2, 2]], weight)
    expect.close(product, 2 * weight[:, 2][None], "A place that occurs twice counts twice.", hint=2)


def _only_where_there_is_a_spike(candidate: Any, reference: Any) -> None:
    message = "Each spike adds O numbers, one for each neuron; nothing else is counted."
    for outputs, inputs in ((3, 4), (5, 4), (3, 40)):
        _, additions = _product(candidate, _PLACES, torch.ones(outputs, inputs))
        dense = len(_PLACES) * inputs * outputs
        hint = 4 if additions == dense else 3
        expect.close(additions, 7 * outputs, message, inputs={"spikes": 7, "O": outputs, "I": inputs}, hint=hint)


# Exercise 2

_SPIKES = torch.zeros(3, 2, 4)
_SPIKES[(0, 0, 1, 1, 1), (0, 0, 0, 1, 1), (1, 3, 0, 1, 3)] = 1.0


def _listed(candidate: Any, spikes: Tensor) -> tuple[Tensor, Tensor]:
    message = "The answer is two tensors: starts, places."
    lists = expect.parts(candidate(spikes), 2, message, hint=0)
    for one in lists:
        right = isinstance(expect.written(one), Tensor) and one.dim() == 1 and not one.is_floating_point()
        expect.true(right, "Both are tensors of whole numbers with one axis.", yours=one, hint=0)
    return lists[0], lists[1]


def _the_places(candidate: Any, reference: Any) -> None:
    for spikes in (torch.tensor([[[0.0, 0.0, 1.0]]]), _SPIKES):
        _, places = _listed(candidate, spikes)
        message = "The place of an event is its input, from 0 to I - 1; row after row."
        expect.close(places, reference(spikes)[1], message, inputs={"spikes": spikes.tolist()}, hint=1)


def _the_starts(candidate: Any, reference: Any) -> None:
    for spikes in (_SPIKES, _SPIKES.flip(0), _SPIKES[:2]):
        starts, _ = _listed(candidate, spikes)
        inputs, rows = {"spikes": spikes.tolist()}, spikes.shape[0] * spikes.shape[1]
        hint = 3 if len(starts) == rows else 2
        message = "There is a start for each row and an end of the last: T B + 1 numbers."
        expect.true(len(starts) == rows + 1, message, inputs=inputs, yours=len(starts), expected=rows + 1, hint=hint)
        message = "The events of row r are places[starts[r]:starts[r + 1]]; a row without spikes has none."
        expect.close(starts, reference(spikes)[0], message, inputs=inputs, hint=4)


EXERCISES = [
    Exercise(
        "event_driven_layers.1",
        "The product by spikes",
        by_spikes,
        [_the_product, _twice, _only_where_there_is_a_spike],
        minutes=8,
        difficulty=2,
        hints=(
            "Two loops: `for sample, columns in enumerate(places):`, and in it `for i in columns:`.",
            "`weight` is [O, I], so what input `i` sends to all neurons is the column `weight[:, i]`. Add it to "
            "`out[sample]`.",
            "`out[sample] += ...` for each place in the list. A set, or an assignment, would lose the second spike.",
            "A column has `weight.shape[0]` numbers, so each spike costs as many additions.",
            "That is the number for a dense product. Here the zeros are left out.",
        ),
    ),
    Exercise(
        "event_driven_layers.2",
        "A list of spikes",
        as_list,
        [_the_places, _the_starts],
        minutes=6,
        difficulty=2,
        hints=(
            "Return `starts, places`, both of whole numbers, as `nonzero`, `count_nonzero` and `cumsum` make them.",
            "`rows.nonzero(as_tuple=True)` is two tensors: the row of each spike, and its place in the row.",
            "`rows.count_nonzero(1)` is the number of spikes of each row, T B numbers; `cumsum(0)` adds them up.",
            "The sums are where rows *end*. The first row begins at 0: `torch.cat([ends.new_zeros(1), ends])`.",
            "Count the spikes of each row, and add up these counts from the first row on, also those that are 0.",
        ),
    ),
]
