"""Population statistics against their definitions, and the network that is read out by them."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from snnkit import data
from snnkit.models import Answer, Population, StatisticalSNN, Statistics
from snnkit.nn import detach


def random_spikes(steps=20, batch=3, neurons=12, rate=0.3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(steps, batch, neurons, generator=generator) < rate).double()


def of(spikes, populations=1):
    population = Population(spikes.shape[2], populations)
    return population.split(population(spikes)[0][0])


def small(**arguments):
    torch.manual_seed(0)
    return StatisticalSNN(**{"inputs": 64, "hidden": 48, "populations": 12, "engine": "eager", **arguments})


# --- statistics ------------------------------------------------------------------------------------------------------


@given(st.integers(2, 9), st.integers(1, 3), st.integers(1, 4), st.integers(1, 3), st.floats(0, 1), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_against_the_definitions(steps, batch, size, populations, rate, seed):
    spikes = random_spikes(steps, batch, size * populations, rate, seed)
    found = of(spikes, populations)
    for b in range(batch):
        for p in range(populations):
            part = spikes[:, b, p * size : (p + 1) * size].numpy()  # [T, size]
            number = part.sum(1)
            each = part.var(0).mean()
            expected = Statistics(
                part.mean(),
                part.mean(0).var(),
                number.var() / number.mean() if number.any() else 0.0,
                part.mean(1).var() / each if each > 0 else 0.0,
            )
            for name, value in zip(Statistics._fields, expected, strict=True):
                assert float(getattr(found, name)[b, p]) == pytest.approx(float(value), abs=1e-9), name


@pytest.mark.parametrize("steps", [1, 7])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_nothing_and_everything_have_no_nan(value, steps):
    spikes = torch.full((steps, 2, 6), value, requires_grad=True)
    found = of(spikes, 2)
    assert torch.equal(found.rate, torch.full((2, 2), value))
    assert not any(getattr(found, name).any() for name in ("spread", "fano", "synchrony"))
    torch.cat(found).sum().backward()
    assert spikes.grad.isfinite().all()


def test_gradients_are_those_of_the_formulas():
    # Away from 0 and 1, where the bounds of the denominators don't matter.
    x = (random_spikes(6, 2, 4) * 0.5 + 0.2).requires_grad_()
    assert torch.autograd.gradcheck(lambda spikes: Population(4, 2)(spikes)[0], (x,))


def test_chunks_of_time_are_the_whole():
    population, spikes = Population(12, 3), random_spikes()
    whole, last = population(spikes)
    _, state = population(spikes[:7])
    second, end = population(spikes[7:], detach(state))
    torch.testing.assert_close(second, whole)
    torch.testing.assert_close(end, last)
    assert float(end.steps) == 20


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: Population(10, 3), "10 is no multiple of 3"),
        (lambda: Population(4, 2)(torch.zeros(3, 2, 5)), r"must be \[T, B, 4\].*\[3, 2, 5\]"),
        (lambda: Population(4, 2)(torch.zeros(0, 2, 4)), "T at least 1"),
        (lambda: small().process_input(torch.ones(2, 5)), r"must be \[B, ...\] with 64 values per sample"),
        (lambda: Population(4, 2)(torch.zeros(3, 2, 4), Population(4, 2)(torch.zeros(3, 3, 4))[1]), "state of Popul"),
    ],
)
def test_what_no_population_can_be_made_of(call, says):
    with pytest.raises(ValueError, match=says):
        call()


# --- network ---------------------------------------------------------------------------------------------------------


def test_the_readout_sees_the_statistics_alone():
    net = small()
    images = data.load("digits", "test")[0][:5]
    answer = net.process_input(images)
    assert isinstance(answer, Answer) and isinstance(answer.statistics, Statistics)
    assert answer.output.shape == (5, 10) and all(s.shape == (5, 12) for s in answer.statistics)
    assert torch.allclose(net[4](torch.cat(answer.statistics, 1)), answer.output)
    assert 0 < answer.statistics.rate.mean() < 1


def test_plain_data_of_every_kind():
    net = small()
    rows = [[0.25] * 64, [1.0] * 64]
    answers = []
    for x in (rows, np.array(rows), torch.tensor(rows), torch.tensor(rows).reshape(2, 1, 8, 8), np.array(rows, "f4")):
        torch.manual_seed(2)
        answers.append(net.process_input(x))
    torch.manual_seed(2)
    answers.append(net.process_input((torch.tensor(rows) * 256).clamp(max=255).to(torch.uint8)))
    for answer in answers[1:-1]:
        assert torch.equal(answer.output, answers[0].output)
    # 64 / 255 is a little more than a quarter.
    assert torch.allclose(answers[-1].statistics.rate, answers[0].statistics.rate, atol=0.1)
    assert net.process_input([[0, 1] * 32]).output.shape == (1, 10)
