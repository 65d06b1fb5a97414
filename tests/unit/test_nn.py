"""Sequential threads state and batches time; a static input is computed once."""

import functools

import pytest
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook
from torch.utils.flop_counter import FlopCounterMode

import snnkit.nn
from snnkit import encode, engine, linear, models
from snnkit.device import optimize_memory_usage, restore_memory_usage, truncated
from snnkit.neuron import LIF, MembraneState, Recurrent
from snnkit.nn import Once, PerStep, Residual, Sequential, TimeBatched, Voting, detach, is_static


class Counting(nn.Linear):
    """A linear layer that counts the rows it multiplies."""

    rows = 0

    def forward(self, x):
        self.rows += x.shape[0]
        return super().forward(x)


def network():
    low = {"v_threshold": 0.1}
    return Sequential(
        nn.Linear(4, 6), LIF(**low), nn.Linear(6, 6), Recurrent(LIF(**low), 6), nn.Linear(6, 3), LIF(**low)
    )


def test_equals_a_loop_over_time():
    net, x = network().double(), torch.rand(7, 2, 4, dtype=torch.float64) * 9
    out, _ = net(x)
    state, outs = None, []
    for x_t in x:
        step, state = net(x_t.unsqueeze(0), state)
        outs.append(step)
    assert out.sum() > 0
    torch.testing.assert_close(torch.cat(outs), out, rtol=0, atol=0)


def test_static_input_is_computed_once():
    layer = Counting(4, 6)
    net = Sequential(layer, LIF())
    static = (torch.rand(2, 4) * 3).expand(25, 2, 4)
    out, _ = net(static)
    assert layer.rows == 2
    moving, _ = net(static.clone())
    assert layer.rows == 2 + 50
    torch.testing.assert_close(out, moving, rtol=0, atol=0)


def test_gradients_of_a_static_input_are_those_of_a_copy():
    weights = []
    for make in (lambda x: x.expand(6, 2, 4), lambda x: x.repeat(6, 1, 1)):
        torch.manual_seed(0)
        net, x = Sequential(nn.Linear(4, 3), LIF()).double(), torch.rand(2, 4, dtype=torch.float64) * 3
        net(make(x))[0].sum().backward()
        weights.append(net[0].weight.grad)
    torch.testing.assert_close(*weights)


@pytest.mark.parametrize(
    "module",
    [nn.Dropout(), nn.RReLU(), nn.AlphaDropout(), nn.FractionalMaxPool2d(2, 4), nn.FractionalMaxPool3d(2, 4)],
    ids=lambda module: type(module).__name__,
)
def test_random_layers_draw_anew_for_each_step_of_a_static_input(module):
    size = (1, 4) + (9,) * (3 if "3d" in type(module).__name__ else 2)
    x = (-torch.rand(size)).expand(3, *size)
    first, second, _ = TimeBatched(module)(x)
    assert not torch.equal(first, second)


def test_batch_norm_learns_the_same_from_a_static_input_as_from_a_copy():
    variances = []
    for batch in (1, 3):
        x = torch.rand(batch, 4, generator=torch.Generator().manual_seed(1)).expand(5, batch, 4)
        for sequence in (x, x.contiguous()):
            norm = nn.BatchNorm1d(4)
            Sequential(norm)(sequence)
            variances.append(norm.running_var)
            assert is_static(TimeBatched(norm.eval())(x))
    assert torch.equal(variances[0], variances[1]) and torch.equal(variances[2], variances[3])


def test_once_computes_a_static_input_once_even_in_training():
    x = torch.rand(3, 4, generator=torch.Generator().manual_seed(1)).double().expand(5, 3, 4)
    outs, variances = [], []
    for wrapper in (Once, TimeBatched):
        norm, rows = nn.BatchNorm1d(4).double(), []
        norm.register_forward_hook(lambda module, inputs, out, rows=rows: rows.append(len(inputs[0])))
        net = Sequential(wrapper(norm))
        outs.append(net(x)[0])
        variances.append((norm.running_var - 0.9) / 0.1)
        net(x.contiguous())
        assert rows == [3 if wrapper is Once else 15, 15]
    torch.testing.assert_close(*outs)
    # Unbiased variances of 3 and of 15 values.
    torch.testing.assert_close(variances[0], variances[1] * (3 - 1 / 5) / (3 - 1))


def test_once_keeps_the_mask_of_a_dropout_over_time():
    drop, x = Once(nn.Dropout(0.5)), torch.ones(1, 100).expand(2, 1, 100)
    assert torch.equal(*drop(x)) and is_static(drop(x))
    assert not torch.equal(*drop(x.contiguous()))


def test_a_module_in_two_places_has_two_states():
    lif = LIF()
    net, x = Sequential(lif, nn.ReLU(), lif), torch.rand(9, 2, 3) * 4
    out, state = net(x)
    assert len(net) == len(state) == len(list(net)) == 3 and net[2] is lif
    torch.testing.assert_close(out, lif(lif(x)[0])[0])
    assert not torch.equal(state[0].v, state[2].v)


def test_modules_may_be_replaced():
    net, x = Sequential(nn.Linear(3, 4), nn.ReLU()), torch.rand(5, 2, 3)
    setattr(net, "1", LIF())
    assert isinstance(net(x)[1][1], MembraneState)
    net.add_module("1", nn.ReLU())
    assert net(x)[1] == (None, None)


def test_nested_networks_thread_state():
    inner = Sequential(nn.Linear(6, 6), LIF())
    net = Sequential(nn.Linear(4, 6), inner, nn.Linear(6, 2))
    x = torch.rand(6, 2, 4) * 4
    whole, _ = net(x)
    first, state = net(x[:2])
    second, _ = net(x[2:], state)
    assert isinstance(state[1], tuple) and len(state[1]) == 2
    torch.testing.assert_close(torch.cat([first, second]), whole)


def test_detach_cuts_the_graph_and_keeps_the_structure():
    net, x = network(), torch.rand(3, 2, 4, requires_grad=True)
    _, state = net(x)
    cut = detach(state)
    assert state[1].v.requires_grad and not cut[1].v.requires_grad
    assert type(cut[3]) is type(state[3]) and not cut[3].neuron.v.requires_grad
    out, _ = net(torch.rand(3, 2, 4), cut)
    out.sum().backward()
    assert x.grad is None
    assert detach(None) is None
    with pytest.raises(TypeError, match="state must be a tensor, a tuple or None"):
        detach([1])


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: Sequential(nn.Linear(1, 1), "LIF"), TypeError, "module 1 of Sequential must be a torch.nn.Module"),
        (lambda: TimeBatched(LIF()), TypeError, "module of TimeBatched must be stateless"),
        (lambda: network()(torch.rand(4)), ValueError, r"x must be a sequence \[T, B, ...\]"),
        (lambda: network()(torch.rand(0, 2, 4)), ValueError, "x must have at least one time step"),
        (lambda: network()(torch.rand(3, 2, 4), (None,)), ValueError, "Sequential must be a tuple of 6 entries"),
        (lambda: TimeBatched(nn.Flatten(0))(torch.rand(2, 4).expand(3, 2, 4)), ValueError, "must keep the batch dimen"),
        (lambda: Sequential(nn.LSTM(4, 2))(torch.rand(3, 2, 4)), TypeError, "LSTM must return a tensor, but .* tuple"),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


def conv(channels=1):
    return Sequential(nn.Conv2d(channels, 8, 3), LIF(), nn.Flatten(), nn.Linear(288, 10))


def plain(*layers):
    return lambda: Sequential(*layers)


# A network, the shape of x, the layer that refuses it, what that takes and what it got; and if time seems forgotten.
MISFITS = [
    (network, [5, 4], "Linear '0'", "..., 4", [5, 4], True),
    (network, [5, 7], "Linear '0'", "..., 4", [5, 7], False),
    (network, [5, 2, 7], "Linear '0'", "..., 4", [5, 2, 7], False),
    # These two used to run: as one sample whose batch are features, and as one image whose batch are channels.
    (plain(nn.Linear(4, 4)), [1, 4], "Linear '0'", "..., 4", [1, 4], True),
    (lambda: conv(8), [1, 8, 8, 8], "Conv2d '0'", "8, H, W", [1, 8, 8, 8], True),
    (conv, [4, 1, 8, 8], "Conv2d '0'", "1, H, W", [4, 1, 8, 8], True),
    (conv, [5, 4, 3, 8, 8], "Conv2d '0'", "1, H, W", [5, 4, 3, 8, 8], False),
    (conv, [5, 4, 1, 9, 9], "Linear '3'", "..., 288", [5, 4, 392], False),
    (lambda: models.mlp((64, 9)), [5, 64], "Flatten '0'", "N, ...", [5, 64], True),
    (lambda: models.mlp((48, 9)), [5, 3, 4, 4], "Linear '1'", "..., 48", [5, 3, 16], True),
    (plain(nn.BatchNorm1d(4)), [5, 4], "BatchNorm1d '0'", "4] or [T, B, 4, L", [5, 4], True),
    (plain(nn.BatchNorm2d(4)), [5, 2, 3, 8, 8], "BatchNorm2d '0'", "4, H, W", [5, 2, 3, 8, 8], False),
    (lambda: TimeBatched(nn.Conv1d(4, 4, 1)), [5, 4, 6], "Conv1d", "4, L", [5, 4, 6], True),
    (plain(nn.Sequential(nn.ReLU(), nn.Linear(4, 2))), [5, 2, 3], "Linear '0.1'", "..., 4", [5, 2, 3], False),
    (lambda: Residual(LIF(), nn.Linear(4, 4)), [5, 4], "Linear 'skip'", "..., 4", [5, 4], True),
    (lambda: PerStep(nn.Linear(4, 4), nn.Linear(3, 4)), [2, 1, 4], "Linear '1'", "..., 3", [2, 1, 4], False),
]


@pytest.mark.parametrize("make, shape, layer, taken, got, forgotten", MISFITS)
@pytest.mark.parametrize("static", [False, True])
def test_an_input_of_the_wrong_shape_is_named_with_the_layer(make, shape, layer, taken, got, forgotten, static):
    net, x = make(), torch.ones(shape)
    hint = "; if it has no time axis, use encode.repeat(x, steps)" if forgotten else ""
    for run in (net, functools.partial(engine.explain, net)):
        with pytest.raises(ValueError) as raised:
            run(x[:1].expand(x.shape) if static else x)
        assert str(raised.value) == f"x of {layer} must be [T, B, {taken}], but its shape is {got}{hint}"


@pytest.mark.parametrize(
    "dtype, said",
    [
        (torch.uint8, "floating point, but its dtype is torch.uint8: use data.to_unit(images)"),
        (torch.int64, "floating point, but its dtype is torch.int64: use x.float()"),
        (torch.float64, "torch.float32, as its weight, but its dtype is torch.float64: use x.to(torch.float32)"),
    ],
)
def test_an_input_of_the_wrong_dtype_is_named_with_the_layer(dtype, said):
    for net, x in ((network(), torch.ones(5, 2, 4)), (conv(), torch.ones(5, 2, 1, 8, 8))):
        with pytest.raises(TypeError) as raised:
            net(x.to(dtype))
        assert str(raised.value) == f"x of {type(net[0]).__name__} '0' must be {said}"


def test_an_input_on_another_device_is_named_with_the_layer():
    with pytest.raises(ValueError, match="x of Linear '0' is on cpu, but its weight is on meta: move one"):
        network().to("meta")(torch.rand(5, 2, 4))


def test_a_network_that_saves_memory_names_the_layer_too():
    net = conv()
    optimize_memory_usage(net)
    with pytest.raises(ValueError, match="x of Linear '3' must be"):
        net(torch.rand(5, 4, 1, 9, 9))


def test_errors_that_are_not_about_the_input_stay_as_they_are():
    class Failing(nn.Linear):
        def forward(self, input):
            raise RuntimeError("the disk is full")

    with pytest.raises(RuntimeError, match="the disk is full"):
        Sequential(Failing(4, 4))(torch.rand(5, 2, 4))
    with pytest.raises(ValueError, match="Expected more than 1 value per channel"):
        Sequential(nn.BatchNorm1d(4))(torch.rand(1, 1, 4))

    class OutOfMemory(nn.Linear):
        def forward(self, input):
            raise torch.OutOfMemoryError("no memory")

    with pytest.raises(torch.OutOfMemoryError):  # device.batch_process looks for it
        Sequential(OutOfMemory(4, 4))(torch.rand(5, 2, 7))


def test_a_layer_whose_hook_shapes_its_input_gets_what_it_asks_for():
    layer = nn.Conv2d(1, 2, 3)
    layer.register_forward_pre_hook(lambda module, inputs: (inputs[0].unsqueeze(1),))
    assert Sequential(layer)(torch.rand(5, 2, 8, 8))[0].shape == (5, 2, 2, 6, 6)


@pytest.mark.parametrize("wrapper", [TimeBatched, Once])
def test_several_modules_are_batched_over_time_as_one(wrapper):
    parts = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten()
    block, x = wrapper(*parts).eval(), torch.rand(5, 3, 1, 4, 4)
    torch.testing.assert_close(block(x), torch.stack([nn.Sequential(*parts)(x_t) for x_t in x]))
    assert is_static(block(x[:1].expand_as(x)))
    assert list(block.state_dict())[:3] == ["module.0.weight", "module.0.bias", "module.1.weight"]
    assert list(wrapper(parts[0]).state_dict()) == ["module.weight", "module.bias"]
    with pytest.raises(TypeError, match=f"module of {wrapper.__name__} must be stateless, but LIF takes a state"):
        wrapper(parts[0], LIF())
    with pytest.raises(TypeError, match=f"{wrapper.__name__} must be given at least one module"):
        wrapper()


def test_modules_may_have_names():
    layers = {"fc1": nn.Linear(4, 6), "lif": LIF(), "fc2": nn.Linear(6, 2)}
    net = Sequential(layers)
    assert net.fc1 is net[0] and list(net.state_dict())[:2] == ["fc1.weight", "fc1.bias"]
    assert list(net[1:]._modules) == ["lif", "fc2"] and net[-1] is layers["fc2"]
    x = torch.rand(3, 2, 4) * 4
    torch.testing.assert_close(net(x)[0], Sequential(*layers.values())(x)[0])
    with pytest.raises(ValueError, match=r"x of Linear 'fc2' must be \[T, B, ..., 6\]"):
        net[2:](x)
    with pytest.raises(TypeError, match=r"module fc of Sequential must be a torch.nn.Module, but it is 4"):
        Sequential({"fc": 4})


def test_append_takes_the_next_free_name():
    net = Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3))[1:]
    assert net.append(LIF()) is net and list(net._modules) == ["1", "2", "3"]
    assert isinstance(net(torch.rand(2, 1, 4))[1][2], MembraneState)
    with pytest.raises(TypeError, match=r"module must be a torch.nn.Module"):
        net.append(LIF)
    with pytest.raises(TypeError, match="forward of Stateless"):
        net.append(Stateless())
    assert len(net) == 3


def residual(skip=None):
    torch.manual_seed(0)
    return Residual(Sequential(nn.Linear(4, 4), LIF(v_threshold=0.1), nn.Linear(4, 4)), skip)


@pytest.mark.parametrize("make", [lambda: None, lambda: nn.Linear(4, 4), lambda: LIF(v_threshold=0.1)])
def test_a_residual_block_adds_its_branches_and_threads_both_states(make):
    block = residual(make()).double()
    x = torch.rand(6, 2, 4, dtype=torch.float64) * 4
    out, state = block(x)
    skip = x if block.skip is None else block.skip(x)
    assert torch.equal(out, block.main(x)[0] + (skip[0] if isinstance(skip, tuple) else skip))
    outs, last = [], None
    for chunk in x.split(4):
        part, last = block(chunk, last)
        outs.append(part)
    assert torch.equal(torch.cat(outs), out) and torch.equal(last[0][1].v, state[0][1].v)
    assert (state[1] is None) == (not isinstance(block.skip, LIF))
    if isinstance(block.skip, LIF):
        assert torch.equal(torch.compile(block, backend="eager", fullgraph=True)(x)[0], out)


def test_a_residual_block_learns_in_a_network_and_in_less_memory():
    net, x = Sequential(residual(), LIF(v_threshold=0.1), residual(), nn.Linear(4, 2)), torch.rand(6, 2, 4) * 4

    def gradients():
        net.zero_grad()
        net(x)[0].square().sum().backward()
        return [p.grad.clone() for p in net.parameters()]

    expected = gradients()
    assert all(g.any() for g in expected)
    for options in ({}, {"steps": 4}):
        optimize_memory_usage(net, **options)
        torch.testing.assert_close(gradients(), expected)
    restore_memory_usage(net)
    chunks = [out for out, _ in truncated(net, x, steps=4)]
    torch.testing.assert_close(torch.cat(chunks), net(x)[0])


def test_a_residual_block_refuses_what_does_not_add_up():
    x = torch.rand(3, 2, 4)
    message = r"main\(x\) and x of Residual must have one shape .* but they have \[3, 2, 1\] and \[3, 2, 4\]"
    with pytest.raises(ValueError, match=message):  # which would broadcast
        Residual(nn.Linear(4, 1))(x)
    with pytest.raises(ValueError, match="state of Residual must be a tuple of 2 entries or None, but it is 1 entries"):
        residual()(x, (None,))
    with pytest.raises(TypeError, match=r"skip of Residual must be a torch.nn.Module or None, but it is 2"):
        Residual(nn.Linear(4, 4), 2)
    with pytest.raises(TypeError, match="forward of Stateless must take and return a state"):
        Residual(Stateless())
    with pytest.raises(TypeError, match=r"which torch.nn.Sequential would give to Linear"):
        nn.Sequential(residual(), nn.Linear(4, 4))(x)
    with pytest.raises(ValueError, match="steps can't be used with Resting 'main', which takes a state but returns No"):
        next(truncated(Sequential(Residual(Resting())), x, steps=2))


def test_a_module_for_each_step():
    norms = [nn.BatchNorm1d(4) for _ in range(3)]
    layer, x = PerStep(*norms), torch.rand(3, 8, 4) * torch.tensor([1.0, 5.0, 9.0]).view(3, 1, 1)
    out, _ = Sequential(layer)(x)
    torch.testing.assert_close(out.mean(1), torch.zeros(3, 4), atol=1e-5, rtol=0)  # over the batch of each step
    torch.testing.assert_close(norms[2].running_mean, 0.1 * x[2].mean(0))
    assert torch.equal(Sequential(PerStep(*norms).eval())(x[:1].expand_as(x))[0][2], norms[2](x[0]))
    with pytest.raises(ValueError, match=r"x of PerStep must have 3 time steps, .* but its shape is \[2, 8, 4\]"):
        layer(x[:2])
    with pytest.raises(TypeError, match="module of PerStep must be stateless"):
        PerStep(LIF())


def test_neighbouring_outputs_vote():
    votes = torch.tensor([[[1.0, 0, 1, 1, 0, 0]]])
    torch.testing.assert_close(Voting(3)(votes), torch.tensor([[[2 / 3, 1 / 3]]]))
    assert Sequential(LIF(), Voting(2))(torch.rand(5, 2, 3, 8))[0].shape == (5, 2, 3, 4)
    for x in (torch.rand(2, 7), torch.tensor(1.0)):
        with pytest.raises(ValueError, match=r"x of Voting must be \[..., classes \* 3\]"):
            Voting(3)(x)
    with pytest.raises(TypeError, match=r"x of Voting must be floating point, .* use x\.float\(\)"):
        Voting(3)(votes.to(torch.uint8))
    with pytest.raises(ValueError, match="voters of Voting must be at least 1"):
        Voting(0)


@pytest.mark.parametrize(
    "room, name, use",
    [
        (snnkit.nn, "VotingLayer", "nn.Voting"),
        (snnkit.nn, "Linear", "torch.nn.Linear"),
        (snnkit.nn, "LIF", "neuron.LIF"),
        (snnkit.nn, "reset_net", "nothing: a call without a state starts at rest"),
        (encode, "rate", "encode.poisson"),
        (encode, "spikegen", "encode.poisson, encode.latency and encode.delta"),
    ],
)
def test_names_of_other_libraries_say_what_is_here(room, name, use):
    with pytest.raises(AttributeError) as raised:
        getattr(room, name)
    assert str(raised.value) == f"there is no {room.__name__}.{name}: use {use} (more names: docs/coming_from.md)"
    assert not hasattr(room, "nothing_at_all")


class Block(nn.Module):
    """A linear layer and neurons, which are called as each subclass says."""

    def __init__(self, cells=None):
        super().__init__()
        self.linear, self.cells = nn.Linear(4, 4), cells or nn.ModuleList([LIF(v_threshold=0.1)])

    def run(self, x, state=None):
        return self.cells[0](self.linear(x), state)


class Stateless(Block):
    def forward(self, x):
        return self.run(x)[0]


class OtherName(Block):
    def forward(self, x, mem=None):
        return self.run(x, mem)[0]


class ThirdPlace(Block):
    def forward(self, x, mask=None, state=None):
        return self.run(x, state)


class ByKeyword(Block):
    def forward(self, x, *, state=None):
        return self.run(x, state)


class NotReturned(Block):
    def forward(self, x, state=None):
        return self.run(x, state)[0]


class Resting(Block):
    def forward(self, x, state=None):
        return self.run(x)[0], None


class PlainOutput(LIF):
    def forward(self, x):
        return super().forward(x)[0]


LINES = r"Write `def forward\(self, x, state=None\):`.*`return out, state`.*`return out, None` if every call starts at"


@pytest.mark.parametrize("wrapper", [Sequential, TimeBatched, Once])
@pytest.mark.parametrize(
    "make, message",
    [
        (
            Stateless,
            "forward of Stateless must take and return a state, as Stateless has LIF 'cells.0' in it.* " + LINES,
        ),
        (OtherName, "forward of OtherName .* has LIF 'cells.0' in it.* " + LINES),
        (PlainOutput, "forward of PlainOutput .* has a neuron in it.* " + LINES),
        (lambda: nn.Sequential(nn.Linear(4, 4), LIF()), "torch.nn.Sequential can't .* LIF '1' .*; use snnkit.nn.Seq"),
        (lambda: Stateless([LIF()]), "forward of Stateless .* has a LIF in it.* " + LINES),  # found when it runs
        (ThirdPlace, "state of ThirdPlace must be the second argument"),
        (ByKeyword, "state of ByKeyword must be the second argument"),
    ],
)
def test_time_is_not_folded_into_the_batch_of_neurons(wrapper, make, message):
    with pytest.raises(TypeError, match=message):
        wrapper(make())(torch.rand(3, 2, 4))


@pytest.mark.parametrize("repeated", [False, True])
def test_a_module_that_takes_a_state_must_return_one(repeated):
    x = (
        torch.rand(2, 4).expand(2, 2, 4) if repeated else torch.rand(2, 2, 4)
    )  # T = 2, as a tensor is unpacked like a pair
    saving = Sequential(NotReturned())
    optimize_memory_usage(saving)
    for net in (Sequential(NotReturned()), saving):
        with pytest.raises(
            TypeError, match=r"NotReturned takes a state, so it must return \(out, state\), .* a Tensor"
        ):
            net(x)


def test_a_block_that_starts_at_rest_says_so_and_its_samples_do_not_mix():
    block, x = Resting(), torch.rand(6, 3, 4)
    assert Sequential(block, nn.Linear(4, 4))(x)[1] == (None, None)
    net = Sequential(block)
    torch.testing.assert_close(net(x)[0][:, 1:2], net(x[:, 1:2])[0], rtol=0, atol=0)
    with pytest.raises(ValueError, match="steps can't be used with Resting '0', which takes a state but returns None"):
        next(truncated(Sequential(net), x, steps=2))
    optimize_memory_usage(net, steps=2)
    with pytest.raises(ValueError, match="steps can't be used with Resting '0'"):
        net(x)


def test_a_module_that_handles_time_itself_stands_alone():
    x = torch.rand(5, 2, 4)
    assert Stateless()(x).shape == Stateless([LIF()])(x).shape == (5, 2, 4)


def test_a_module_that_failed_is_not_in_the_network():
    net = Sequential(nn.Linear(4, 4))
    for change in (lambda: net.add_module("0", Stateless()), lambda: setattr(net, "0", Stateless())):
        with pytest.raises(TypeError, match="forward of Stateless"):
            change()
    assert type(net[0]) is nn.Linear and net(torch.rand(3, 2, 4))[1] == (None,)


class First(nn.Module):
    def forward(self, pair):
        return pair[0]


@pytest.mark.parametrize("first", [LIF, lambda: Recurrent(LIF(), 4), lambda: Sequential(LIF())])
def test_pytorchs_sequential_hands_on_no_state(first):
    x = torch.rand(3, 2, 4)
    for following in (nn.Linear(4, 4), LIF()):
        with pytest.raises(TypeError, match=r"returns \(out, state\), which torch.nn.Sequential would give to L"):
            nn.Sequential(nn.Linear(4, 4), first(), following)(x)
    plain = nn.Sequential
    deeper = (
        plain(first(), nn.Identity(), nn.Linear(4, 4)),
        plain(first(), plain(plain(nn.Linear(4, 4)))),
        plain(plain(nn.Linear(4, 4), first()), nn.Identity(), nn.Linear(4, 4)),
        plain(first(), TimeBatched(nn.Linear(4, 4))),
    )
    for net in deeper:
        with pytest.raises(TypeError, match=r"which torch.nn.Sequential would give to (Linear|TimeBatched)"):
            net(x)
    out, _ = nn.Sequential(nn.Linear(4, 4), first(), nn.Identity())(x)
    assert nn.Sequential(first(), First(), nn.Linear(4, 4))(x).shape == out.shape


def test_gradients_reach_every_recorded_layer_of_a_static_input():
    net = Sequential(nn.Linear(4, 6), nn.ReLU(), LIF(), nn.Linear(6, 2))
    x = torch.rand(3, 4).expand(5, 3, 4)
    recording = net.record(x)
    torch.testing.assert_close(recording.out, net(x)[0])
    gradients = torch.autograd.grad(recording.out.square().sum(), recording.layers)
    for layer, d in zip(recording.layers, gradients, strict=True):
        assert d.shape == layer.shape and d.abs().sum() > 0


def test_a_plain_call_keeps_no_layer_alive():
    from snnkit.device import MemoryTracker

    net = Sequential(*(nn.Linear(100, 100) for _ in range(8)))
    x = torch.rand(4, 50, 100)
    with MemoryTracker() as ledger, torch.no_grad():
        net(x)
    assert ledger.peak <= 3 * 4 * 50 * 100 * 4  # input and output of one layer, and what is being made


def test_a_time_batched_of_ones_own_is_asked_itself():
    class Doubling(TimeBatched):
        def forward(self, x):
            return 2 * super().forward(x)

    layer = nn.Linear(4, 3)
    x = torch.rand(2, 4).expand(5, 2, 4)
    torch.testing.assert_close(Sequential(Doubling(layer))(x)[0], 2 * layer(x))


@pytest.fixture
def onednn(monkeypatch):
    """Products of oneDNN on any processor; the shapes of those that ran."""
    if not hasattr(torch.ops.mkldnn, "_linear_pointwise") or not torch.backends.mkldnn.is_available():
        pytest.skip("PyTorch was built without oneDNN")
    ran, product = [], linear._product
    monkeypatch.setattr(linear, "_onednn_is_faster", lambda: True)
    monkeypatch.setattr(linear, "_product", lambda x, *rest: ran.append(tuple(x.shape)) or product(x, *rest))
    return ran


@pytest.mark.parametrize("bias", [True, False])
def test_products_of_onednn_have_the_values_and_gradients_of_pytorch(onednn, bias):
    torch.manual_seed(0)
    layer, x = nn.Linear(256, 160, bias=bias), torch.randn(4, 40, 256)
    exact = nn.Linear(256, 160, bias=bias).double()
    exact.load_state_dict(layer.state_dict())
    g = torch.randn(4, 40, 160)
    results = []
    for module, dtype in ((layer, torch.float32), (exact, torch.float64)):
        inputs = x.to(dtype).requires_grad_()
        out = TimeBatched(module)(inputs)
        grads = torch.autograd.grad(out, (inputs, *module.parameters()), g.to(dtype))
        results.append((out, *grads))
    assert onednn == [(160, 256), (160, 160), (160, 160)]
    for ours, reference in zip(*results, strict=True):
        assert ours.dtype == torch.float32 and ours.is_contiguous()
        torch.testing.assert_close(ours.double(), reference, rtol=1e-4, atol=1e-4)


def test_second_derivatives_and_several_gradients_at_once_through_onednn(onednn):
    torch.manual_seed(0)
    layer = TimeBatched(nn.Linear(256, 160))
    x = torch.randn(4, 40, 256, requires_grad=True)

    def penalty():
        (d_x,) = torch.autograd.grad(layer(x).pow(2).sum(), x, create_graph=True)
        return torch.autograd.grad(d_x.pow(2).mean(), (x, layer.module.weight))

    def rows():
        return torch.autograd.grad(layer(x)[0, 0, :3], x, torch.eye(3), is_grads_batched=True)

    def expanded():
        return torch.autograd.grad(layer(x).sum(), (x, layer.module.weight))

    ours = *penalty(), *rows(), *expanded()
    # Forward, the last backward, forward; forward and backward.
    assert onednn == [(160, 256), (160, 160), (160, 160), (160, 256), (160, 256), (160, 160), (160, 160)]
    with torch.backends.mkldnn.flags(enabled=False):
        expected = *penalty(), *rows(), *expanded()
    assert len(onednn) == 7
    for a, b in zip(ours, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "name, value",
    [
        ("bias", torch.arange(320.0)[::2]),
        ("bias", torch.ones(1).expand(160)),
        ("bias", torch.tensor(3.0)),
        ("bias", torch.ones(160, 1)),
        ("bias", torch.zeros(160, dtype=torch.float64)),
        ("weight", torch.ones(160, 100)),
        ("weight", torch.eye(160, 256).to_sparse_csr()),
    ],
)
def test_parameters_of_other_shapes_layouts_and_types_are_used_as_pytorch_uses_them(onednn, name, value):
    layer, x = nn.Linear(256, 160), torch.randn(160, 256)
    setattr(layer, name, nn.Parameter(value, requires_grad=False))

    def outcome(run):
        try:
            return run(x).detach()
        except RuntimeError as error:
            return str(error)

    ours, expected = outcome(lambda x: TimeBatched(layer)(x[None])[0]), outcome(layer)
    assert type(ours) is type(expected)
    assert ours == expected if isinstance(ours, str) else torch.equal(ours, expected)


def test_the_way_back_through_onednn_is_plain_where_operations_are_watched(onednn):
    layer, x = nn.Linear(256, 160), torch.randn(1, 160, 256, requires_grad=True)
    out = TimeBatched(layer)(x)
    with FlopCounterMode(display=False) as flops:
        torch.autograd.grad(out.sum(), (x, layer.weight), retain_graph=True)
    assert flops.get_total_flops() == 2 * 2 * x.numel() * 160
    rows = torch.func.vmap(lambda v: torch.autograd.grad(out[0, 0, :3], x, v, retain_graph=True)[0])(torch.eye(3))
    torch.testing.assert_close(rows[:, 0, 0], layer.weight[:3].detach())
    assert onednn == [(160, 256)]


def test_where_a_plain_call_is_expected_onednn_does_not_step_in(onednn):
    layer, x = nn.Linear(256, 160), torch.randn(160, 256)
    net, seen = TimeBatched(layer), []

    def plain(run):
        run()
        return not onednn

    assert plain(lambda: net(x[None, :4]))  # small
    assert plain(lambda: TimeBatched(nn.Linear(256, 160).double())(x[None].double()))
    assert plain(lambda: torch.func.vmap(net)(x[None, None]))
    assert plain(lambda: torch.func.jvp(net, (x[None],), (x[None],)))
    assert plain(lambda: torch.compile(net, backend="eager", fullgraph=True)(x[None]))
    with torch.autocast("cpu", torch.bfloat16):
        assert plain(lambda: net(x[None]))
    with FlopCounterMode(display=False) as flops:
        assert plain(lambda: net(x[None]))
    assert flops.get_total_flops() == 2 * x.numel() * 160
    with pytest.raises(ValueError, match="x of Linear must be"):
        net(torch.randn(1, 640, 64))
    with register_module_forward_hook(lambda *_: seen.append(0)):
        assert plain(lambda: net(x[None])) and seen[0] == 0
    seen.clear()
    handle = layer.register_forward_hook(lambda *_: seen.append(1))
    assert plain(lambda: net(x[None])) and seen == [1]
    handle.remove()
    net(x[None])
    recurrent = Recurrent(LIF(), 256)
    recurrent(torch.randn(2, 80, 256))
    assert onednn == [(160, 256), (80, 256), (80, 256)]


def test_a_scripted_layer_is_a_plain_one():
    layer, x = nn.Linear(4, 4), torch.rand(3, 2, 4)
    traced = torch.jit.trace(nn.Sequential(layer), torch.rand(2, 4))
    assert torch.equal(Sequential(traced, LIF())(x)[0], Sequential(layer, LIF())(x)[0])


@pytest.mark.parametrize("kind", ["sparse_csr", "mkldnn", "nested", "jagged"])
def test_a_tensor_stored_in_another_way_is_refused(kind):
    x = torch.rand(5, 3, 8)
    makers = {
        "sparse_csr": lambda: x[0].to_sparse_csr(),
        "mkldnn": x.to_mkldnn,
        "nested": lambda: torch.nested.nested_tensor([x[0], x[1]]),
        "jagged": lambda: torch.nested.nested_tensor([x[0], x[1]], layout=torch.jagged),
    }
    said = "nested" if kind in ("nested", "jagged") else f"stored as torch._?{kind}"
    with pytest.raises(TypeError, match=rf"x of LIF must be a torch.Tensor \[T, B, ...\], but it is {said}"):
        LIF()(makers[kind]())


def test_a_module_is_exchanged_in_its_place():
    net = Sequential({"in": nn.Linear(3, 4), "lif": LIF(), "out": nn.Linear(4, 2)})
    net[-1] = nn.Linear(4, 5)
    assert list(net._modules) == ["in", "lif", "out"] and net.out.out_features == 5
    assert net(torch.rand(2, 1, 3))[0].shape == (2, 1, 5)
    with pytest.raises(TypeError, match=r"module must be a torch.nn.Module, but it is 3"):
        net[0] = 3
    with pytest.raises(IndexError):
        net[3] = LIF()
