"""Graphs that branch, join and go round: run as they stand, in whatever order their nodes are listed."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn

nir = pytest.importorskip("nir")

from snnkit.interop import EulerLIF, Graph  # noqa: E402
from snnkit.neuron import Recurrent  # noqa: E402
from snnkit.nn import Sequential, detach  # noqa: E402
from tests.unit.nir_cases import nir_neuron, quick, read, run, sequence, written  # noqa: E402


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
    assert net.order[0] == ["input"] and net.order[-1] == ["output"]


def test_what_goes_back_comes_one_step_later():
    """x → a → forth → b → out, and b → back → a: written out as a loop over time."""
    graph = graph_of(
        {"back": affine(4), "b": integrator(2), "forth": affine(3), "a": integrator(1)},
        [("back", "a"), ("b", "back"), ("input", "a"), ("a", "forth"), ("forth", "b"), ("b", "output")],
    )
    net, x = read(graph), sequence((3,)) * 2
    assert isinstance(net, Graph) and net.order == [["input"], ["a", "forth", "b", "back"], ["output"]]
    a, b, forth, back = (layer_of(net, n) for n in ("a", "b", "forth", "back"))
    last, sa, sb, outs = torch.zeros(1, 2, 3), None, None, []
    with torch.no_grad():
        for x_t in x:
            first, sa = a(x_t.unsqueeze(0) + back(last), sa)
            last, sb = b(forth(first), sb)
            outs.append(last)
    assert torch.equal(run(net, x), torch.cat(outs))


def test_a_neuron_that_hears_itself_without_weights():
    graph = graph_of({"n": lif(1)}, [("input", "n"), ("n", "n"), ("n", "output")])
    net, x = read(graph), sequence((3,)) * 2
    ones = Recurrent(layer_of(net, "n"), 3)
    with torch.no_grad():
        ones.weight.weight.copy_(torch.eye(3))
    out = run(net, x)
    assert 0 < out.sum() < out.numel()
    assert torch.equal(out, run(ones, x))


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


def test_the_order_of_nodes_in_a_file_does_not_matter():
    nodes = {"a": lif(1), "forth": affine(3), "b": lif(2), "back": affine(4)}
    edges = [("input", "a"), ("a", "forth"), ("forth", "b"), ("b", "back"), ("back", "a"), ("b", "output")]
    x = sequence((3,)) * 2
    out = run(read(graph_of(nodes, edges)), x)
    turned = graph_of(dict(reversed(nodes.items())), edges[::-1])
    assert out.sum() > 0 and torch.equal(run(read(turned), x), out)


def test_a_sequence_in_pieces_with_the_state_handed_on():
    graph = graph_of(
        {"a": integrator(1), "b": integrator(2), "back": affine(4), "side": affine(5)},
        [("input", "a"), ("a", "b"), ("b", "back"), ("back", "a"), ("b", "output"), ("input", "side"), ("side", "b")],
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


def test_a_graph_that_must_not_be_written_to_is_read_and_left_alone(recwarn):
    fc = affine(1)
    fc.weight.flags.writeable = fc.bias.flags.writeable = False
    net = read(nir.NIRGraph.from_list(fc))
    with torch.no_grad():
        net[0].weight.zero_()
    assert fc.weight.all() and not recwarn


def test_gradients_reach_every_weight_of_a_loop():
    graph = graph_of(
        {"a": lif(1), "forth": affine(3), "b": lif(2), "back": affine(4)},
        [("input", "a"), ("a", "forth"), ("forth", "b"), ("b", "back"), ("back", "a"), ("b", "output")],
    )
    net = read(graph)
    net(sequence((3,)) * 2)[0].sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in net.parameters())


def test_names_that_a_module_cannot_have():
    nodes = {"forward": affine(1), "a.b": lif(2), "edges": affine(3), "a_b": lif(4), "order": lif(5)}
    names = ["input", *nodes, "output"]
    chain = list(itertools.pairwise(names))
    x = sequence((3,)) * 2
    net = read(graph_of(nodes, chain))
    assert list(net._modules) == ["forward_", "a_b", "edges_", "a_b_", "order_"]
    looped = read(graph_of(nodes, [*chain, ("a_b", "edges")]))
    assert isinstance(looped, Graph) and run(looped, x).shape == x.shape


def test_a_graph_of_your_own_is_written():
    layers = {
        "fc": nn.Linear(3, 4),
        "lif": EulerLIF(tau=4e-3, r=2.0, v_threshold=0.3, dt=1e-3),
        "skip": nn.Linear(3, 4),
    }
    edges = [("input", "fc"), ("input", "skip"), ("fc", "lif"), ("lif", "output"), ("skip", "output")]
    graph = quick(Graph(layers, edges, {"fc": (4,), "lif": (4,), "skip": (4,)}))
    net = quick(Sequential(nn.Flatten(), graph, nn.Linear(4, 2)))
    x = sequence((1, 3))
    file = written(net, x)
    assert {"0", "1_fc", "1_lif", "1_skip", "2"} < set(file.nodes)
    assert torch.equal(run(read(file), x), run(net, x))
