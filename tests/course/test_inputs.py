"""Changes in place are seen, wherever they are; reading changes nothing."""

import numpy as np
import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from snnkit.course.inputs import BYTES, fingerprint


def _set_item(x):
    x[0] = 5


def _behind(x):
    x.numpy()[0] = 5


CHANGES = {
    "in place": (lambda: torch.zeros(3), lambda x: x.add_(1)),
    "in place, to the same value": (lambda: torch.zeros(3), lambda x: x.mul_(1)),
    "an element": (lambda: torch.zeros(3), _set_item),
    "through numpy": (lambda: torch.zeros(3), _behind),
    "through data": (lambda: torch.zeros(3), lambda x: x.data.fill_(2)),
    "in inference mode": (lambda: torch.inference_mode()(torch.zeros)(3), lambda x: torch.inference_mode()(x.fill_)(2)),
    "a parameter": (lambda: torch.nn.Parameter(torch.zeros(3)), lambda x: torch.no_grad()(x.fill_)(2)),
    "an expanded tensor": (lambda: torch.zeros(3, 1).expand(3, 4), lambda x: x.data[0, 0:1].numpy().fill(1)),
    "a large tensor": (lambda: torch.zeros(BYTES), lambda x: x.add_(1)),
    "an array": (lambda: np.zeros(3), _set_item),
    "a list": (lambda: [1, 2], _set_item),
    "a list's order": (lambda: [2, 1], lambda x: x.sort()),
    "a dict": (lambda: {"a": 1}, lambda x: x.update(b=2)),
    "a set": (lambda: {1}, lambda x: x.add(2)),
    "a tensor in a list in a dict": (lambda: {"a": [torch.zeros(2)]}, lambda x: x["a"][0].add_(1)),
    "an object replaced": (lambda: [object()], lambda x: x.__setitem__(0, object())),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_seen(name):
    make, change = CHANGES[name]
    value = make()
    before = fingerprint(value)
    assert fingerprint(value) == before
    change(value)
    assert fingerprint(value) != before


def test_reading_changes_nothing():
    x = torch.rand(4, requires_grad=True)
    values = [x, float("nan"), "text", {"m": torch.nn.Linear(2, 2)}, torch.zeros(2).to_sparse(), torch.zeros(0)]
    before = fingerprint(values)
    (x * 2).sum().backward()
    values[3]["m"](torch.zeros(2)).sum().backward()
    assert fingerprint(values) == before


def test_a_list_that_holds_itself():
    value: list = [1]
    value.append(value)
    assert fingerprint(value) == fingerprint(value)


def test_a_trace_of_what_is_computed_stays_as_it_was():
    def plain(x):
        return x * 2 + 1

    def watched(x):
        before = fingerprint(x)
        result = plain(x)
        assert fingerprint(x) == before
        return result

    for mode in ("real", "fake"):
        traces = [make_fx(function, tracing_mode=mode)(torch.rand(3)).code for function in (plain, watched)]
        assert traces[0] == traces[1]
    assert torch.equal(torch.func.vmap(watched)(torch.ones(2, 3)), torch.full((2, 3), 3.0))
    assert torch.equal(torch.func.grad(lambda x: watched(x).sum())(torch.ones(3)), torch.full((3,), 2.0))
