"""Triplet STDP: equal to the sum over all triplets, to pair STDP without them, and to what the experiment found."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from snnkit.plasticity import PairSTDP, STDPState, TripletSTDP, tripletwise

F64 = torch.float64


def random_spikes(seed, steps, batch, pre, post, rate=0.3):
    draw = torch.Generator().manual_seed(seed)
    spikes = [(torch.rand(steps, batch, n, generator=draw) < rate).to(F64) for n in (pre, post)]
    return *spikes, torch.rand(post, pre, generator=draw, dtype=F64)


def stepwise(rule, pre, post, weight):
    state = None
    for pre_t, post_t in zip(pre, post, strict=True):
        weight, state = rule.step(pre_t, post_t, weight, state)
    return weight, state


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    shape=st.tuples(*(st.integers(1, most) for most in (10, 3, 3, 3))),
    amplitudes=st.tuples(*[st.floats(0, 0.3)] * 4),
    taus=st.tuples(*[st.floats(1e-3, 0.1)] * 4),
    bound=st.sampled_from(["hard", "soft", None]),
    batch=st.sampled_from(["sum", "mean"]),
    engine=st.sampled_from(["eager", "cpp"]),
)
def test_it_is_the_sum_over_all_triplets(seed, shape, amplitudes, taus, bound, batch, engine):
    more = {"bound": bound, "w_min": 0.1, "w_max": 0.8, "batch": batch, "engine": engine}
    rule = TripletSTDP(*amplitudes, *taus, **more)
    pre, post, weight = random_spikes(seed, *shape)
    expected = tripletwise(rule, pre, post, weight)
    (whole, last), (online, state) = rule.run(pre, post, weight), stepwise(rule, pre, post, weight)
    torch.testing.assert_close(whole, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(online, expected, rtol=1e-12, atol=1e-12)
    for one, other in zip(last, state, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_a_sequence_may_be_cut_anywhere():
    rule = TripletSTDP(0.01, 0.02, 0.03, 0.04)
    pre, post, weight = random_spikes(1, 20, 2, 5, 4)
    part, state = rule.run(pre[:7], post[:7], weight)
    part, _ = rule.run(pre[7:], post[7:], part, state)
    torch.testing.assert_close(part, rule.run(pre, post, weight)[0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("bound", ["hard", "soft", None])
def test_without_triplets_it_is_pair_stdp(bound):
    pre, post, weight = random_spikes(2, 20, 2, 5, 4)
    triplet = TripletSTDP(0.05, 0.06, 0.0, 0.0, 20e-3, 30e-3, bound=bound)
    pair = PairSTDP(0.05, 0.06, 20e-3, 30e-3, bound=bound)
    torch.testing.assert_close(triplet.run(pre, post, weight)[0], pair.run(pre, post, weight)[0])


def change_at(rate):
    """Of 60 pairs, post 10 ms after pre, so many per second."""
    period = round(1000 / rate)
    pre, post = torch.zeros(60 * period + 20, 1, 1, dtype=F64), torch.zeros(60 * period + 20, 1, 1, dtype=F64)
    pre[: 60 * period : period], post[10 : 60 * period + 10 : period] = 1, 1
    weight = torch.full((1, 1), 0.5, dtype=F64)
    return (TripletSTDP(bound=None).run(pre, post, weight)[0] - weight).item()


def test_pairs_that_are_rare_do_little_and_frequent_ones_strengthen():
    # What the defaults are fitted to: Sjöström, Turrigiano & Nelson 2001 (doi:10.1016/S0896-6273(01)00542-6).
    assert abs(change_at(0.1)) < 0.1
    assert 0.3 < change_at(50) < 1.0
    assert change_at(10) < change_at(20) < change_at(40)


def test_weights_can_be_changed_in_place_and_autograd_sees_nothing():
    pre, post, weight = random_spikes(3, 1, 2, 3, 2)
    parameter = torch.nn.Parameter(weight.clone())
    apart, _ = TripletSTDP().step(pre[0], post[0], parameter)
    assert torch.equal(parameter.data, weight) and not apart.requires_grad
    got, _ = TripletSTDP().step(pre[0], post[0], parameter, out=parameter)
    assert got is parameter and torch.equal(parameter.data, apart)


@pytest.mark.parametrize(
    ("numbers", "match"),
    [
        ({"a3_plus": -1.0}, "a3_plus must be at least 0"),
        ({"tau_y": 0.0}, "tau_y must be above 0"),
        ({"bound": "none"}, "bound must be one of"),
        ({"w_max": 0.0}, "w_min must be below w_max"),
    ],
)
def test_numbers_that_make_no_rule(numbers, match):
    with pytest.raises(ValueError, match=match):
        TripletSTDP(**numbers)


def test_states_of_another_rule_are_refused():
    pre, post, weight = random_spikes(4, 3, 2, 3, 2)
    with pytest.raises(TypeError, match="state must be a TripletState or None, not a STDPState"):
        TripletSTDP().run(pre, post, weight, STDPState(pre[0], post[0]))
    with pytest.raises(ValueError, match=r"state\.post_slow must have the shape"):
        TripletSTDP().run(pre, post, weight, (pre[0], pre[0], post[0], pre[0]))
