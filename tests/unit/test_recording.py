"""nn.recording and nn.ablate: spikes and states of any module, as the network itself has them."""

import copy
import pickle
import threading
import warnings
import weakref

import pytest
import torch
import torch.distributed as dist
from torch import nn as torch_nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from snnkit import device, engine, nn
from snnkit.device import memory_saving
from snnkit.loss import spike_rate_regulariser
from snnkit.neuron import LI, LIF, CubaLIF, Leaky
from snnkit.neuron.base import MembraneState
from snnkit.neuron.leaky import LeakyState


class Block(torch_nn.Module):
    """A module of somebody else with a neuron in it."""

    def __init__(self, again=False):
        super().__init__()
        self.linear, self.lif1, self.again = torch_nn.Linear(6, 6), LIF(), again

    def forward(self, x, state=None):
        if self.again:
            return checkpoint(self.lif1, self.linear(x), state, use_reentrant=False)
        return self.lif1(self.linear(x), state)


def network(again=False):
    torch.manual_seed(0)
    inner = nn.Sequential(Block(again), nn.Recurrent(LIF(v_threshold=0.3), 6))
    net = nn.Sequential(torch_nn.Linear(4, 6), Leaky(0.9), inner, torch_nn.Linear(6, 2), LI())
    for linear in (net[0], inner[0].linear):
        torch_nn.init.uniform_(linear.weight, -0.5, 1.5)
    return net


LAYERS = ["1", "2.0.lif1", "2.1.neuron"]


@pytest.fixture
def x():
    return torch.rand(7, 3, 4, generator=torch.Generator().manual_seed(1))


def by_hand(net, x):
    """The spikes and the state after every step, one step at a time."""
    net, state, spikes, states = copy.deepcopy(net), None, [], []
    for x_t in x:
        every = []
        hidden, s1 = net[1](net[0](x_t[None]), state and state[0])
        first, s2 = net[2][0](hidden, state and state[1])
        second, s3 = net[2][1](first, state and state[2])
        _, s4 = net[4](net[3](second), state and state[3])
        state, every = (s1, s2, s3, s4), [hidden[0], first[0], second[0]]
        spikes.append(every)
        states.append((s1, s2, s3.neuron, s4))
    return [torch.stack(s) for s in zip(*spikes, strict=True)], [
        type(s[0])(*map(torch.stack, zip(*s, strict=True))) for s in zip(*states, strict=True)
    ]


def assert_recorded(rec, net, x):
    spikes, states = by_hand(net, x)
    assert list(rec.spikes) == LAYERS and list(rec.states) == [*LAYERS, "4"]
    for found, expected in zip(rec.spikes.values(), spikes, strict=True):
        assert torch.equal(found, expected) and 0 < found.mean() < 1
    for found, expected in zip(rec.states.values(), states, strict=True):
        assert type(found) is type(expected)
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


def test_spikes_and_the_state_after_every_step(x):
    net = network()
    with nn.recording(net, states=True) as rec:
        out, state = net(x)
    assert_recorded(rec, net, x)
    assert type(rec.states["1"]) is LeakyState and type(rec.states["2.0.lif1"]) is MembraneState
    assert torch.equal(rec.states["4"].v, out) and torch.equal(rec.states["1"].mem[-1], state[1].mem)
    plain, last = net(x)
    assert torch.equal(plain, out) and torch.equal(last[1].mem, state[1].mem)


def test_states_are_empty_unless_they_are_wanted(x):
    net = network()
    with nn.recording(net) as rec:
        net(x)
    assert list(rec.spikes) == LAYERS and rec.states == {}
    with pytest.raises(KeyError, match=r"is '1'; states are recorded by recording\(net, states=True\)"):
        rec.states["1"]
    with pytest.raises(KeyError, match=r"one of those recorded \('1', '2.0.lif1', '2.1.neuron'\), but it is 'lif'"):
        rec.spikes["lif"]


def test_the_spikes_are_the_tensors_that_the_next_layers_got(x):
    net = network()
    with nn.recording(net) as rec:
        out, _ = net(x)
    saliency = torch.autograd.grad(out.sum(), [rec.spikes[name] for name in LAYERS[:2]], retain_graph=True)
    assert all(gradient.abs().sum() > 0 for gradient in saliency)
    spike_rate_regulariser(rec.spikes.values(), target=0.3, weight=1.0).backward()
    assert net[0].weight.grad.abs().sum() > 0


def test_the_last_call_counts_and_a_network_may_run_in_its_parts(x):
    net = network()
    with nn.recording(net, states=True) as rec:
        with pytest.raises(RuntimeError, match="spikes of a recording can be read once the network has run"):
            list(rec.spikes)
        with pytest.raises(RuntimeError, match="states of a recording can be read once the network has run"):
            list(rec.states)
        net(x)
        _, state = net(x[:3])
        assert len(rec.spikes["1"]) == 3 and len(rec.states["2.1.neuron"].v) == 3
        net(x[3:], state)
        assert len(rec.spikes["2.1.neuron"]) == 4
    net(x)
    assert len(rec.spikes["1"]) == 4


class Twice(torch_nn.Module):
    def __init__(self):
        super().__init__()
        self.lif = LIF()

    def forward(self, x, state=None):
        state, outs = None, []
        for x_t in x.split(2):
            out, state = self.lif(2 * x_t, state)
            outs.append(out)
        self.first = torch.cat(outs)
        self.second, state = self.lif(self.first)
        return self.second, state


def test_parts_of_a_sequence_are_one_entry_and_a_second_use_is_another(x):
    net = Twice()
    for wrapped in (net, nn.Sequential(net)):
        prefix = "" if wrapped is net else "0."
        with nn.recording(wrapped, states=True) as rec:
            wrapped(x)
        assert list(rec.spikes) == list(rec.states) == [f"{prefix}lif", f"{prefix}lif#2"]
        assert torch.equal(rec.spikes[f"{prefix}lif"], net.first) and net.first.sum() > 0
        assert torch.equal(rec.spikes[f"{prefix}lif#2"], net.second)
        assert torch.equal(rec.states[f"{prefix}lif"].v[-1], LIF()(2 * x)[1].v)
        assert rec.spikes[f"{prefix}lif"] is rec.spikes[f"{prefix}lif"]  # joined once
    shared = LIF()
    both = nn.Sequential(shared, torch_nn.Linear(4, 4), shared)
    with nn.recording(both) as rec:
        both(2 * x)
    assert list(rec.spikes) == ["0", "0#2"]
    assert torch.equal(rec.spikes["0"], both.record(2 * x).layers[0])


def test_a_neuron_alone(x):
    lif = LIF()
    with nn.recording(lif, states=True) as rec:
        out, state = lif(2 * x)
    assert rec.spikes["(model)"] is out and torch.equal(rec.states["(model)"].v[-1], state.v)


# --- wrappers, runners, and what PyTorch does to modules --------------------------------------------------------------


def test_compiled_networks_run_uncompiled(x):
    net = network()
    compiled = torch.compile(net, backend="eager")
    expected, _ = compiled(x)
    in_place = network()
    in_place.compile(backend="eager")
    in_place(x)

    @torch.compile(backend="eager")
    def function(x):
        return net(x)[0]

    function(x)
    inner = network()
    inner._modules["2"] = torch.compile(inner[2], backend="eager")
    calls = [(compiled, compiled), (net, compiled), (in_place, in_place), (net, function), (inner, inner)]
    for recorded, called in calls:
        with nn.recording(recorded, states=True) as rec:
            called(x)
        assert_recorded(rec, net, x)
        with nn.ablate(recorded, {"1": torch.zeros(6)}), nn.recording(recorded) as rec:
            called(x)
        assert rec.spikes["1"].sum() == 0
    assert torch.compiler.is_compiling() is False
    with torch._dynamo.config.patch(error_on_recompile=True):
        torch.testing.assert_close(compiled(x)[0], expected)


def test_a_context_inside_compiled_code_is_refused():
    lif = LIF()

    @torch.compile(backend="eager")
    def inside(x):
        with nn.recording(lif) as rec:
            lif(x)
        return rec.spikes["(model)"]

    with pytest.raises(Exception, match=r"outside of what torch.compile compiles|dynamo"):
        inside(torch.rand(3, 2, 4))
    with nn.recording(lif) as rec:
        lif(torch.rand(3, 2, 4))
    assert rec.spikes["(model)"].shape == (3, 2, 4)


@pytest.fixture
def one_process(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'gloo'}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_data_parallel_networks_have_the_names_of_the_network(x, one_process):
    net = network()
    for parallel in (DistributedDataParallel(net), torch.compile(DistributedDataParallel(net), backend="eager")):
        with nn.recording(parallel, states=True) as rec:
            out, _ = parallel(x)
        assert_recorded(rec, net, x)
        (out.sum() + spike_rate_regulariser(rec.spikes.values(), target=0.3, weight=1.0)).backward()
        with nn.ablate(parallel, {"2.0.lif1": torch.zeros(6, dtype=torch.bool)}), nn.recording(net) as rec:
            parallel(x)
        assert rec.spikes["2.0.lif1"].sum() == 0 < rec.spikes["1"].sum()


def images(again=True):
    """A convolutional network, and what it takes; ``again``: whose neurons backward computes again."""
    torch.manual_seed(0)
    layers = [torch_nn.Conv2d(1, 4, 3), LIF(), torch_nn.MaxPool2d(2), torch_nn.Flatten(), torch_nn.Linear(36, 3), LIF()]
    net = nn.Sequential(*layers).double()
    if again:
        net.runner = memory_saving.MemorySaving(steps=None if again == "layers" else 2)
    return net, 4 * torch.rand(4, 5, 1, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("again", ["layers", "time"])
def test_networks_that_save_memory(again, monkeypatch):
    monkeypatch.setitem(memory_saving.PIECE, "cpu", 2**10)
    results = []
    for kind in (again, False):
        net, x = images(kind)
        mask = torch.arange(4)[:, None, None] > 0
        with nn.ablate(net, {"1": mask}), nn.recording(net, states=True) as rec:
            out, _ = net(x)
        loss = out.sum() + rec.states["1"].v.square().sum() + rec.spikes["5"].mean()
        loss.backward()  # outside of the contexts
        assert list(rec.spikes) == ["1", "5"] and rec.spikes["1"].shape == (4, 5, 4, 6, 6)
        assert rec.spikes["1"][:, :, 0].sum() == 0 < rec.spikes["1"].sum()
        results.append((out, *rec.spikes.values(), *(p.grad for p in net.parameters())))
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected)


def test_an_activation_checkpoint_is_recorded_once(x):
    gradients = []
    for again in (True, False):
        net = network(again)
        with nn.recording(net, states=True) as rec, nn.ablate(net, {"2.0.lif1": torch.arange(6) > 2}):
            out, _ = net(x)
            before = dict(rec.spikes)
            (out.sum() + rec.spikes["2.0.lif1"].sum() + rec.states["2.0.lif1"].v.sum()).backward()
            assert list(rec.spikes) == LAYERS and all(rec.spikes[name] is before[name] for name in LAYERS)
        gradients.append([p.grad for p in net.parameters() if p.grad is not None])
    torch.testing.assert_close(*gradients)


def checkpointed(kind, features=6, steps=7):
    """A call x -> out that backward computes again, its network, and x: there another engine would run otherwise."""
    torch.manual_seed(0)
    cells = {
        "recurrent": lambda: nn.Recurrent(LIF(v_threshold=0.3), features),
        "few steps": lambda: LIF(v_threshold=0.3),  # compiled, but with the states recorded in eager
        "cubes": lambda: nn.Sequential(CubaLIF(), nn.Recurrent(LIF(v_threshold=0.2), features)),
    }
    net = nn.Sequential(torch_nn.Linear(4, features), cells[kind]())
    torch_nn.init.uniform_(net[0].weight, -0.5, 1.5)
    return net, 2 * torch.rand(steps, 3, 4)


def gradients_of(net, out, *more):
    net.zero_grad()
    (out.sum() + sum(part.sum() for part in more)).backward()
    return [p.grad.clone() for p in net.parameters() if p.grad is not None]


@pytest.mark.parametrize("states", [False, True])
@pytest.mark.parametrize("kind", ["recurrent", "few steps", "cubes"])
def test_backward_after_the_recording_computes_a_checkpoint_again_as_it_was(kind, states):
    net, x = checkpointed(kind)
    name = list(dict(net.named_modules()))[-2 if kind != "few steps" else -1]
    results = []
    for run in (lambda x: net(x)[0], lambda x: checkpoint(lambda x: net(x)[0], x, use_reentrant=False)):
        with nn.recording(net, states=states) as rec:
            out = run(x)
            seen = [next(iter(rec.spikes.values()))] + ([rec.states[name].v] if states else [])
        results.append(gradients_of(net, out, *seen))  # outside of the context
        assert out.sum() > 0
    assert all(map(torch.equal, *results))


@pytest.mark.parametrize("kind", ["recurrent", "few steps"])
def test_backward_after_ablate_computes_a_checkpoint_again_as_it_was(kind):
    net, x = checkpointed(kind)
    name = "1.neuron" if kind == "recurrent" else "1"
    results = []
    for run in (lambda x: net(x)[0], lambda x: checkpoint(lambda x: net(x)[0], x, use_reentrant=False)):
        with nn.ablate(net, {name: torch.arange(6) > 2}):
            out = run(x)
        with (
            pytest.warns(UserWarning, match="changed nothing"),  # it is not the one of the first computation
            nn.ablate(net, {name: torch.zeros(6)}),
            nn.recording(net, states=True) as rec,
        ):
            results.append(gradients_of(net, out))
            with pytest.raises(RuntimeError, match="no neuron of it has"):
                list(rec.spikes)
    assert all(map(torch.equal, *results)) and results[0][0][3:].any()


def test_checkpoints_in_checkpoints_and_contexts_in_them(x):
    net, x = checkpointed("recurrent")
    other = LIF(v_threshold=0.5)

    def inside(x):
        out, _ = other(net(x)[0])
        with nn.recording(other, states=True) as rec, nn.ablate(other, torch.arange(6) > 1):
            out, _ = other(out)
        return out + rec.states["(model)"].v

    def inner(x):
        return checkpoint(inside, 1.0 * x, use_reentrant=False)

    results = []
    for run in (inside, inner, lambda x: checkpoint(inner, x, use_reentrant=False)):
        with nn.recording(net, states=True) as rec:
            out = run(x)
            v = rec.states["1.neuron"].v
        results.append(gradients_of(net, out, v))
        results.append(gradients_of(net, run(x)))
    assert all(map(torch.equal, results[0], results[2])) and all(map(torch.equal, results[0], results[4]))
    for found in (results[3], results[5]):
        torch.testing.assert_close(found, results[1])


def test_a_network_that_saves_memory_in_a_checkpoint_of_ones_own():
    results = []
    for kind in ("layers", False):
        net, x = images(kind)
        with nn.recording(net, states=True):
            out = checkpoint(lambda x: net(x)[0], x, use_reentrant=False)  # noqa: B023
        results.append(gradients_of(net, out))
    torch.testing.assert_close(*results)


def test_a_compiled_network_in_a_checkpoint_runs_uncompiled_again():
    calls = []
    net, x = checkpointed("few steps")
    net = nn.Sequential(Counting(calls), *net)
    compiled = torch.compile(net, backend="eager")
    compiled(x)
    calls.clear()
    with nn.recording(net, states=True):
        out = checkpoint(lambda x: compiled(x)[0], x, use_reentrant=False)
    gradients_of(net, out)
    assert len(calls) == 2
    compiled(x)
    assert len(calls) == 2  # compiled again: the code of the module does not run


class Counting(torch_nn.Module):
    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.calls.append(len(x))
        return x * 2


def test_backward_of_a_checkpoint_in_another_thread_and_its_memory():
    net, x = checkpointed("recurrent")
    with nn.recording(net, states=True) as rec:
        out = checkpoint(lambda x: net(x)[0], x, use_reentrant=False)
        v = weakref.ref(rec.states["1.neuron"].v)
    found = []
    thread = threading.Thread(target=lambda: found.append(gradients_of(net, out)))
    thread.start()
    thread.join()
    assert found
    with nn.recording(net, states=True) as rec:
        out = checkpoint(lambda x: net(x)[0], x, use_reentrant=False)
        v = weakref.ref(rec.states["1.neuron"].v)
    del rec
    assert v() is None  # the graph of ``out`` does not hold what was recorded
    gradients_of(net, out)


def test_static_and_narrow_input_and_spikes_of_one_byte(x):
    still = x[:1].expand(7, 3, 4)
    for given in (still, x.half(), x.bfloat16(), still.half()):
        net = nn.Sequential(torch_nn.Identity(), nn.Once(torch_nn.Identity()), LIF(1.1), LI()).to(given.dtype)
        with nn.recording(net, states=True) as rec:
            net(given)
        spikes, state = LIF(1.1)(given.contiguous())
        assert torch.equal(rec.spikes["2"], spikes) and torch.equal(rec.states["2"].v[-1], state.v)
        assert rec.spikes["2"].dtype == given.dtype and rec.states["2"].v.dtype == torch.float32
    lif = LIF()
    with nn.recording(lif) as rec, nn.ablate(lif, torch.tensor([True, False, True, True])):
        lif(2 * still, out_dtype=torch.uint8)
    assert rec.spikes["(model)"].dtype == torch.uint8 and rec.spikes["(model)"][..., 1].sum() == 0
    with nn.recording(lif) as rec:
        lif(2 * x[0], repeat=9)
    assert rec.spikes["(model)"].shape == (9, 3, 4)


class ByStep(torch_nn.Module):
    """A loop of its own, which calls the neuron's step."""

    def __init__(self):
        super().__init__()
        self.cell = LIF()

    def forward(self, x):
        state, out = self.cell.initial_state(x[0]), []
        for step in x:
            spike, state = self.cell.step(step, state)
            out.append(spike)
        return torch.stack(out), state


def test_where_only_a_step_is_called_it_is_said(x):
    net = ByStep()
    with nn.recording(net) as rec:
        net(x)
    with pytest.raises(RuntimeError, match=r"whose step is called is not seen, so call neuron\(x\[None\], state\)"):
        rec.spikes  # noqa: B018
    with (
        pytest.warns(
            UserWarning, match="mask of 'cell' changed nothing, .* whose step is called is not masked"
        ) as told,
        nn.ablate(net, {"cell": torch.zeros(4)}),
    ):
        net(x)
    assert told[0].filename == __file__
    assert str(engine.explain(net, x)).startswith("no neuron of this model was called on a sequence")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with nn.ablate(net, {"cell": torch.zeros(4)}):
            assert not net.cell(x)[0].any()
        with pytest.raises(ZeroDivisionError), nn.ablate(net, {"cell": torch.zeros(4)}):
            raise ZeroDivisionError


def test_a_copy_made_meanwhile_is_an_ordinary_network(x):
    net = network()
    with nn.recording(net) as rec, nn.ablate(net, {"1": torch.zeros(6)}):
        copies = copy.deepcopy(net), pickle.loads(pickle.dumps(net))
        for other in copies:
            with pytest.raises(RuntimeError, match="no neuron of it has"):
                other(x) and rec.spikes
        net(x)
        for other in copies:
            other(x[:2])
        assert len(rec.spikes["1"]) == 7 and rec.spikes["1"].sum() == 0
    assert torch.equal(copies[0](x)[0], net(x)[0]) and torch.equal(copies[1](x)[0], net(x)[0])


def untouched(net):
    return not any(module._forward_pre_hooks or module._forward_hooks for module in net.modules())


def test_contexts_end_with_an_error_and_within_each_other(x):
    net = network()
    plain, _ = net(x)
    with pytest.raises(ZeroDivisionError), nn.recording(net) as rec, nn.ablate(net, {"1": torch.zeros(6)}):
        net(x)
        raise ZeroDivisionError
    assert untouched(net) and torch.equal(net(x)[0], plain) and rec.spikes["1"].sum() == 0
    with nn.recording(net) as outer:
        with nn.recording(net[2], states=True) as inner:
            net(x)
        assert list(inner.spikes) == ["0.lif1", "1.neuron"] and list(outer.spikes) == LAYERS
        assert inner.spikes["0.lif1"] is outer.spikes["2.0.lif1"]
        net(x[:2])
    assert len(inner.spikes["0.lif1"]) == 7 and len(outer.spikes["2.0.lif1"]) == 2
    with nn.recording(net) as rec:
        with pytest.raises(ValueError, match="x must be a sequence"):
            net(x[0, 0])
        net(x)
    assert list(rec.spikes) == LAYERS and untouched(net)


def test_threads(x):
    """A thread without a recording of its own works for that of another; one with its own does not."""
    net, other = network(), network()
    found = {}

    def elsewhere():
        found["seen"] = net(x)[0]
        with nn.recording(other) as own:
            other(x[:2])
            net(x[:3])
        found["own"] = len(own.spikes["1"])

    with nn.recording(net) as rec, nn.ablate(net, {"1": torch.zeros(6)}):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert found["own"] == 2 and torch.equal(found["seen"], rec_out(net, x))
    assert list(rec.spikes) == LAYERS


def rec_out(net, x):
    with nn.ablate(net, {"1": torch.zeros(6)}):
        return net(x)[0]


# --- learning from what was recorded ----------------------------------------------------------------------------------


def test_a_loss_on_every_membrane_trains_as_a_loop_over_time_does(x):
    """The loop of snnTorch's tutorials: cross-entropy of the membrane at each step, added up."""
    labels, gradients = torch.tensor([0, 1, 2]), []
    torch.manual_seed(0)
    net = nn.Sequential(torch_nn.Linear(4, 8), Leaky(0.9), torch_nn.Linear(8, 3), Leaky(0.8)).double()
    x = 3 * x.double()
    with nn.recording(net, states=True) as rec:
        net(x)
    loss = sum(torch_nn.functional.cross_entropy(mem, labels) for mem in rec.states["3"].mem)
    gradients.append(torch.autograd.grad(loss, list(net.parameters())))
    state, loss = None, 0.0
    for x_t in x:
        _, state = net(x_t[None], state)
        loss = loss + torch_nn.functional.cross_entropy(state[3].mem, labels)
    gradients.append(torch.autograd.grad(loss, list(net.parameters())))
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-12)


def test_membranes_are_those_that_snntorch_returns(x):
    snntorch = pytest.importorskip("snntorch")
    theirs, x = snntorch.Leaky(beta=0.9), 3 * x
    mem, mem_rec = theirs.init_leaky(), []
    for x_t in x:
        _, mem = theirs(x_t, mem)
        mem_rec.append(mem)
    ours = Leaky(0.9)
    with nn.recording(ours, states=True) as rec:
        ours(x)
    torch.testing.assert_close(rec.states["(model)"].mem, torch.stack(mem_rec))


# --- lesions ----------------------------------------------------------------------------------------------------------


def test_a_lesion_multiplies_spikes_before_the_next_layer_gets_them(x):
    net = network()
    mask = torch.tensor([1.0, 0.0, 0.5, 1.0, 1.0, 0.0])
    hidden, _ = net[1](net[0](x))
    for options in ((net, {"1": mask}), (net[1], mask)):
        with nn.ablate(*options), nn.recording(net, states=True) as rec:
            out, _ = net(x)
        assert torch.equal(rec.spikes["1"], hidden * mask)
        first, _ = net[2][0](hidden * mask)
        assert torch.equal(rec.spikes["2.0.lif1"], first)
        assert torch.equal(rec.states["1"].mem[-1], net(x)[1][1].mem)  # the neuron itself goes on as before
    with nn.ablate(net[1], mask), nn.ablate(net, {"1": mask.bool(), "4": torch.tensor(0.0)}):
        with nn.recording(net) as rec:
            out, _ = net(x)
        assert torch.equal(rec.spikes["1"], hidden * mask) and out.abs().sum() == 0


def test_recurrent_neurons_do_not_hear_the_lesioned(x):
    torch.manual_seed(0)
    net = nn.Recurrent(LIF(), 4)
    with nn.ablate(net, {"neuron": torch.zeros(4)}), nn.recording(net, states=True) as rec:
        out, _ = net(2 * x)
    assert out.sum() == 0 and torch.equal(rec.states["neuron"].v[-1], LIF()(2 * x)[1].v)


def test_a_mask_has_a_gradient():
    x = 2 * torch.rand(5, 2, 3, dtype=torch.float64)
    mask = torch.ones(3, dtype=torch.float64, requires_grad=True)
    lif = LIF()
    with nn.ablate(lif, mask):
        out, _ = lif(x)
    out.sum().backward()
    assert torch.equal(mask.grad, lif(x)[0].sum((0, 1)))


MASKS = [
    ([1, 0], TypeError, r"mask must be a Tensor or|mask must be a torch.Tensor"),
    (
        torch.ones(4, dtype=torch.int64),
        TypeError,
        "mask of LIF must be bool or floating point, but its dtype is torch.int",
    ),
    (torch.tensor([1.0, float("nan")]), ValueError, "mask of LIF must be finite, but it holds a NaN or an infinity"),
]


@pytest.mark.parametrize(("mask", "error", "message"), MASKS)
def test_bad_masks_are_refused_at_once(mask, error, message):
    with pytest.raises(error, match=message):
        nn.ablate(LIF(), mask)


def test_bad_arguments_are_refused_by_name(x):
    net = network()
    for function in (lambda n: nn.recording(n), lambda n: nn.ablate(n, {"1": torch.ones(1)})):
        with pytest.raises(ValueError, match=r"(net|module) must have a neuron in it, but Linear has none"):
            function(torch_nn.Linear(2, 2))
        with pytest.raises(TypeError, match=r"(net|module) must be a torch.nn.Module, but it is"):
            function(lambda x: x)
    with pytest.raises(TypeError, match="states must be True or False"):
        nn.recording(net, states="v")
    with pytest.raises(
        TypeError, match="mask must be a dict from names of neurons to tensors, as module is a Sequential"
    ):
        nn.ablate(net, torch.ones(6))
    with pytest.raises(ValueError, match=r"neurons in module \(1, 2.0.lif1, 2.1.neuron, 4\), but it holds '0'"):
        nn.ablate(net, {"1": torch.ones(6), "0": torch.ones(6)})
    for mask in (torch.ones(5), torch.ones(1, 1, 6), torch.ones(2, 6), torch.ones(0)):
        text = r"mask of '1' must broadcast against a step of its spikes, \[3, 6\], but its shape is"
        with pytest.raises(ValueError, match=text), nn.ablate(net, {"1": mask}):
            net(x)
    elsewhere = {"1": torch.ones(6, dtype=torch.bool, device="meta")}
    text = "mask of '1' must be on cpu, as its spikes are, but it is on meta"
    with pytest.raises(ValueError, match=text), nn.ablate(net, elsewhere):
        net(x)
    lif, text = LIF(), r"mask of LIF must be bool where spikes are bytes \(out_dtype\), but it is torch.float32"
    with pytest.raises(TypeError, match=text), nn.ablate(lif, torch.ones(4)):
        lif(x, out_dtype=torch.uint8)
    net(x)


def test_the_optimised_network_says_what_it_does_and_records(x):
    net = nn.Sequential(torch_nn.Linear(4, 6), CubaLIF())
    device.optimize_memory_usage(net, x)
    with nn.recording(net, states=True) as rec:
        net(x)
    assert rec.states["1"].i.shape == (7, 3, 6)
