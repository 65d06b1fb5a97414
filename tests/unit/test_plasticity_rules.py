"""Rules of STDP: equal to sums over all pairs or triplets of spikes, to published windows and to Norse's step.

For layers that are dense and for convolutions of every geometry.
"""

import math

import pytest
import torch
from hypothesis import given, settings, strategies as st

from snnkit.plasticity import Convolution, Dense, PairSTDP, RewardState, RewardSTDP, STDPState, TripletSTDP
from tests.unit.stdp_by_sums import BY_NAME, like_norse, pairwise, rewarded, same, stepwise, tripletwise

F64 = torch.float64


def random_spikes(seed, steps, batch, pre, post, rate=0.3):
    """Spikes of both sides and weights, float64, of a dense layer."""
    return random_run(seed, (Dense(), steps, batch, (pre,), (post, pre)), rate)


def random_run(seed, geometry, rate=0.3):
    connection, steps, batch, inputs, weights = geometry
    draw = torch.Generator().manual_seed(seed)
    weight = torch.rand(weights, generator=draw, dtype=F64)
    pre = (torch.rand(steps, batch, *inputs, generator=draw) < rate).to(F64)
    image = connection.outputs(pre.shape, weights) if isinstance(connection, Convolution) else ()
    return pre, (torch.rand(steps, batch, weights[0], *image, generator=draw) < rate).to(F64), weight


@st.composite
def geometries(draw):
    """A connection, and (steps, batch, shape of the inputs, shape of the weights) that fit it."""
    batch, inputs, outputs = draw(st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(1, 3)))
    if draw(st.booleans()):
        return Dense(), draw(st.integers(1, 12)), batch, (inputs,), (outputs, inputs)
    connection = Convolution(draw(st.integers(1, 2)), draw(st.integers(0, 2)))
    kernel, image = draw(st.tuples(*[st.integers(1, 2)] * 2)), draw(st.tuples(*[st.integers(3, 4)] * 2))
    return connection, draw(st.integers(1, 5)), batch, (inputs, *image), (outputs, inputs, *kernel)


SEED = st.integers(0, 10_000)
AMPLITUDE, TAU = st.floats(0, 0.5), st.floats(1e-3, 0.1)
BOUNDED = {"w_min": st.just(0.1), "w_max": st.just(0.8), "batch": st.sampled_from(["sum", "mean"])}
MORE = st.fixed_dictionaries(
    BOUNDED | {"bound": st.sampled_from(["hard", "soft", None]), "engine": st.sampled_from(["eager", "cpp"])}
)


def whole_and_stepwise(rule, *sequences, weight, expected):
    """Both ways to the same weights, which are returned with the state."""
    (whole, last), (online, state) = rule.run(*sequences, weight), stepwise(rule, *sequences, weight=weight)
    same(whole, expected)
    same(online, expected)
    same(last, state)
    return last


@settings(deadline=None, max_examples=90)
@given(seed=SEED, geometry=geometries(), numbers=st.tuples(AMPLITUDE, AMPLITUDE, TAU, TAU), more=MORE)
def test_it_is_the_sum_over_all_pairs(seed, geometry, numbers, more):
    rule = PairSTDP(*numbers, connection=geometry[0], **more)
    pre, post, weight = random_run(seed, geometry)
    whole_and_stepwise(rule, pre, post, weight=weight, expected=pairwise(rule, pre, post, weight))


@settings(deadline=None, max_examples=50)
@given(seed=SEED, geometry=geometries(), numbers=st.tuples(*[AMPLITUDE] * 4, *[TAU] * 4), more=MORE)
def test_it_is_the_sum_over_all_triplets(seed, geometry, numbers, more):
    rule = TripletSTDP(*numbers, connection=geometry[0], **more)
    pre, post, weight = random_run(seed, geometry)
    whole_and_stepwise(rule, pre, post, weight=weight, expected=tripletwise(rule, pre, post, weight))


@settings(deadline=None, max_examples=50)
@given(
    seed=SEED,
    geometry=geometries(),
    numbers=st.tuples(AMPLITUDE, AMPLITUDE, TAU, TAU),
    tau=st.floats(1e-3, 1.0),
    more=st.fixed_dictionaries(BOUNDED | {"bound": st.sampled_from(["hard", None])}),
)
def test_it_is_the_sum_over_pairs_and_rewards(seed, geometry, numbers, tau, more):
    rule = RewardSTDP(PairSTDP(*numbers, connection=geometry[0], **more), tau)
    pre, post, weight = random_run(seed, geometry)
    reward = torch.randn(pre.shape[:2], generator=torch.Generator().manual_seed(seed), dtype=F64)
    expected = rewarded(rule, pre, post, reward, weight)
    state = whole_and_stepwise(rule, pre, post, reward, weight=weight, expected=expected)
    assert state.eligibility.shape == (pre.shape[1], *weight.shape)


@pytest.mark.parametrize("bound", ["hard", "soft", None])
def test_a_sequence_may_be_cut_anywhere(bound):
    rule = PairSTDP(0.05, 0.06, bound=bound)
    pre, post, weight = random_spikes(1, 20, 2, 5, 4)
    whole, last = rule.run(pre, post, weight)
    part, state = rule.run(pre[:7], post[:7], weight)
    part, state = stepwise(rule, pre[7:9], post[7:9], weight=part, state=state)
    part, state = rule.run(pre[9:], post[9:], part, state)
    same(part, whole)
    same(state, last)


def pair_at(lag, rule):
    """What one pair with the post spike ``lag`` steps after the pre spike does."""
    pre, post = torch.zeros(41, 1, 1, dtype=F64), torch.zeros(41, 1, 1, dtype=F64)
    pre[20], post[20 + lag] = 1, 1
    weight = torch.full((1, 1), 0.5, dtype=F64)
    return (rule.run(pre, post, weight)[0] - weight).item()


@pytest.mark.parametrize("lag", [-20, -3, -1, 0, 1, 5, 20])
def test_one_pair_follows_the_window(lag):
    rule = PairSTDP(0.02, 0.03, 10e-3, 30e-3, bound=None)
    expected = 0.02 * math.exp(-lag / 10) if lag > 0 else -0.03 * math.exp(lag / 30) if lag < 0 else 0.02 - 0.03
    assert pair_at(lag, rule) == pytest.approx(expected, rel=1e-12)
    assert rule.window(lag * 1e-3) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("bound", ["hard", "soft", None])
def test_autograd_sees_nothing_and_weights_are_not_written(bound):
    pre, post, weight = random_spikes(4, 6, 2, 3, 2)
    parameter = torch.nn.Parameter(weight.clone())
    spikes = post.clone().requires_grad_()
    rule = PairSTDP(bound=bound)
    for new, state in (rule.step(pre[0], spikes[0], parameter), rule.run(pre, spikes, parameter)):
        assert not new.requires_grad and not any(trace.requires_grad for trace in state)
        assert torch.equal(parameter.detach(), weight)
        assert new.data_ptr() != parameter.data_ptr()
    with torch.inference_mode():
        same, _ = rule.run(pre, post, parameter)
    assert torch.equal(same, rule.run(pre, post, weight)[0])


@pytest.mark.parametrize("bound", ["hard", "soft", None])
def test_weights_can_be_changed_in_place(bound):
    rule = PairSTDP(0.2, 0.1, bound=bound)
    pre, post, weight = random_spikes(6, 6, 2, 3, 2)
    parameter, other, state = torch.nn.Parameter(weight.clone()), torch.empty_like(weight), None
    for pre_t, post_t in zip(pre, post, strict=True):
        into, _ = rule.step(pre_t, post_t, parameter, state, out=other)
        got, state = rule.step(pre_t, post_t, parameter, state, out=parameter)
        assert got is parameter and into is other and torch.equal(got, into)
    assert parameter.requires_grad and parameter.grad_fn is None
    same(parameter.data, pairwise(rule, pre, post, weight))
    with pytest.raises(ValueError, match=r"out must be .* \[2, 3\] on cpu .*, but it is .* \[3, 2\]"):
        rule.step(pre[0], post[0], weight, out=weight.T)


PRE, POST, WEIGHT = torch.zeros(2, 3), torch.zeros(2, 4), torch.zeros(4, 3)


@pytest.mark.parametrize(
    ("handed", "error", "match"),
    [
        ((PRE, POST, WEIGHT.half()), TypeError, "weight must be float32 or float64, .* but it is torch.float16"),
        ((PRE[0], POST, WEIGHT), ValueError, r"pre must be real \[B, n_pre\], but it is torch.float32 \[3\]"),
        ((PRE[:0], POST[:0], WEIGHT), ValueError, "at least one step and one sample"),
        ((PRE, PRE, WEIGHT), ValueError, "post must have 4 neurons"),
        ((PRE[:1], POST, WEIGHT), ValueError, "pre and post must have the same steps and samples"),
        ((PRE, POST, WEIGHT, PRE), TypeError, "state must be a STDPState or None, but it is a Tensor"),
        ((PRE.to("meta"), POST, WEIGHT), ValueError, "pre must be on cpu, as weight is, but it is on meta"),
        (
            (PRE, POST, WEIGHT, STDPState(PRE, POST.double())),
            ValueError,
            "state.post must be torch.float32",
        ),
    ],
)
def test_what_no_step_can_be_made_of(handed, error, match):
    with pytest.raises(error, match=match):
        PairSTDP().step(*handed)


def test_a_run_wants_time_first_and_spikes():
    with pytest.raises(ValueError, match=r"pre must be real \[T, B, n_pre\], but it is torch.float32 \[2, 3\]"):
        PairSTDP().run(PRE, POST, WEIGHT)
    for rule in (PairSTDP(bound=None), TripletSTDP()):
        for value in (math.nan, math.inf, -7.0, 0.3):
            with pytest.raises(ValueError, match=rf"pre must be 0 or 1, but pre\[0, 0, 0\] is {value}"):
                rule.run(torch.full((5, 2, 3), value), torch.zeros(5, 2, 4), WEIGHT)
    with pytest.raises(ValueError, match=r"post must be 0 or 1, but post\[4, 0, 0\] is 2"):
        post = torch.arange(5).view(5, 1, 1).expand(5, 2, 4) // 2
        RewardSTDP().run(torch.zeros(5, 2, 3), post, torch.zeros(5, 2), WEIGHT)


def test_rules_and_arguments_that_make_no_sense():
    pre, post, weight = random_spikes(3, 4, 2, 3, 2)
    reward = torch.ones(4, 2)
    with pytest.raises(ValueError, match="bound of pair must be one of 'hard', None, but it is 'soft'"):
        RewardSTDP(PairSTDP(bound="soft"))
    with pytest.raises(ValueError, match=r"reward must be real numbers \[4, 2\] on cpu"):
        RewardSTDP().run(pre, post, reward[:, :1], weight)
    with pytest.raises(ValueError, match=r"reward must be finite, but reward\[0, 0\] is nan"):
        RewardSTDP().run(pre, post, reward * math.nan, weight)
    with pytest.raises(ValueError, match=r"state.eligibility must be .* \[2, 2, 3\]"):
        RewardSTDP().run(pre, post, reward, weight, RewardState(pre[0], post[0], weight))


N_PRE = torch.tensor([[[1, 0], [0, 1]], [[0, 1], [1, 1]], [[1, 1], [0, 0]]], dtype=F64)
N_POST = torch.tensor([[[0], [1]], [[1], [0]], [[1], [1]]], dtype=F64)
N_WEIGHT = torch.tensor([[0.5, 0.3]], dtype=F64)
# By ``stdp_step_linear`` of Norse 1.1.0 with torch 2.13, from these spikes and weights.
GOLDEN = {"additive": [0.500019208, 0.300019208], "multiplicative_relu": [0.500009604, 0.3000531239290153]}


@pytest.mark.parametrize("algorithm", BY_NAME)
def test_it_gives_the_numbers_that_norse_gave(algorithm):
    got, _ = like_norse(BY_NAME[algorithm], 1e-3).run(N_PRE, N_POST, N_WEIGHT)
    assert got.flatten().tolist() == pytest.approx(GOLDEN[algorithm], rel=0, abs=1e-13)


# By ``stdp_step_conv2d`` of Norse 1.1.0 with torch 2.13, eta 0.05: the sum of all weights and one of them.
CONV_GOLDEN = {
    "additive": (15.386769047306943, 0.6187479762706645),
    "multiplicative_relu": (15.114889298483929, 0.6105799234234777),
}


def small():
    """Spikes and weights made of sines, which are the same everywhere."""
    waves = [torch.arange(4 * n, dtype=F64).mul(0.7).sin() for n in (2 * 2 * 5 * 4, 2 * 3 * 4 * 3)]
    pre, post = waves[0].view(4, 2, 2, 5, 4) > 0.2, waves[1].view(4, 2, 3, 4, 3) > 0.4
    return pre.to(F64), post.to(F64), torch.arange(24, dtype=F64).mul(0.9).cos().abs().view(3, 2, 2, 2)


@pytest.mark.parametrize("algorithm", BY_NAME)
def test_a_convolution_gives_the_numbers_that_norse_gave(algorithm):
    got, _ = like_norse(BY_NAME[algorithm], 0.05, connection=Convolution()).run(*small())
    assert (got.sum().item(), got[0, 0, 0, 1].item()) == pytest.approx(CONV_GOLDEN[algorithm], rel=0, abs=1e-12)


IMAGE, MAP, KERNEL = torch.zeros(2, 4, 6, 5), torch.zeros(2, 6, 4, 4), torch.zeros(6, 4, 3, 2)


@pytest.mark.parametrize(
    ("handed", "error", "match"),
    [
        ((IMAGE, MAP, KERNEL[0]), ValueError, r"weight must be \[O, C, kH, kW\], but its shape is \[4, 3, 2\]"),
        ((IMAGE, MAP[..., :3], KERNEL), ValueError, "post must have 4 × 4 neurons per channel, as the convolution"),
        ((IMAGE[:, :, :2], MAP, KERNEL), ValueError, "post must have 0 × 4 neurons per channel"),
        ((IMAGE, MAP, KERNEL, STDPState(IMAGE, IMAGE)), ValueError, r"state.post must be .* \[2, 6, 4, 4\]"),
    ],
)
def test_what_no_convolution_can_be_made_of(handed, error, match):
    for _ in range(2):  # what was refused once is not remembered as good
        with pytest.raises(error, match=match):
            PairSTDP(connection=Convolution()).step(*handed)
