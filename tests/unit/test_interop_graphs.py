"""Graphs that branch and join: run as they are, in whatever order their nodes are listed."""

import itertools

import numpy as np
import pytest
import torch

nir = pytest.importorskip("nir")

from snnkit.interop import EulerLIF, Graph  # noqa: E402
from snnkit.neuron import Recurrent  # noqa: E402
from snnkit.nn import Sequential, detach  # noqa: E402
from tests.unit.nir_cases import nir_neuron, read, run, sequence  # noqa: E402


def lif(seed=0, size=3):
    return nir_neuron(nir, "LIF", (size,), seed)


def integrator(seed=0, size=3):
    """Whose output shows every difference."""
    return nir_neuron(nir, "LI", (size,), seed)


def affine(seed=0, out=3, size=3):
    rng = np.random.default_rng(seed)
    return nir.Affine(weight=rng.normal(size=(out, size)) / 2, bias=rng.normal(size=out) / 3)


def graph_of(nodes, edges, size=3, out=3):
    ends = {"input": nir.Input(input_type={"input": [size]}), "output": nir.Output(output_type={"output": [out]})}
    return nir.NIRGraph({**nodes, **ends}, edges)


def layer_of(net, name):
    return net.get_submodule(name)


def test_branches_that_join_add_up():
    graph = graph_of(
        {"b": lif(1), "sum": lif(2), "a": affine(3)},
        [("input", "a"), ("input", "b"), ("a", "sum"), ("b", "sum"), ("sum", "output"), ("b", "output")],
    )
    net, x = read(graph), sequence((3,)) * 2
    with torch.no_grad():
        b, _ = layer_of(net, "b")(x)
        total, _ = layer_of(net, "sum")(layer_of(net, "a")(x) + b)
    assert isinstance(net, Graph) and 0 < total.sum() < total.numel()
    assert torch.equal(run(net, x), total + b)
    assert net.order[0] == "input" and net.order[-1] == "output"


def test_a_recurrent_subgraph_as_snntorch_writes_it():
    inner = graph_of(
        {"lif": lif(1), "w_rec": affine(2)},
        [("input", "lif"), ("lif", "w_rec"), ("w_rec", "lif"), ("lif", "output")],
    )
    edges = [("input", "fc"), ("fc", "rec"), ("rec", "output")]
    outer = graph_of({"fc": affine(3), "rec": inner}, edges)
    net = read(outer)
    assert type(net) is Sequential
    assert list(net._modules) == ["fc", "rec_lif"]
    assert isinstance(net[1], Recurrent) and isinstance(net[1].neuron, EulerLIF)
    flat = graph_of(
        {"fc": affine(3), "lif": lif(1), "w_rec": affine(2)},
        [("input", "fc"), ("fc", "lif"), ("lif", "w_rec"), ("w_rec", "lif"), ("lif", "output")],
    )
    x = sequence((3,)) * 3
    out = run(read(flat), x)
    assert out.sum() > 0 and torch.equal(run(net, x), out)


def test_a_sequence_in_pieces_with_the_state_handed_on():
    graph = graph_of(
        {"a": integrator(1), "b": integrator(2), "back": affine(4), "side": affine(5)},
        [("input", "a"), ("a", "b"), ("a", "back"), ("back", "b"), ("b", "output"), ("input", "side"), ("side", "b")],
    )
    net, x = read(graph), sequence((3,)) * 2
    whole = run(net, x)
    state, outs = None, []
    with torch.no_grad():
        for part in x.split([5, 1, 1, 1, 4]):
            out, state = net(part, detach(state))
            outs.append(out)
    # Some processors sum a product of one row in another order than one of many.
    torch.testing.assert_close(torch.cat(outs), whole, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="state of Graph must be a tuple of"):
        net(x, (None,))


def test_names_that_a_module_cannot_have():
    nodes = {"forward": affine(1), "a.b": lif(2), "edges": affine(3), "a_b": lif(4), "order": lif(5)}
    names = ["input", *nodes, "output"]
    chain = list(itertools.pairwise(names))
    x = sequence((3,)) * 2
    net = read(graph_of(nodes, chain))
    assert list(net._modules) == ["forward_", "a_b", "edges_", "a_b_", "order_"]
    branched = read(graph_of(nodes, [*chain, ("a.b", "order")]))
    assert isinstance(branched, Graph) and run(branched, x).shape == x.shape
