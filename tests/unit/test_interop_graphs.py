"""What a NIR graph means: its numbers against the equations written out; branches and joins, in whatever order."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn

nir = pytest.importorskip("nir")

from snnkit.interop import EulerLIF, Graph, InexactWarning, SumPool2d, to_nir  # noqa: E402
from snnkit.neuron import IF, LIF, CubaLIF, Leaky, Recurrent  # noqa: E402
from snnkit.nn import Sequential, detach  # noqa: E402
from tests.unit.nir_cases import DT, assert_same, nir_neuron, quick, read, run, sequence, written  # noqa: E402

SHAPE = (3, 2)


def euler(kind, n, x, dt):
    """NIR's equation step by step in NumPy, float64; x [T, B, ...]."""
    v = np.zeros(x.shape[1:]) + (n["v_leak"] if "v_leak" in n else n["v_reset"])
    current = np.zeros(x.shape[1:])
    out = []
    for x_t in x:
        drive = x_t
        if "tau_syn" in n:
            current = current + dt * (n["w_in"] * x_t - current) / n["tau_syn"]
            drive = current
        tau = n.get("tau", n.get("tau_mem"))
        if tau is None:
            v = v + dt * n["r"] * drive
        else:
            v = v + dt * ((n["v_leak"] - v) + n["r"] * drive) / tau
        if "v_threshold" in n:
            spike = v > n["v_threshold"]
            v = np.where(spike, n["v_reset"], v)
            out.append(spike.astype(float))
        else:
            out.append(v)
    return np.stack(out)


@pytest.mark.parametrize("dt", [1e-3, 2.5e-4])
@pytest.mark.parametrize("kind", ["IF", "LI", "LIF", "CubaLI", "CubaLIF"])
def test_every_number_of_every_neuron_counts(kind, dt):
    node = nir_neuron(nir, kind, SHAPE, 3)
    numbers = {k: v for k, v in vars(node).items() if isinstance(v, np.ndarray)}
    x = sequence(SHAPE, dtype=torch.float64).repeat(3, 1, 1, 1)
    out = run(read(nir.NIRGraph.from_list(node), dt=dt, dtype=torch.float64), x).numpy()
    wanted = euler(kind, numbers, x.numpy(), dt)
    if "LIF" in kind or kind == "IF":
        assert 0 < wanted.sum() < wanted.size
        np.testing.assert_array_equal(out, wanted)
    else:
        np.testing.assert_allclose(out, wanted, rtol=1e-9, atol=1e-12)
    for name, array in numbers.items():  # and not by chance: another number, another output
        changed = euler(kind, {**numbers, name: array * 1.5 + 0.3}, x.numpy(), dt)
        assert not np.allclose(changed, wanted), name


def test_what_is_written_for_each_neuron():
    def node(neuron):
        node = written(Sequential(neuron), torch.zeros(1, 1, 2)).nodes["0"]
        numbers = {k: v.tolist() for k, v in vars(node).items() if isinstance(v, np.ndarray)}
        assert all(v == [v[0]] * 2 for v in numbers.values())
        return type(node).__name__, {k: pytest.approx(v[0]) for k, v in numbers.items()}

    hard = {"v_threshold": 0.8, "v_reset": -0.1}
    assert node(IF(0.8, -0.1)) == ("IF", {"r": 1000, **hard})
    assert node(LIF(4.0, 0.8, -0.1)) == ("LIF", {"tau": 4e-3, "r": 1, "v_leak": -0.1, **hard})
    assert node(LIF(4.0, 0.8, -0.1, decay_input=False))[1]["r"] == 4
    leaky = node(Leaky(0.9, 0.8, reset_mechanism="zero"))
    assert leaky == ("LIF", {"tau": 1e-2, "r": 10, "v_leak": 0, "v_threshold": 0.8, "v_reset": 0})
    assert node(Leaky(1.0, reset_mechanism="zero"))[0] == "IF"
    kind, numbers = node(CubaLIF(v_leak=0.1, v_th=0.8, v_reset=-0.1))
    assert (kind, numbers["w_in"], numbers["r"]) == ("CubaLIF", 5, 1)
    assert (numbers["tau_syn"], numbers["tau_mem"], numbers["v_leak"]) == (5e-3, 1e-2, 0.1)


@pytest.mark.parametrize("kind", ["hook", "pre-hook", "forward"])
def test_code_that_is_attached_to_a_module_is_not_in_a_graph(kind):
    layer = nn.Linear(4, 4)
    if kind == "forward":
        layer.forward = lambda x: torch.relu(x)
        with pytest.raises(ValueError, match="0 has another forward than its class, which NIR can't express"):
            to_nir(Sequential(layer, LIF()), torch.rand(5, 2, 4), 1e-3)
        return
    if kind == "hook":
        layer.register_forward_hook(lambda module, given, out: 5 * out)
    else:
        layer.register_forward_pre_hook(lambda module, given: (5 * given[0],))
    with pytest.warns(InexactWarning, match="0: hooks of modules are not in the graph; what they change is lost"):
        to_nir(Sequential(layer, LIF()), torch.rand(5, 2, 4), 1e-3)


def test_at_the_threshold_exactly():
    """NIR fires above it. IF fires at it, says so in a note, and a warning tells who is concerned."""
    x = torch.ones(4, 1, 1) / 2
    with pytest.warns(InexactWarning, match=r"0 \(IF\) fire at exactly the threshold"):
        graph = to_nir(Sequential(IF(engine="eager")), x, DT)
    assert run(read(graph), x).flatten().tolist() == [0, 1, 0, 1]
    graph.nodes["0"].metadata = {}
    assert run(read(graph), x).flatten().tolist() == [0, 0, 1, 0]


def test_sum_pooling():
    x = torch.arange(16.0).reshape(1, 1, 4, 4)
    assert SumPool2d(2)(x).flatten().tolist() == [10, 18, 42, 50]
    assert SumPool2d((1, 2), stride=(4, 1), padding=(0, 1))(x).flatten().tolist() == [0, 1, 3, 5, 3]


def test_a_layer_with_a_matrix_to_itself_is_recurrent():
    rec = Recurrent(CubaLIF(v_th=0.2, engine="eager"), 3, bias=True)
    graph = written(Sequential(rec), torch.zeros(1, 1, 3))
    assert set(graph.edges) == {("input", "0"), ("0", "0_rec"), ("0_rec", "0"), ("0", "output")}
    back = read(graph)
    assert isinstance(back[0], Recurrent)
    x = sequence((3,)) * 2
    out = run(rec, x)
    assert out.sum() > 0 and torch.equal(run(back, x), out)


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
    return nir.NIRGraph({**nodes, **ends}, edges, type_check=False)  # which would not do for deep ones


def test_branches_that_join_add_up():
    graph = graph_of(
        {"b": lif(1), "sum": lif(2), "a": affine(3)},
        [("input", "a"), ("input", "b"), ("a", "sum"), ("b", "sum"), ("sum", "output"), ("b", "output")],
    )
    net, x = read(graph), sequence((3,)) * 2
    with torch.no_grad():
        b, _ = net.get_submodule("b")(x)
        total, _ = net.get_submodule("sum")(net.get_submodule("a")(x) + b)
    assert isinstance(net, Graph) and 0 < total.sum() < total.numel()
    assert torch.equal(run(net, x), total + b)
    assert net.order[0] == "input" and net.order[-1] == "output"


def test_a_recurrent_subgraph_as_snntorch_writes_it():
    inner = graph_of(
        {"lif": lif(1), "w_rec": affine(2)}, [("input", "lif"), ("lif", "w_rec"), ("w_rec", "lif"), ("lif", "output")]
    )
    net = read(graph_of({"fc": affine(3), "rec": inner}, [("input", "fc"), ("fc", "rec"), ("rec", "output")]))
    assert type(net) is Sequential and list(net._modules) == ["fc", "rec_lif"]
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


def test_a_shortcut_within_a_subgraph_and_one_beside_it():
    block = graph_of({"a": affine(1)}, [("input", "a"), ("a", "output"), ("input", "output")])
    graph = graph_of({"sub": block, "b": integrator(2)}, [("input", "sub"), ("sub", "b"), ("b", "output")])
    net, x = read(graph), sequence((3,)) * 2
    assert sorted(net.edges) == sorted([("input", "sub_a"), ("sub_a", "b"), ("input", "b"), ("b", "output")])
    with torch.no_grad():
        assert torch.equal(run(net, x), net.b(net.sub_a(x.flatten(0, 1)).view_as(x) + x)[0])
    # The input arrives twice, once through the subgraph.
    twice = graph_of({"sub": block}, [("input", "sub"), ("sub", "output"), ("input", "output")])
    with torch.no_grad():
        torch.testing.assert_close(run(read(twice), x), read(twice).sub_a(x.flatten(0, 1)).view_as(x) + 2 * x)


def test_edges_of_wide_subgraphs_in_a_row_are_no_product():
    """As edges from each to each there would be 80,000; read by one node that adds up, 1,200."""
    names = [f"n{i}" for i in range(200)]
    wide = graph_of(
        {name: nir.Scale(np.full(3, 1 / 200)) for name in names},
        [edge for name in names for edge in (("input", name), (name, "output"))],
    )
    row = ["input", "a", "b", "c", "output"]
    net, x = read(graph_of({"a": wide, "b": wide, "c": wide}, list(itertools.pairwise(row)))), sequence((3,))
    assert len(net.edges) <= 1204
    torch.testing.assert_close(run(net, x), x)


def test_subgraphs_in_subgraphs_of_any_depth():
    graph = graph_of({"lif": lif(1)}, [("input", "lif"), ("lif", "output")])
    x = sequence((3,)) * 3
    out = run(read(graph), x)
    for _ in range(1500):
        graph = graph_of({"sub": graph}, [("input", "sub"), ("sub", "output")])
    assert out.sum() > 0 and torch.equal(run(read(graph), x), out)


def test_a_network_of_networks_that_branches():
    """Residual blocks of nested modules, written, and read with the same names."""
    torch.manual_seed(0)
    block = Sequential(nn.Conv2d(2, 2, 3, padding=1), LIF(2.0, 0.4))
    residual = Graph({"block": block}, [("input", "block"), ("block", "output"), ("input", "output")])
    net = quick(Sequential(residual, Sequential(nn.Flatten(), nn.Linear(32, 3)), LIF(2.0, 0.2)))
    x = sequence((2, 4, 4))
    graph = written(net, x)
    assert {"0_block_0", "0_block_1", "1_1", "2"} < graph.nodes.keys()
    assert {("input", "0_block_0"), ("0_block_1", "1_0"), ("input", "1_0")} < set(graph.edges)
    back = read(graph)
    assert_same(back, net)
    out = run(net, x)
    assert 0 < out.sum() < out.numel() and torch.equal(run(back, x), out)


@pytest.mark.parametrize(
    "layers, edges, message",
    [
        ({"a": nn.Identity()}, [("input", "a"), ("a", "b"), ("b", "output")], "there is no 'b'"),
        ({"a": nn.Identity()}, [("input", "output")], "'a' of Graph must be on a path"),
        ({"a": nn.Identity()}, [("input", "a"), ("a", "output"), ("a", "input")], "'input' of Graph must be on a path"),
        ({"a": nn.Identity()}, [("input", "a"), ("a", "output"), ("a", "output")], "edges of Graph must differ"),
        ({"input": nn.Identity()}, [("input", "output")], "one is 'input'"),
        (
            {"a": nn.Identity(), "b": nn.Identity()},
            [("input", "a"), ("a", "b"), ("b", "a"), ("b", "output")],
            "but there is",
        ),
    ],
)
def test_a_graph_that_can_not_run_is_refused_when_it_is_made(layers, edges, message):
    with pytest.raises(ValueError, match=message):
        Graph(layers, edges)


def test_names_that_a_module_cannot_have():
    nodes = {"forward": affine(1), "a.b": lif(2), "edges": affine(3), "a_b": lif(4), "order": lif(5)}
    names = ["input", *nodes, "output"]
    chain = list(itertools.pairwise(names))
    x = sequence((3,)) * 2
    net = read(graph_of(nodes, chain))
    assert list(net._modules) == ["forward_", "a_b", "edges_", "a_b_", "order_"]
    branched = read(graph_of(nodes, [*chain, ("a.b", "order")]))
    assert isinstance(branched, Graph) and run(branched, x).shape == x.shape
