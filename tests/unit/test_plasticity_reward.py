"""Reward-modulated STDP: equal to the sum over pairs and rewards, and a synapse that learns what was rewarded."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from snnkit.plasticity import PairSTDP, RewardState, RewardSTDP, rewarded

F64 = torch.float64


def random_run(seed, steps, batch, pre, post):
    draw = torch.Generator().manual_seed(seed)
    spikes = [(torch.rand(steps, batch, n, generator=draw) < 0.3).to(F64) for n in (pre, post)]
    reward = torch.randn(steps, batch, generator=draw, dtype=F64)
    return *spikes, reward, torch.rand(post, pre, generator=draw, dtype=F64)


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    shape=st.tuples(*(st.integers(1, most) for most in (10, 3, 3, 3))),
    numbers=st.tuples(st.floats(0, 0.3), st.floats(0, 0.3), st.floats(1e-3, 0.1), st.floats(1e-3, 0.1)),
    tau=st.floats(1e-3, 1.0),
    bound=st.sampled_from(["hard", None]),
    batch=st.sampled_from(["sum", "mean"]),
)
def test_it_is_the_sum_over_pairs_and_rewards(seed, shape, numbers, tau, bound, batch):
    rule = RewardSTDP(PairSTDP(*numbers, bound=bound, w_min=0.1, w_max=0.8, batch=batch), tau)
    pre, post, reward, weight = random_run(seed, *shape)
    expected = rewarded(rule, pre, post, reward, weight)
    whole, last = rule.run(pre, post, reward, weight)
    online, state = weight, None
    for now in zip(pre, post, reward, strict=True):
        online, state = rule.step(*now, online, state)
    torch.testing.assert_close(whole, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(online, expected, rtol=1e-12, atol=1e-12)
    for one, other in zip(last, state, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_a_reward_that_is_always_one_and_no_memory_is_pair_stdp():
    pre, post, _, weight = random_run(1, 15, 2, 4, 3)
    pair = PairSTDP(0.05, 0.06)
    got, _ = RewardSTDP(pair, 1e-6).run(pre, post, torch.ones(15, 2), weight)
    torch.testing.assert_close(got, pair.run(pre, post, weight)[0])


def test_a_reward_that_comes_later_counts_less_and_without_one_nothing_changes():
    pre, post, reward = torch.zeros(101, 1, 1), torch.zeros(101, 1, 1), torch.zeros(101, 1)
    pre[0], post[0], reward[100] = 1, 1, 2
    rule = RewardSTDP(PairSTDP(0.3, 0.1, bound=None), 50e-3)
    start = torch.tensor([[0.5]], dtype=F64)
    assert torch.equal(rule.run(pre, post, 0 * reward, start)[0], start)
    got, state = rule.run(pre, post, reward, start)
    assert got.item() - 0.5 == pytest.approx(2 * 0.2 * math.exp(-2))
    assert state.eligibility.item() == pytest.approx(0.2 * math.exp(-2))


def test_the_synapse_that_was_rewarded_becomes_the_strongest():
    # Izhikevich's experiment in small: among random spikes, pairs of one synapse are followed by a reward.
    draw = torch.Generator().manual_seed(0)
    pre, post = ((torch.rand(8000, 1, n, generator=draw) < 0.01).to(F64) for n in (20, 20))
    paired = torch.arange(500, 8000, 500)
    pre[paired, 0, 7], post[paired + 5, 0, 3], reward = 1, 1, torch.zeros(8000, 1)
    reward[paired + 60] = 1
    weight = torch.full((20, 20), 0.5, dtype=F64)
    got, _ = RewardSTDP(PairSTDP(0.02, 0.02), 0.1).run(pre, post, reward, weight)
    assert got.argmax().item() == 3 * 20 + 7
    assert (got[3, 7] - 0.5) > 1.5 * got.flatten().sort().values[-2].sub(0.5)


def test_what_is_handed_in_is_left_alone():
    pre, post, reward, weight = random_run(2, 4, 2, 3, 2)
    parameter = torch.nn.Parameter(weight.clone())
    _, state = RewardSTDP().run(pre, post, reward, parameter)
    kept = [part.clone() for part in state]
    new, _ = RewardSTDP().run(pre, post, reward, parameter, state)
    RewardSTDP().step(pre[0], post[0], reward[0], parameter, state)
    assert not new.requires_grad and torch.equal(parameter.data, weight)
    assert all(map(torch.equal, state, kept))


def test_rules_and_arguments_that_make_no_sense():
    pre, post, reward, weight = random_run(3, 4, 2, 3, 2)
    with pytest.raises(ValueError, match="pair must have the bound 'hard' or None, not 'soft'"):
        RewardSTDP(PairSTDP(bound="soft"))
    with pytest.raises(TypeError, match="pair must be a PairSTDP, not a float"):
        RewardSTDP(0.1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="tau_eligibility must be above 0"):
        RewardSTDP(tau_eligibility=0.0)
    with pytest.raises(TypeError, match=r"reward must be a torch.Tensor \[T, B\], not a float"):
        RewardSTDP().run(pre, post, 1.0, weight)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"reward must be real numbers \[4, 2\] on cpu"):
        RewardSTDP().run(pre, post, reward[:, :1], weight)
    with pytest.raises(ValueError, match=r"reward must be finite, but reward\[0, 0\] is nan"):
        RewardSTDP().run(pre, post, reward * math.nan, weight)
    with pytest.raises(ValueError, match=r"state.eligibility must be a torch.Tensor \[2, 2, 3\]"):
        RewardSTDP().run(pre, post, reward, weight, RewardState(pre[0], post[0], weight))


def test_a_weight_may_lie_in_memory_as_it_likes():
    pre, post, reward = (torch.rand(15, 2, n) < 0.3 for n in (3, 4, 1))
    weight = torch.rand(3, 4, dtype=torch.float64).T
    rule = RewardSTDP(PairSTDP(0.3, 0.1), 50e-3)
    run = [rule.run(pre, post, reward[..., 0].double(), w)[0] for w in (weight, weight.contiguous())]
    assert not weight.is_contiguous() and torch.equal(*run)
    step = [rule.step(pre[0], post[0], reward[0, :, 0].double(), w)[0] for w in (weight, weight.contiguous())]
    assert torch.equal(*step)
