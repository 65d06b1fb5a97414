"""Neurons inside a model that torch.compile compiles whole: short loops are inlined, long ones are one operation."""

import pytest
import torch
from torch import nn

from snnkit import linear, pooling
from snnkit.engine import ops
from snnkit.neuron import LIF, PLIF, CubaLIF, MembraneState, Neuron, OneToOne, Recurrent, Refractory
from snnkit.nn import Sequential
from snnkit.surrogate import ATan

TORCH = tuple(map(int, torch.__version__.split(".")[:2]))
SHORT, LONG = ops.INLINED - 8, ops.INLINED + 8


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Graphs:
    """A backend that runs graphs as they are and notes the operations in them."""

    def __init__(self):
        self.calls = []

    def __call__(self, graph, example):
        self.calls.append([str(node.target) for node in graph.graph.nodes if node.op == "call_function"])
        return graph

    @property
    def unrolled(self):
        """How many sequences are one operation, in each graph."""
        return [sum("snnkit.unroll" in call for call in graph) for graph in self.calls]


def network(**keywords):
    neurons = LIF(3.0, **keywords), PLIF(shape=(6,), v_reset=None, **keywords)
    return Sequential(nn.Linear(5, 6), neurons[0], nn.Linear(6, 6), neurons[1], nn.Linear(6, 3)).double()


def gradients(model, net, x, state=None):
    out, last = model(x) if state is None else model(x, state)
    loss = out.pow(2).sum() + sum(part.v.sum() for part in last if part is not None)
    return out.detach(), torch.autograd.grad(loss, [x, *net.parameters()])


@pytest.mark.parametrize(
    "steps, engine, operations",
    [
        (SHORT, "auto", 0),
        (LONG, "auto", 2),
        (SHORT, "cpp", 2),
        pytest.param(LONG, "block", 2, marks=pytest.mark.slow),
        pytest.param(LONG, "eager", 0, marks=pytest.mark.slow),
    ],
)
def test_short_loops_are_inlined_and_long_ones_one_operation(steps, engine, operations):
    net, graphs = network(engine=engine), Graphs()
    x = (torch.rand(steps, 4, 5, dtype=torch.float64) * 5).requires_grad_()
    expected = gradients(net, net, x)
    assert 0 < net.record(x).layers[1].mean() < 1
    found = gradients(torch.compile(net, fullgraph=True, backend=graphs), net, x)
    assert graphs.unrolled == [operations]
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("steps", [pytest.param(SHORT, marks=pytest.mark.slow), LONG])
def test_inductor_gives_the_same(steps):
    net = network()
    x = (torch.rand(steps, 4, 5, dtype=torch.float64) * 5).requires_grad_()
    found = gradients(torch.compile(net, fullgraph=True), net, x)
    torch.testing.assert_close(found, gradients(net, net, x), rtol=1e-9, atol=1e-12)


def test_a_changed_constant_compiles_anew():
    net, graphs = Sequential(LIF(2.0)), Graphs()
    model = torch.compile(net, fullgraph=True, backend=graphs)
    x = torch.rand(LONG, 3, 4, dtype=torch.float64) * 2
    before, _ = model(x)
    net[0].tau = 20.0
    after, _ = model(x)
    assert before.sum() > 0 and not torch.equal(before, after)
    assert torch.equal(after, LIF(20.0)(x)[0])
    assert graphs.unrolled == [1, 1]


def test_any_number_of_steps_and_samples_in_one_graph():
    net, graphs = network(), Graphs()
    model = torch.compile(net, fullgraph=True, backend=graphs, dynamic=True)
    for steps, batch in ((LONG, 4), (LONG + 3, 5), (2 * LONG, 7)):
        x = (torch.rand(steps, batch, 5, dtype=torch.float64) * 5).requires_grad_()
        torch.testing.assert_close(gradients(model, net, x), gradients(net, net, x), rtol=1e-9, atol=1e-12)
    assert graphs.unrolled == [2]


def test_state_goes_in_and_out():
    net = Sequential(CubaLIF())
    model = torch.compile(net, fullgraph=True, backend="aot_eager")
    x = (torch.rand(2 * LONG, 3, 4, dtype=torch.float64) * 2).requires_grad_()
    whole, _ = net(x)
    first, state = model(x[:LONG])
    second, _ = model(x[LONG:], state)
    assert type(state[0]) is type(net(x)[1][0])
    assert torch.equal(torch.cat([first, second]), whole)
    expected = torch.autograd.grad(whole[LONG:].sum(), x)
    torch.testing.assert_close(torch.autograd.grad(second.sum(), x), expected, rtol=1e-9, atol=1e-12)


def test_images_with_a_number_per_channel_and_any_layout():
    neuron = LIF(nn.Parameter(torch.linspace(1.5, 3.0, 6, dtype=torch.float64).reshape(6, 1, 1)))
    model = torch.compile(neuron, fullgraph=True, backend="aot_eager")
    x = torch.rand(LONG, 2, 6, 3, 3, dtype=torch.float64) * 1.5
    channels_last = x.flatten(0, 1).contiguous(memory_format=torch.channels_last).unflatten(0, x.shape[:2])
    for image in (x, channels_last, x[:1].expand(LONG, *x.shape[1:])):
        results = []
        for call in (model, neuron):
            leaf = image.detach().requires_grad_()
            out, _ = call(leaf)
            assert out.stride()[1:] == call(leaf)[1].v.stride()
            results.append((out, *torch.autograd.grad((out * 0.3).sum(), [leaf, neuron.tau])))
        torch.testing.assert_close(results[0], results[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("engine", [pytest.param("block", marks=pytest.mark.slow), "cpp"])
def test_the_operation_keeps_the_rules_of_operations(engine):
    neuron = PLIF(shape=(4,), engine=engine).double()
    handle = ops.handle_of(neuron, engine, torch.float64, "cpu")
    assert handle.startswith(f"{engine}:")
    x = (torch.rand(5, 3, 4, dtype=torch.float64) * 2).requires_grad_()
    v = torch.rand(3, 4, dtype=torch.float64, requires_grad=True)
    torch.library.opcheck(torch.ops.snnkit.unroll, (x, [v], [neuron.w], handle, False))
    torch.library.opcheck(
        torch.ops.snnkit.unroll_backward,
        (x.detach(), [v.detach()], [neuron.w.detach()], x.detach(), [v.detach()], handle, [True, True]),
    )


@pytest.mark.usefixtures("plain_blocks")
def test_another_engine_than_the_requested_one_is_said_here_too():
    neuron, x, graphs = LIF(engine="triton"), torch.rand(LONG, 2, 3), Graphs()
    with pytest.warns(UserWarning, match="LIF runs in the block engine: the Triton engine is made for CUDA devices"):
        out, _ = torch.compile(neuron, backend=graphs, fullgraph=True)(x)
    assert graphs.unrolled == [1] and torch.equal(out, LIF(engine="eager")(x)[0])


def test_an_equation_that_mixes_neurons_is_inlined():
    class Mixing(Neuron):
        def step(self, x, state):
            return x - x.mean(), MembraneState(state.v)

    graphs, x = Graphs(), torch.rand(LONG, 3, 4)
    model = torch.compile(Mixing(), fullgraph=True, backend=graphs)
    assert torch.equal(model(x)[0], Mixing(engine="eager")(x)[0])
    assert graphs.unrolled == [0]


def test_an_equation_from_another_process_is_not_known():
    with pytest.raises(RuntimeError, match="equation 'abc' is not known in this process"):
        torch.ops.snnkit.unroll(torch.rand(2, 3), [], [], "cpp:abc", False)


@pytest.mark.parametrize("steps", [SHORT, LONG])
def test_a_long_recurrent_loop_is_compiled_step_by_step(steps):
    torch.manual_seed(0)
    net, graphs = Sequential(Recurrent(PLIF(shape=(6,)), 6), nn.Linear(6, 3)).double(), Graphs()
    x = (torch.rand(steps, 4, 6, dtype=torch.float64) * 5).requires_grad_()
    compiled = torch.compile(net, backend=graphs)
    results = []
    for model in (net, compiled):
        out, (last, _) = model(x)
        again, _ = model(x, (last, None))
        gradients = torch.autograd.grad(again.sum() + out.square().sum(), [x, *net.parameters()])
        results.append([out, again, last.out, last.neuron.v, *gradients])
    assert 0 < results[0][2].mean() < 1
    for expected, actual in zip(*results, strict=True):
        torch.testing.assert_close(actual, expected)
    products = [sum("linear" in call for call in graph) for graph in graphs.calls]
    assert max(products) == (steps + 1 if steps == SHORT else 1)


@pytest.mark.parametrize("made", [OneToOne(LIF()), Refractory(LIF(), 2)], ids=["OneToOne", "Refractory"])
def test_a_neuron_around_another_is_compiled_in_its_first_call(made):
    x = torch.rand(SHORT, 3, 5) * 5
    # Refractory makes its neuron again with ``__new__``, which older versions leave to Python.
    whole = isinstance(made, OneToOne) or TORCH >= (2, 13)
    out, _ = torch.compile(made, backend="eager", fullgraph=whole)(x)
    assert torch.equal(out, made(x)[0])


class Leaves(Neuron):
    """Its step is not compiled: torch.compile gives up the call and goes on with every function that it finds there."""

    def __init__(self, what):
        super().__init__(surrogate=ATan())
        self.what = what

    def step(self, x, state):
        if self.what == "prints":
            print(end="")
        elif x.sum().item() > 1e9:
            x = x * 2
        v = 0.9 * state.v + x
        spikes = self.spike(v - 1)
        return spikes, MembraneState(v - spikes)


@pytest.mark.parametrize("steps", [SHORT, LONG])
@pytest.mark.parametrize("what", ["prints", "looks"])
def test_a_step_that_is_left_to_python_gives_what_it_gives_without_a_compiler(what, steps):
    net = Sequential(nn.Linear(5, 4), LIF(), nn.Linear(4, 3), Leaves(what))
    x = (torch.rand(steps, 3, 5) * 5).requires_grad_()
    results = []
    for model in (net, torch.compile(net, backend="eager")):
        out, _ = model(x)
        results.append((out, *torch.autograd.grad(out.square().sum(), [x, *net.parameters()])))
    assert results[0][0].any()
    torch.testing.assert_close(*results)


def images(channels_last=True):
    x = 2 * torch.rand(4, 2, 8, 8, 32).permute(0, 1, 4, 2, 3)
    layers = [nn.Conv2d(32, 32, 3, padding=1), LIF(engine="cpp"), nn.MaxPool2d(2), nn.Conv2d(32, 8, 3), nn.Flatten()]
    net = Sequential(*layers, nn.Linear(32, 6))
    return net.to(memory_format=torch.channels_last) if channels_last else net, x


KERNELS = {
    "neurons": lambda: (Sequential(nn.Linear(5, 6), LIF(engine="cpp")), torch.rand(9, 4, 5) * 5),
    "neurons of a parameter": lambda: (network(engine="cpp").float(), torch.rand(9, 4, 5) * 5),
    "recurrent neurons": lambda: (Sequential(Recurrent(LIF(engine="cpp"), 5)), torch.rand(9, 4, 5) * 5),
    "images, pooled by the neurons": images,
    "images": lambda: images(channels_last=False),
}


@pytest.mark.parametrize("case", KERNELS)
def test_compiled_autograd_leaves_backward_passes_of_kernels_to_python(case, monkeypatch):
    compiled_autograd = pytest.importorskip("torch._dynamo.compiled_autograd")
    monkeypatch.setattr(pooling, "_INPUTS", 1)
    monkeypatch.setattr(linear, "COUNTED", 1)
    monkeypatch.setattr(linear, "_PAYING", 1)
    torch.manual_seed(0)
    net, x = KERNELS[case]()
    x.requires_grad_()
    wanted = [x, *net.parameters()]
    for _ in range(2):  # the second call of a kernel takes a shorter way
        expected = torch.autograd.grad(net(x)[0].square().sum(), wanted)
        assert expected[0].any()
        loss = net(x)[0].square().sum()
        with compiled_autograd._enable(torch.compile(backend="eager")):
            loss.backward()
        for tensor, gradient in zip(wanted, expected, strict=True):
            torch.testing.assert_close(tensor.grad, gradient)
            tensor.grad = None
