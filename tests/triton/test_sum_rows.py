"""Sums of rows by lists: run by the interpreter, and compiled for GPUs that are not here."""

import pytest
import torch
from torch import nn

from snnkit import event_lists
from snnkit.engine.triton.sum_rows import SOURCE, TILE, by_place, sum_rows
from snnkit.event_lists import EventList
from snnkit.nn import Sequential

from .ahead import compiled


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
@pytest.mark.parametrize(("rows", "inputs", "outputs"), [(1, 1, 1), (7, 40, 9), (5, 33, 300)])
def test_they_are_the_dense_products(rows, inputs, outputs, share):
    x = (torch.rand(rows, 1, inputs) < share).float()
    x[0, 0, 0] = 2.0  # a place that stands twice
    listed, x = EventList.of(x), x[:, 0]
    weight, gradient = torch.randn(outputs, inputs), torch.randn(rows, outputs)
    torch.testing.assert_close(sum_rows(weight.t(), listed.starts, listed.places), x @ weight.t())
    d_weight = sum_rows(gradient, *by_place(listed.starts, listed.places, inputs)).t()
    torch.testing.assert_close(d_weight, gradient.t() @ x)


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize("bias", [True, False])
def test_a_first_layer_takes_them_on_a_gpu(bias, monkeypatch):
    monkeypatch.setattr(event_lists, "_on_triton", lambda x: True)
    monkeypatch.setattr(event_lists, "_by_pytorch", lambda *arguments: pytest.fail("no kernel has run"))
    x = torch.poisson(torch.full((6, 5, 40), 0.1))
    layer, listed = nn.Linear(40, 9, bias=bias), EventList.of(x)
    found, wanted = Sequential(layer)(listed)[0], layer(x)
    torch.testing.assert_close(found, wanted)
    g, leaves = torch.randn_like(wanted), list(layer.parameters())
    torch.testing.assert_close(torch.autograd.grad(found, leaves, g), torch.autograd.grad(wanted, leaves, g))
    with torch.no_grad():
        layer.weight[3, 7] = torch.inf  # of an input that fires now and then
        assert torch.equal(Sequential(layer)(listed)[0].isfinite(), layer(x).isfinite())


def test_lists_without_a_place_the_other_way_round():
    starts, rows = by_place(torch.zeros(4, dtype=torch.int64), torch.zeros(0, dtype=torch.int32), 5)
    assert starts.tolist() == [0] * 6 and rows.tolist() == []


@pytest.mark.parametrize("architecture", [80, 90])
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_they_compile(dtype, architecture):
    memory = {"starts_ptr": "i64", "places_ptr": "i32"}
    built = compiled(SOURCE, memory, dtype, architecture, {"TILE": TILE})
    assert built.spilled == 0 and built.registers <= 128
