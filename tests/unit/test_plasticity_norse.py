"""Pair STDP against Norse's ``stdp_step_linear``: the numbers it gave, and Norse itself where it is installed."""

import math

import pytest
import torch

from snnkit.plasticity import PairSTDP

F64 = torch.float64
DT, TAU, ETA = 1e-3, 50e-3, 1e-3  # Norse's defaults
PRE = torch.tensor([[[1, 0], [0, 1]], [[0, 1], [1, 1]], [[1, 1], [0, 0]]], dtype=F64)
POST = torch.tensor([[[0], [1]], [[1], [0]], [[1], [1]]], dtype=F64)
WEIGHT = torch.tensor([[0.5, 0.3]], dtype=F64)
BY_NAME = {"additive": "hard", "multiplicative_relu": "soft"}
# By Norse 1.1.0 with torch 2.13, from ``norse_steps(PRE, POST, WEIGHT, name)``.
GOLDEN = {
    "additive": [0.500019208, 0.300019208],
    "multiplicative_relu": [0.500009604, 0.3000531239290153],
}


def like_norse(bound, eta=ETA):
    """Norse's traces decay by 1 - dt / tau, a step of Euler's, and count dt / tau for a spike."""
    tau = -DT / math.log(1 - DT / TAU)
    return PairSTDP(eta * DT / TAU, eta * DT / TAU, tau, tau, DT, bound=bound)


def norse_steps(pre, post, weight, algorithm, eta=ETA):
    stdp = pytest.importorskip("norse.torch.functional.stdp")
    state = stdp.STDPState(torch.zeros_like(pre[0]), torch.zeros_like(post[0]))
    one, rate = torch.ones((), dtype=F64), torch.full((), 1 / TAU, dtype=F64)  # its own are float32
    parameters = stdp.STDPParameters(one, one, rate, rate, eta_plus=eta, eta_minus=eta, stdp_algorithm=algorithm)
    for pre_t, post_t in zip(pre, post, strict=True):
        weight, state = stdp.stdp_step_linear(pre_t, post_t, weight, state, parameters, DT)
    return weight


@pytest.mark.parametrize("algorithm", BY_NAME)
def test_it_gives_the_numbers_that_norse_gave(algorithm):
    got, _ = like_norse(BY_NAME[algorithm]).run(PRE, POST, WEIGHT)
    assert got.flatten().tolist() == pytest.approx(GOLDEN[algorithm], rel=0, abs=1e-13)


@pytest.mark.parametrize("algorithm", BY_NAME)
def test_it_gives_what_norse_gives(algorithm):
    draw = torch.Generator().manual_seed(0)
    pre, post = ((torch.rand(60, 4, n, generator=draw) < 0.3).to(F64) for n in (7, 5))
    weight = torch.rand(5, 7, generator=draw, dtype=F64)
    eta = 2.0  # large enough for weights to reach their bounds
    expected = norse_steps(pre, post, weight, algorithm, eta)
    got, _ = like_norse(BY_NAME[algorithm], eta).run(pre, post, weight)
    assert (got - weight).abs().max() > 0.1
    torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)
