"""The spiking embedding, int8 weights and exported programs on a GPU."""

import copy
import importlib.util

import pytest
import torch

from snnkit import export, quantize, text, train
from snnkit.models import mlp
from snnkit.text import SparseSpikes


def test_an_embedding_trains_and_comes_back(device, tmp_path):
    train.seed_everything(0)
    sentences = text.corpus(0, 3000)
    embedding = text.SpikingEmbedding(text.Vocabulary.build(sentences), 32, 8)
    embedding.fit(sentences, seed=0, device=device, progress=False)
    assert embedding.table.weight.device.type == device.type
    assert text.agreement(embedding) > 0.8
    assert embedding.sparse("the dog eats").neuron.device.type == device.type
    loaded = text.SpikingEmbedding.load(embedding.save(tmp_path / "words.pt"), engine="eager")
    here = embedding.cpu()
    assert loaded.table.weight.device.type == "cpu"
    torch.testing.assert_close(loaded.vectors(["dog", "paris"]), here.vectors(["dog", "paris"]))
    assert text.SpikingEmbedding.load(tmp_path / "words.pt", map_location=device).most_similar("dog", 3)


def test_events_are_the_same_as_on_the_cpu(device):
    dense = (torch.rand(6, 3, 50) < 0.2).float()
    there, here = SparseSpikes.of(dense.to(device)), SparseSpikes.of(dense)
    weight = torch.randn(7, 50)
    assert torch.equal(there.dense().cpu(), dense) and torch.equal(here.neuron, there.neuron.cpu())
    torch.testing.assert_close(there.linear(weight.to(device)).cpu(), here.linear(weight))


@pytest.mark.skipif(importlib.util.find_spec("torchao") is None, reason="needs torchao")
def test_int8_weights(device, tmp_path):
    net = mlp((64, 32, 10), engine="eager")
    small, report = quantize.quantize(copy.deepcopy(net).to(device))
    x = torch.rand(6, 40, 64) * 2
    with torch.no_grad():
        currents = [model.record(x.to(p.device)).layers[1].cpu() for model, p in ((net, x), (small, x.to(device)))]
    assert (currents[0] - currents[1]).abs().max() < 0.01 * currents[0].abs().max()
    assert report.bytes_before > 3 * report.bytes_after
    loaded = quantize.load(quantize.save(tmp_path / "small.pt", small), net, map_location=device)
    assert torch.equal(loaded(x.to(device))[0], small(x.to(device))[0])
    moved = copy.deepcopy(small).cpu()
    assert moved(x)[0].shape == (6, 40, 10)


@pytest.mark.parametrize("dynamic_steps", [False, True])
def test_exported_programs(dynamic_steps, device):
    torch.manual_seed(0)
    net = mlp((64, 32, 10), engine="eager").to(device).eval()
    x = (torch.rand(4, 5, 64) * 2).to(device)
    program = export.export(net, x, dynamic_steps=dynamic_steps)
    out, state = program.module()(x, export.resting_state(program, 5))
    with torch.no_grad():
        expected, last = net(x)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(state[2][0], last[2].mem)
