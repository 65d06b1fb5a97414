"""What all neurons share: state, dtype, parameters, copying, and errors that name the argument."""

import copy
import inspect
import io
import itertools
import math
import pickle
from functools import partial

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn

from snnkit import models, neuron
from snnkit.neuron import (
    ALIF,
    IF,
    LI,
    LIF,
    PLIF,
    QIF,
    AdEx,
    Alpha,
    CubaLIF,
    Izhikevich,
    Leaky,
    MembraneState,
    Neuron,
    OneToOne,
    Readout,
    Recurrent,
    Refractory,
    Synaptic,
    beta_of,
)
from snnkit.surrogate import ATan, FastSigmoid, Sigmoid, SuperSpike, Triangle

from ..engine.zoo import ZOO
from . import reference_neurons as reference

MAKERS = {name: make for name, make in ZOO.items() if "-" not in name}
every_neuron = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def test_the_zoo_has_every_neuron():
    kinds = {name for name in neuron.__all__ if isinstance(getattr(neuron, name), type)}
    assert {name for name in kinds if issubclass(getattr(neuron, name), Neuron)} == {*MAKERS, "Neuron"}


@every_neuron
@settings(deadline=None, max_examples=20)
@given(
    steps=st.integers(1, 7),
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.bfloat16, torch.float16]),
)
def test_shapes_and_dtypes(make, steps, shape, dtype):
    out, state = make()(torch.rand(steps, *shape).to(dtype))
    assert out.shape == (steps, *shape) and out.dtype == dtype
    for part in state:
        assert part.shape == tuple(shape)
        assert part.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)


@every_neuron
@settings(deadline=None, max_examples=15)
@given(cut=st.integers(1, 11))
def test_any_chunking_of_time_gives_the_same(make, cut):
    neuron, x = make(), torch.rand(12, 2, 3, dtype=torch.float64) * 3
    whole, last = neuron(x)
    first, state = neuron(x[:cut])
    second, end = neuron(x[cut:], state)
    torch.testing.assert_close(torch.cat([first, second]), whole, rtol=0, atol=0)
    torch.testing.assert_close(tuple(end), tuple(last), rtol=0, atol=0)


@every_neuron
def test_gradients_reach_every_parameter(make):
    neuron = make()
    strength = 15.0 if isinstance(neuron, Izhikevich) else 2.0
    x = (torch.rand(12, 2, 3) * strength).requires_grad_()
    neuron(x)[0].sum().backward()
    assert x.grad is not None and torch.isfinite(x.grad).all() and x.grad.abs().sum() > 0
    for parameter in neuron.parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0


@every_neuron
def test_pickle_deepcopy_and_state_dict(make):
    neuron, x = make(), torch.rand(9, 2, 3) * 3
    expected = neuron(x)[0]
    for clone in (copy.deepcopy(neuron), pickle.loads(pickle.dumps(neuron))):
        assert torch.equal(clone(x)[0], expected)
    buffer = io.BytesIO()
    torch.save(neuron.state_dict(), buffer)
    buffer.seek(0)
    make().load_state_dict(torch.load(buffer, weights_only=True))


def test_numbers_buffers_and_parameters():
    neuron = LIF(nn.Parameter(torch.tensor([2.0, 3.0])), v_threshold=torch.tensor(0.9), v_reset=0.0)
    assert dict(neuron.named_parameters()).keys() == {"tau"}
    assert dict(neuron.named_buffers()).keys() == {"v_threshold"}
    assert neuron.state_dict().keys() == {"tau", "v_threshold"}
    meta = neuron.to("meta")
    assert meta.tau.device.type == "meta" and meta.v_threshold.device.type == "meta"
    assert "tau=Parameter[2]" in repr(neuron) and "v_reset=0.0" in repr(neuron)


@every_neuron
def test_neurons_can_be_built_without_memory(make):
    with torch.device("meta"):
        neuron = make()
        LIF(torch.ones(2), v_threshold=torch.ones(2), v_reset=0.0)
        models.ConvNet(1, 8, widths=(2, 2, 4))
    assert all(parameter.is_meta for parameter in neuron.parameters())


def test_beta_of_is_the_decay_per_step():
    with torch.device("meta"):
        assert beta_of(2.0, 1.0) == pytest.approx(math.exp(-0.5))


def test_a_given_tensor_is_copied():
    given_tau = torch.tensor(2.0)
    neuron = LIF(given_tau)
    given_tau.fill_(50.0)
    assert neuron.tau.item() == 2.0


@every_neuron
def test_decay_is_what_is_left_of_a_membrane_after_a_silent_step(make):
    neuron, silence = make().double(), torch.zeros(1, 5, dtype=torch.float64)
    rest, name = neuron.initial_state(silence), neuron.membrane_name
    assert neuron.membrane(rest) is getattr(rest, name)
    if neuron.decay is None:
        assert isinstance(neuron, (QIF, AdEx, Izhikevich, Alpha))
        return
    moved = rest._replace(**{name: neuron.membrane(rest) + 0.01})
    ends = [neuron.membrane(neuron.step(silence, state)[1]) for state in (rest, moved)]
    torch.testing.assert_close(ends[1] - ends[0], 0.01 * neuron.decay + silence)


@every_neuron
def test_threshold_is_the_highest_membrane_without_a_spike(make):
    neuron = make().double()
    if not neuron.spiking:
        assert neuron.threshold is None
        return

    def highest(current):
        state, spikes, membranes = neuron.initial_state(current), [], []
        for _ in range(4):
            spike, state = neuron.step(current, state)
            spikes.append(spike)
            membranes.append(neuron.membrane(state))
        return torch.stack(spikes).amax(0) > 0, torch.stack(membranes).amax(0)

    low, high = torch.zeros(1, 5, dtype=torch.float64), torch.full((1, 5), 1e4, dtype=torch.float64)
    for _ in range(60):
        middle = (low + high) / 2
        fired, _ = highest(middle)
        low, high = torch.where(fired, low, middle), torch.where(fired, middle, high)
    torch.testing.assert_close(highest(low)[1], neuron.threshold + 0 * low, rtol=1e-6, atol=1e-6)


def test_a_membrane_of_another_name_is_named():
    class Other(Neuron):
        State = neuron.LeakyState

        def step(self, x, state):
            return x, state

    state = neuron.LeakyState(torch.ones(2))
    with pytest.raises(TypeError, match=r"state of Other must have a part named 'v' as its membrane, .* membrane_name"):
        Other().membrane(state)
    Other.membrane_name = "mem"
    assert Other().membrane(state) is state.mem


@pytest.mark.parametrize("kind", [LIF, CubaLIF])
def test_detach_reset_changes_gradients_but_not_spikes(kind):
    x = torch.rand(20, 1, 4, dtype=torch.float64) * 2
    gradients, spikes = [], []
    for detach in (False, True):
        leaf = x.clone().requires_grad_()
        out, _ = kind(detach_reset=detach)(leaf)
        out.sum().backward()
        gradients.append(leaf.grad)
        spikes.append(out)
    assert torch.equal(*spikes) and not torch.allclose(*gradients)


def test_recurrent_feeds_back_the_last_spikes():
    layer = Recurrent(IF(v_threshold=0.5), 2)
    with torch.no_grad():
        layer.weight.weight.copy_(torch.tensor([[0.0, 0.0], [1.0, 0.0]]))
    x = torch.tensor([[[1.0, 0.0]], [[0.0, 0.0]], [[0.0, 0.0]]])
    out, state = layer(x)
    # Neuron 0 fires at once, and through the weight neuron 1 one step later.
    assert out[:, 0].tolist() == [[1, 0], [0, 1], [0, 0]]
    first, middle = layer(x[:1])
    second, end = layer(x[1:], middle)
    assert torch.equal(torch.cat([first, second]), out) and torch.equal(end.out, state.out)


def test_recurrent_learns_and_keeps_low_precision():
    layer = Recurrent(LIF(), 4)
    layer(torch.rand(6, 2, 4) * 2)[0].sum().backward()
    assert layer.weight.weight.grad.abs().sum() > 0
    out, _ = Recurrent(LIF(), 4, dtype=torch.bfloat16)(torch.rand(6, 2, 4, dtype=torch.bfloat16))
    assert out.dtype == torch.bfloat16


SURROGATES = (ATan, FastSigmoid, Sigmoid, SuperSpike, Triangle)
EXTREMES = [size * sign for size in (5e-324, 1e-40, 1e-30, 1e-6, 1e6, 1e30, 3.5e38, 1e308) for sign in (1, -1)]


# A neuron, a learnable number that an optimiser moved out of its range, and the nearest one within.
MOVED = [
    (LIF, "tau", 0.3, 1.0),
    (LIF, "v_threshold", -0.5, 1e-6),
    (IF, "v_threshold", -0.5, 1e-6),
    (partial(LIF, v_reset=None), "v_threshold", -0.5, 1e-6),
    (partial(LIF, v_reset=0.5), "v_threshold", 0.2, 0.5 + 1.5e-6),
    (partial(PLIF, v_reset=None), "v_threshold", -0.5, 1e-6),
    (partial(Leaky, 0.9), "threshold", -0.5, 1e-6),
    (Leaky, "beta", 1.5, 1.0),
    (CubaLIF, "tau_mem_inv", -50.0, 0.0),
    (CubaLIF, "tau_syn_inv", 5000.0, 2000.0),
    (CubaLIF, "v_th", -0.5, 1e-6),
    (LI, "tau_mem_inv", -50.0, 0.0),
    (ALIF, "tau", -3.0, 1e-6),
    (ALIF, "tau_adapt", -3.0, 1e-6),
    (ALIF, "beta", -0.1, 0.0),
    (ALIF, "v_threshold", -0.5, 1e-6),
    (Izhikevich, "c", 40.0, 29.0),
    (QIF, "tau", 0.3, 1.0),
    (QIF, "a0", -0.5, 0.0),
    (QIF, "v_c", -0.5, 0.0),
    (AdEx, "tau_ada_inv", -50.0, 0.0),
    (AdEx, "delta_T", -1.0, 1e-6),
    (AdEx, "v_th", -0.5, -0.5),
    (partial(AdEx, v_peak=1.0, v_th=0.5, v_reset=nn.Parameter(torch.tensor(0.2))), "v_peak", 0.1, 0.2 + 1.2e-6),
    (partial(Synaptic, beta=0.9), "alpha", 1.5, 1.0),
    (partial(Synaptic, 0.5), "beta", -0.5, 0.0),
    (partial(Synaptic, 0.5, 0.5), "threshold", -0.5, 1e-6),
    (partial(Alpha, beta=0.25), "alpha", 0.1, 0.25 + 1.25e-6),
    (partial(Alpha, 0.9), "beta", -0.5, 1e-6),
    (Readout, "beta", 1.5, 1.0),
]


@pytest.mark.parametrize(("kind", "name", "moved", "nearest"), MOVED)
def test_a_number_that_was_moved_out_of_its_range_counts_as_the_nearest_in_it(kind, name, moved, nearest):
    start = {
        "tau": 2.0,
        "beta": 0.5,
        "alpha": 0.8,
        "v_c": 0.8,
        "delta_T": 0.5,
        "tau_ada_inv": 2.0,
        "tau_mem_inv": 100.0,
        "tau_syn_inv": 200.0,
        "c": -65.0,
        "tau_adapt": 20.0,
    }
    x = 2 * torch.randn(12, 3, 5, generator=torch.Generator().manual_seed(0))
    outs = []
    for value in (moved, nearest):
        cell = kind(**{name: nn.Parameter(torch.tensor(start.get(name, 1.0)))}, engine="eager")
        number = getattr(cell, name)
        number.data.fill_(value)
        out, state = cell(x.requires_grad_())
        (out.sum() + sum(part.sum() for part in state)).backward()
        outs.append(torch.stack([out, *(part.expand(12, 3, 5) for part in state)]))
        assert out.isfinite().all() and number.grad.isfinite() and number.item() == pytest.approx(value)
        assert value == nearest or number.grad == 0
    torch.testing.assert_close(*outs)


def test_a_reset_that_was_learned_stays_below_the_threshold():
    cell = LIF(v_reset=nn.Parameter(torch.tensor([0.0, 0.0])), engine="eager")
    cell.v_reset.data.copy_(torch.tensor([3.0, 0.0]))
    out, _ = cell(torch.zeros(9, 1, 2))
    assert not out.any()  # it does not fire for ever without an input


@pytest.mark.parametrize("engine", ["eager", "cpp"])
def test_a_membrane_beyond_float16_is_refused(engine):
    x = torch.full((60, 2, 4), 20_000.0)
    out, state = LI(engine=engine)(x)
    assert state.v.isfinite().all() and out.max() > 65504
    with pytest.raises(ValueError, match=r"the output of LI must be within ±65,504, the largest numbers of float16"):
        LI(engine=engine)(x.half())
    assert LI(engine=engine)(x.bfloat16())[0].isfinite().all() and LI(engine=engine)((x / 9).half())[0].isfinite().all()


EVERY = [IF, LIF, PLIF, ALIF, CubaLIF, Izhikevich, LI, QIF, AdEx, partial(Leaky, 0.9), partial(Synaptic, 0.8, 0.9)]


@pytest.mark.parametrize("kind", [*EVERY, partial(Alpha, 0.9, 0.8), partial(OneToOne, LIF()), *SURROGATES])
def test_extreme_numbers_are_refused_or_give_finite_gradients(kind):
    drives = [torch.rand(5, 2, 3) * 4 - 1, torch.ones(5, 2, 3), torch.zeros(5, 2, 3)]
    numbers = [name for name, p in inspect.signature(kind).parameters.items() if type(p.default) is float]
    for name, value, drive in itertools.product(numbers, EXTREMES, drives):
        x = drive.clone().requires_grad_()
        try:
            made = kind(**{name: value})
            cell = IF(surrogate=made) if kind in SURROGATES else made
            cell.engine = "eager"
            out, _ = cell(x)
        except ValueError as error:
            assert name in str(error) or "diverges" in str(error)
            continue
        out.sum().backward()
        assert out.isfinite().all() and x.grad.isfinite().all(), (name, value)


BAD_NUMBERS = [
    (lambda: LIF(0.0), ValueError, "tau of LIF must be at least 1"),
    (lambda: LIF(torch.tensor([2])), TypeError, "tau of LIF must be a floating-point tensor"),
    (lambda: LIF(v_threshold=-1.0), ValueError, "v_threshold of LIF must be greater than v_reset"),
    (lambda: IF(v_threshold=0.0, v_reset=None), ValueError, "v_threshold of IF must be greater than 0"),
    (lambda: IF(surrogate=ATan), TypeError, r"a Surrogate such as ATan\(\), but it is the class"),
    (lambda: Leaky(1.5), ValueError, "beta of Leaky must be at most 1"),
    (lambda: LI(100.0, 256.0, dt=1 / 64), ValueError, r"dt \* tau_syn_inv of LI must be at most 2, but it is 4"),
    (lambda: PLIF(1.0), ValueError, "init_tau of PLIF must be greater than 1"),
    (
        lambda: LIF(v_threshold=torch.ones(2), v_reset=torch.zeros(3)),
        ValueError,
        r"v_threshold and v_reset of LIF must broadcast .* shapes are \[2\] and \[3\]",
    ),
    (lambda: Izhikevich(dt=2.0), ValueError, "dt of Izhikevich must be at most 1"),
    (lambda: Izhikevich(c=40.0), ValueError, "v_peak of Izhikevich must be greater than c"),
    (lambda: Recurrent(nn.Linear(2, 2), 2), TypeError, "neuron of Recurrent must be a Neuron"),
    (lambda: QIF(v_c=0.0), ValueError, "v_c of QIF must be greater than v_rest, but they are 0.0 and 0.0"),
    (lambda: QIF(a0=0.0), ValueError, "a0 of QIF must be greater than 0"),
    (lambda: AdEx(delta_T=0.0), ValueError, "delta_T of AdEx must be at least 1e-06"),
    (lambda: AdEx(tau_ada_inv=3000.0), ValueError, r"dt \* tau_ada_inv of AdEx must be at most 2, but it is 3"),
    (lambda: AdEx(v_peak=0.9), ValueError, r"\(v_peak - v_th\) / delta_T of AdEx must be at least 0"),
    (lambda: AdEx(v_peak=30.0), ValueError, r"\(v_peak - v_th\) / delta_T of AdEx must be at most 50"),
    (lambda: Synaptic(1.5, 0.9), ValueError, "alpha of Synaptic must be at most 1"),
    (lambda: Synaptic(0.9, 0.9, reset_mechanism="hard"), ValueError, "reset_mechanism of Synaptic must be"),
    (lambda: Alpha(0.8, 0.9), ValueError, "alpha of Alpha must be greater than beta, but they are 0.8 and 0.9"),
    (lambda: Readout(-0.1), ValueError, "beta of Readout must be at least 0"),
    (lambda: OneToOne(nn.Linear(2, 2)), TypeError, "neuron of OneToOne must be a Neuron"),
    (lambda: OneToOne(LIF(), "1"), TypeError, "weight of OneToOne must be a number"),
    (lambda: Refractory(LIF(), -1), ValueError, "steps of Refractory must be at least 0"),
    (lambda: Refractory(LIF(), 0.5), TypeError, "steps of Refractory must be an integer"),
    (lambda: Refractory(LI(), 2), TypeError, "neuron of Refractory must fire, but LI is a readout"),
    (lambda: Refractory(OneToOne(LIF()), 2), TypeError, "put OneToOne around Refractory"),
    (lambda: OneToOne(OneToOne(LIF())), TypeError, "can't be a OneToOne: its State has a part 'out' already"),
]


@pytest.mark.parametrize("make, error, message", BAD_NUMBERS, ids=[m for _, _, m in BAD_NUMBERS])
def test_bad_arguments_are_named(make, error, message):
    with pytest.raises(error, match=message):
        make()


x = torch.rand(4, 2, 3)
BAD_INPUTS = [
    (lambda: LIF()(torch.ones(3)), ValueError, r"x of LIF must be a sequence \[T, B, ...\]"),
    (lambda: LIF()(torch.ones(0, 2)), ValueError, "x of LIF must have at least one time step"),
    (lambda: LIF()(torch.ones(4, 2, dtype=torch.uint8)), TypeError, r"must be floating point .* torch.uint8"),
    (lambda: LIF()(x, torch.zeros(2, 3)), TypeError, "state of LIF must be a NamedTuple"),
    (lambda: LIF()(x, MembraneState(torch.zeros(3, 3))), ValueError, r"state.v of LIF has shape \[3, 3\]"),
    (lambda: LIF()(x, MembraneState(torch.zeros(2, 3).double())), TypeError, "state.v of LIF is torch.float64"),
    (lambda: LIF()(x, MembraneState(torch.zeros(2, 3, device="meta"))), ValueError, "state.v of LIF is on meta"),
    (lambda: LIF(torch.tensor([2.0])).to("meta")(x), ValueError, "tau of LIF is on meta, but x is on cpu"),
    (lambda: LIF(torch.tensor([2.0])).double()(x), TypeError, "tau of LIF is float64, but x is torch.float32"),
    (lambda: LIF()(torch.full((4, 2, 3), math.nan)), ValueError, r"x of LIF must be finite, but x\[0, 0, 0\] is nan"),
    (lambda: IF()(x.index_fill(0, torch.tensor([2]), math.inf)), ValueError, r"x of IF must be .*x\[2, 0, 0\] is inf"),
    (lambda: IF(surrogate=lambda u: 1)(x), TypeError, r"surrogate of IF must return .* \[2, 3\] .* it returned a int"),
    (lambda: IF(surrogate=lambda u: u > 0)(x), TypeError, r"like its input, \[2, 3\] of torch.float32, .* torch.bool"),
    (lambda: Recurrent(IF(), 4)(x), ValueError, r"x of Recurrent must be \[T, B, 4\]"),
    (lambda: Recurrent(IF(), 3)(x, (None,)), TypeError, "state of Recurrent must be a RecurrentState"),
]


@pytest.mark.parametrize("call, error, message", BAD_INPUTS, ids=[m for _, _, m in BAD_INPUTS])
def test_bad_inputs_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_nan_parameter_is_told_from_a_nan_input():
    neuron = PLIF()
    with torch.no_grad():
        neuron.w.fill_(math.nan)
    with pytest.raises(ValueError, match="finite though x is"):
        neuron(x)


def test_an_unfinished_neuron_says_what_is_missing():
    class Empty(Neuron):
        pass

    with pytest.raises(TypeError, match="Empty must define step"):
        Empty()(x)

    class Mute(Neuron):
        def step(self, x, state):
            return self.spike(x), state

    with pytest.raises(TypeError, match=r"Mute has no surrogate to spike with; make it with surrogate=ATan\(\)"):
        Mute()(x)


# --- golden traces: what the published equations of the peers give, and what the peers themselves gave ----------------


def run(neuron, xs):
    """Spikes and membrane per step in float64."""
    state, spikes, membrane = None, [], []
    for x in xs:
        out, state = neuron(torch.full((1, 1), x, dtype=torch.float64), state)
        spikes.append(out.item())
        membrane.append(state[0].item())
    return spikes, membrane


def inputs(strength=1.0, steps=200):
    generator = torch.Generator().manual_seed(3)
    return (torch.rand(steps, generator=generator, dtype=torch.float64) * 1.6 * strength - 0.2 * strength).tolist()


REST = {"tau": 5.0, "threshold": 0.4, "reset": -0.6, "decay_input": False}
ZERO_NOW = {"beta": 0.8, "threshold": 0.7, "mechanism": "zero", "delay": False}
BURSTS = {"c": -50.0, "d": 2.0, "dt": 0.5}
QIF_SOFT = {"tau": 4.0, "critical": 0.5, "a0": 0.7, "threshold": 1.2, "rest": 0.1, "reset": None}
# In mV and s: 281 pF over 30 nS, and steps of 0.1 ms; a current of 30 mV times the conductance is 0.9 nA.
PUBLISHED = {"tau_mem_inv": 30 / 0.281, "tau_syn_inv": 1e4, "tau_ada_inv": 1 / 0.144, "adaptation_current": 4 / 30}
PUBLISHED |= {"adaptation_spike": 80.5 / 30, "delta_T": 2.0, "v_leak": -70.6, "v_th": -50.4, "v_peak": 20.0}
PUBLISHED |= {"v_reset": -70.6, "dt": 1e-4}
PUBLISHED_NUMBERS = dict(zip(
    ("mem", "syn", "ada", "coupling", "jump", "delta", "leak", "threshold", "peak", "reset", "dt"),
    PUBLISHED.values(), strict=True,
))  # fmt: skip
SYNAPTIC_ZERO = {"alpha": 0.5, "beta": 0.8, "mechanism": "zero"}
SYNAPTIC_NONE = {"alpha": 0.2, "beta": 0.1, "mechanism": "none"}
ALPHA_SUBTRACT = {"alpha": 0.8, "beta": 0.3, "mechanism": "subtract"}
ALPHA_NONE = {"alpha": 0.5, "beta": 0.3, "mechanism": "none"}
CASES = {
    "IF": (IF(), reference.if_or_lif, {}, 1.0),
    "IF soft": (IF(v_reset=None), reference.if_or_lif, {"reset": None}, 1.0),
    "LIF": (LIF(), reference.if_or_lif, {"tau": 2.0}, 1.5),
    "LIF soft": (LIF(3.0, v_reset=None), reference.if_or_lif, {"tau": 3.0, "reset": None}, 2.0),
    "LIF rest": (LIF(5.0, 0.4, -0.6, decay_input=False), reference.if_or_lif, REST, 0.5),
    "PLIF": (PLIF(2.0).double(), reference.if_or_lif, {"tau": 2.0}, 2.0),
    "Leaky subtract": (Leaky(0.9), reference.leaky, {"beta": 0.9}, 1.0),
    "Leaky subtract now": (Leaky(0.9, reset_delay=False), reference.leaky, {"beta": 0.9, "delay": False}, 1.0),
    "Leaky zero": (Leaky(0.8, reset_mechanism="zero"), reference.leaky, {"beta": 0.8, "mechanism": "zero"}, 1.0),
    "Leaky zero now": (Leaky(0.8, 0.7, reset_mechanism="zero", reset_delay=False), reference.leaky, ZERO_NOW, 1.0),
    "Leaky none": (Leaky(0.5, reset_mechanism="none"), reference.leaky, {"beta": 0.5, "mechanism": "none"}, 1.0),
    "CubaLIF": (CubaLIF(), reference.cuba_lif, {}, 1.0),
    "CubaLIF other": (
        CubaLIF(250.0, 50.0, v_leak=0.1, v_th=0.8, v_reset=-0.1, dt=2e-3),
        reference.cuba_lif,
        {"tau_mem_inv": 250.0, "tau_syn_inv": 50.0, "leak": 0.1, "threshold": 0.8, "reset": -0.1, "dt": 2e-3},
        0.5,
    ),
    "LI": (LI(), reference.cuba_lif, {"threshold": float("inf")}, 1.0),
    "ALIF": (ALIF(beta=0.5), reference.alif, {"beta": 0.5}, 0.5),
    "Izhikevich": (Izhikevich(), reference.izhikevich, {}, 15.0),
    "Izhikevich bursts": (Izhikevich(**BURSTS), reference.izhikevich, BURSTS, 15.0),
    "QIF": (QIF(), reference.qif, {}, 1.0),
    "QIF soft": (QIF(4.0, 0.5, 0.7, 1.2, 0.1, None), reference.qif, QIF_SOFT, 0.8),
    "AdEx": (AdEx(), reference.adex, {}, 2.0),
    "AdEx of Brette and Gerstner": (AdEx(**PUBLISHED), reference.adex, PUBLISHED_NUMBERS, 200.0),
    "Synaptic subtract": (Synaptic(0.5, 0.8), reference.synaptic, {"alpha": 0.5, "beta": 0.8}, 0.5),
    "Synaptic zero": (Synaptic(0.5, 0.8, reset_mechanism="zero"), reference.synaptic, SYNAPTIC_ZERO, 0.5),
    "Synaptic none": (Synaptic(0.2, 0.1, reset_mechanism="none"), reference.synaptic, SYNAPTIC_NONE, 1.4),
    "Synaptic subtract now": (
        Synaptic(0.5, 0.8, 0.9, reset_delay=False),
        reference.synaptic,
        {"alpha": 0.5, "beta": 0.8, "threshold": 0.9, "delay": False},
        0.5,
    ),
    "Synaptic zero now": (
        Synaptic(0.5, 0.8, reset_mechanism="zero", reset_delay=False),
        reference.synaptic,
        SYNAPTIC_ZERO | {"delay": False},
        0.5,
    ),
    "Alpha zero": (Alpha(0.9, 0.8), reference.alpha, {"alpha": 0.9, "beta": 0.8}, 1.0),
    "Alpha subtract": (Alpha(0.8, 0.3, reset_mechanism="subtract"), reference.alpha, ALPHA_SUBTRACT, 1.0),
    "Alpha none": (Alpha(0.5, 0.3, reset_mechanism="none"), reference.alpha, ALPHA_NONE, 1.5),
    "Readout": (Readout(0.9), reference.readout, {"beta": 0.9}, 1.0),
    "Readout decayed": (Readout(0.7, decay_input=True), reference.readout, {"beta": 0.7, "decay_input": True}, 1.0),
    "OneToOne": (OneToOne(LIF(), 0.6), reference.one_to_one, {"weight": 0.6}, 1.5),
    "Refractory": (Refractory(CubaLIF(), 5), reference.refractory, {"steps": 5}, 2.0),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_the_published_equation(name):
    neuron, equation, arguments, strength = CASES[name]
    xs = inputs(strength)
    spikes, membrane = run(neuron, xs)
    expected_spikes, expected_membrane = equation(xs, **arguments)
    if not neuron.spiking:
        assert spikes == pytest.approx(expected_membrane)
    else:
        assert 3 < sum(expected_spikes) < 195, "a trace without spikes, or with nothing else, proves little"
        assert spikes == expected_spikes
    assert membrane == pytest.approx(expected_membrane, abs=1e-7)


def test_norse_with_constant_input():
    """Norse's own test of its LIF (x = 1), four digits."""
    spikes, membrane = run(CubaLIF(), [1.0] * 12)
    assert membrane == pytest.approx(
        [0.1, 0.27, 0.487, 0.7335, 0.9963, 0, 0.3951, 0.7717, 0, 0.4463, 0.8587, 0], abs=5e-5
    )
    assert [i + 1 for i, s in enumerate(spikes) if s] == [6, 9, 12]


def test_snntorch_with_constant_input():
    """snnTorch 1.0's Leaky (beta 0.9, input 0.4): reset in the next step, or at once."""
    spikes, membrane = run(Leaky(0.9), [0.4] * 6)
    assert membrane == pytest.approx([0.4, 0.76, 1.084, 0.3756, 0.73804, 1.064236], abs=1e-9)
    assert spikes == [0, 0, 1, 0, 0, 1]
    spikes, membrane = run(Leaky(0.9, reset_delay=False), [0.4] * 6)
    assert membrane == pytest.approx([0.4, 0.76, 0.084, 0.4756, 0.82804, 0.145236], abs=1e-9)
    assert spikes == [0, 0, 1, 0, 0, 1]


def test_at_the_threshold_the_conventions_differ():
    """Four quarters make one: SpikingJelly fires there, snnTorch and Norse only above."""
    assert run(IF(), [0.25] * 4)[0] == [0, 0, 0, 1]
    assert run(Leaky(1.0), [0.25] * 5)[0] == [0, 0, 0, 0, 1]
    # tau_mem_inv dt = 1: the membrane is the current.
    assert run(CubaLIF(1000.0, 1e-9), [0.5, 0.5, 0.25])[0] == [0, 0, 1]


def test_numbers_that_follow_from_others_can_not_be_set():
    lif = LIF()
    with pytest.raises(AttributeError, match=r"threshold of LIF must not be set: it follows from tau, .*v_threshold"):
        lif.threshold = 2.0
    lif.v_threshold = 2.0
    assert lif.threshold == 2.0
