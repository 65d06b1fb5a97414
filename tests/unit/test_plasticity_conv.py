"""STDP of convolutions: equal to sums over all pairs of spikes at all positions, for every rule and geometry."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from snnkit.plasticity import Convolution, Dense, PairSTDP, RewardSTDP, STDPState, TripletSTDP
from tests.unit.stdp_by_sums import BY_NAME, like_norse, pairwise, rewarded, same, stepwise, tripletwise

F64 = torch.float64


@st.composite
def geometries(draw):
    """A convolution, and (batch, inputs, outputs, image, kernel) that fit it."""

    connection = Convolution(draw(st.integers(1, 2)), draw(st.integers(0, 2)))
    kernel = draw(st.tuples(*[st.integers(1, 2)] * 2))
    image = draw(st.tuples(*[st.integers(3, 4)] * 2))
    batch, inputs, outputs = draw(st.tuples(st.integers(1, 2), st.integers(1, 2), st.integers(1, 2)))
    return connection, batch, inputs, outputs, image, kernel


def random_images(seed, geometry, steps, rate=0.3):
    connection, batch, inputs, outputs, image, kernel = geometry
    draw = torch.Generator().manual_seed(seed)
    weight = torch.rand(outputs, inputs, *kernel, generator=draw, dtype=F64)
    pre = (torch.rand(steps, batch, inputs, *image, generator=draw) < rate).to(F64)
    size = connection.outputs(pre.shape, weight.shape)
    return pre, (torch.rand(steps, batch, outputs, *size, generator=draw) < rate).to(F64), weight


MORE = {
    "bound": st.sampled_from(["hard", "soft", None]),
    "batch": st.sampled_from(["sum", "mean"]),
    "engine": st.sampled_from(["eager", "cpp"]),
}


@settings(deadline=None, max_examples=40)
@given(geometry=geometries(), seed=st.integers(0, 10_000), more=st.fixed_dictionaries(MORE))
def test_pairs_of_all_positions_add_up(geometry, seed, more):
    pre, post, weight = random_images(seed, geometry, 5)
    rule = PairSTDP(0.11, 0.13, 5e-3, 8e-3, w_min=0.1, w_max=0.8, connection=geometry[0], **more)
    expected = pairwise(rule, pre, post, weight)
    (whole, last), (online, state) = rule.run(pre, post, weight), stepwise(rule, pre, post, weight=weight)
    same(whole, expected)
    same(online, expected)
    same(last, state)


@settings(deadline=None, max_examples=20)
@given(geometry=geometries(), seed=st.integers(0, 10_000), more=st.fixed_dictionaries(MORE))
def test_triplets_of_all_positions_add_up(geometry, seed, more):
    pre, post, weight = random_images(seed, geometry, 4)
    rule = TripletSTDP(0.1, 0.12, 0.2, 0.15, 5e-3, 8e-3, 9e-3, 7e-3, w_max=0.9, connection=geometry[0], **more)
    expected = tripletwise(rule, pre, post, weight)
    same(rule.run(pre, post, weight)[0], expected)
    same(stepwise(rule, pre, post, weight=weight)[0], expected)


@settings(deadline=None, max_examples=20)
@given(
    geometry=geometries(),
    seed=st.integers(0, 10_000),
    bound=st.sampled_from(["hard", None]),
    batch=MORE["batch"],
)
def test_rewards_come_to_all_positions(geometry, seed, bound, batch):
    pre, post, weight = random_images(seed, geometry, 4)
    reward = torch.randn(pre.shape[:2], generator=torch.Generator().manual_seed(seed), dtype=F64)
    rule = RewardSTDP(PairSTDP(0.11, 0.13, 5e-3, bound=bound, batch=batch, connection=geometry[0]), 6e-3)
    expected = rewarded(rule, pre, post, reward, weight)
    whole, state = rule.run(pre, post, reward, weight)
    assert state.eligibility.shape == (pre.shape[1], *weight.shape)
    same(whole, expected)
    same(stepwise(rule, pre, post, reward, weight=weight)[0], expected)


def test_a_kernel_as_large_as_the_image_is_a_dense_connection():
    geometry = (Convolution(), 3, 2, 4, (3, 5), (3, 5))
    pre, post, weight = random_images(1, geometry, 10)
    for kind in (PairSTDP, TripletSTDP):
        got, _ = kind(connection=Convolution()).run(pre, post, weight)
        dense, _ = kind(connection=Dense()).run(pre.flatten(2), post.flatten(2), weight.flatten(1))
        assert not torch.equal(dense, weight.flatten(1))
        same(got.flatten(1), dense)


# By ``stdp_step_conv2d`` of Norse 1.1.0 with torch 2.13, eta 0.05: the sum of all weights and one of them.
GOLDEN = {
    "additive": (15.386769047306943, 0.6187479762706645),
    "multiplicative_relu": (15.114889298483929, 0.6105799234234777),
}


def small():
    """Spikes and weights made of sines, which are the same everywhere."""
    waves = [torch.arange(4 * n, dtype=F64).mul(0.7).sin() for n in (2 * 2 * 5 * 4, 2 * 3 * 4 * 3)]
    pre, post = waves[0].view(4, 2, 2, 5, 4) > 0.2, waves[1].view(4, 2, 3, 4, 3) > 0.4
    return pre.to(F64), post.to(F64), torch.arange(24, dtype=F64).mul(0.9).cos().abs().view(3, 2, 2, 2)


@pytest.mark.parametrize("algorithm", BY_NAME)
def test_it_gives_the_numbers_that_norse_gave(algorithm):
    got, _ = like_norse(BY_NAME[algorithm], 0.05, connection=Convolution()).run(*small())
    assert (got.sum().item(), got[0, 0, 0, 1].item()) == pytest.approx(GOLDEN[algorithm], rel=0, abs=1e-12)


PRE, POST, WEIGHT = torch.zeros(2, 4, 6, 5), torch.zeros(2, 6, 4, 4), torch.zeros(6, 4, 3, 2)


@pytest.mark.parametrize(
    ("handed", "error", "match"),
    [
        ((PRE, POST, WEIGHT[0]), ValueError, r"weight must be \[O, C, kH, kW\], but its shape is \[4, 3, 2\]"),
        ((PRE, POST[..., :3], WEIGHT), ValueError, "post must have 4 × 4 neurons per channel, as the convolution"),
        ((PRE[:, :, :2], POST, WEIGHT), ValueError, "post must have 0 × 4 neurons per channel"),
        ((PRE, POST, WEIGHT, STDPState(PRE, PRE)), ValueError, r"state.post must have the shape \[2, 6, 4, 4\]"),
    ],
)
def test_what_no_step_can_be_made_of(handed, error, match):
    for _ in range(2):  # what was refused once is not remembered as good
        with pytest.raises(error, match=match):
            PairSTDP(connection=Convolution()).step(*handed)
