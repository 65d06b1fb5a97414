"""The checks of notebook 06: references pass, stubs are to do, and each classic mistake fails with its hint."""

import pytest
import torch

from snnkit.bench.traffic import Traffic
from snnkit.course import grade
from snnkit.course.nb06 import bytes_moved, one_resting_neuron, resting_step
from snnkit.neuron import LIF
from snnkit.neuron.base import MembraneState
from snnkit.surrogate import ATan
from tests.course.answers import fails, unused_hints


def test_every_hint_is_shown_for_some_mistake():
    assert not any(unused_hints({"06.1": COUNTS, "06.2": STEPS, "06.3": ROOFS}).values())


# 06.1


def test_the_floor_is_eight_and_twenty_bytes():
    assert bytes_moved([], 4, 4) == (0, 8, 20)
    assert bytes_moved([], 2, 2) == (0, 4, 10)
    assert bytes_moved([], 4, 1)[1] == 5


def test_operations_as_they_were_watched_can_be_counted():
    with Traffic() as seen:
        LIF(engine="eager").step(torch.rand(1), MembraneState(torch.zeros(1)))
    assert bytes_moved(seen.kernels)[0] == seen.bytes > 80


def counter(alone=None, inference=None, training=None):
    """An answer to 06.1 with one of its parts exchanged."""

    def answer(ops, x=4, spike=4):
        right = bytes_moved(ops, x, spike)
        given = (alone and alone(ops), inference and inference(x, spike), training and training(x, spike))
        return tuple(want if wrong is None else wrong for wrong, want in zip(given, right, strict=True))

    return answer


def reads_of(ops):
    return sum(sum(reads) for _, reads, _ in ops)


def writes_of(ops):
    return sum(sum(writes) for _, _, writes in ops)


COUNTS = [
    (counter(alone=reads_of), "every operation by itself", 1),
    (counter(alone=writes_of), "every operation by itself", 1),
    (counter(alone=len), "every operation by itself", 0),
    (counter(alone=lambda ops: 12 * len(ops)), "every operation by itself", 0),
    (counter(alone=lambda ops: 2 * writes_of(ops)), "every operation by itself", 0),
    (counter(inference=lambda x, spike: x + spike + 8), "fused, inference", 2),
    (counter(inference=lambda x, spike: x + spike + 4), "fused, inference", 2),
    (counter(inference=lambda x, spike: 8), "fused, inference", 3),
    (counter(inference=lambda x, spike: 2 * x), "fused, inference", 3),
    (counter(inference=lambda x, spike: x), "fused, inference", 3),
    (counter(training=lambda x, spike: x + spike + spike + x), "fused, training", 5),
    (counter(training=lambda x, spike: 3 * x + 3 * spike), "fused, training", 6),
    (counter(training=lambda x, spike: x + spike + x), "fused, training", 4),
    (counter(training=lambda x, spike: 20), "fused, training", 4),
]


@pytest.mark.parametrize(("answer", "check", "hint"), COUNTS)
def test_classic_mistakes_in_06_1(answer, check, hint):
    fails("06.1", answer, check, hint)


@pytest.mark.parametrize("answer", [lambda ops, x=4, spike=4: 98, lambda ops, x=4, spike=4: (98, 8)])
def test_something_else_than_three_numbers(answer):
    outcome = grade("06.1", answer)
    assert outcome.status == "failed" and "three numbers" in outcome.message


# 06.2


def by_masks(x, v, rest, fire):
    awake = (rest <= 0).float()
    v = awake * (0.9 * v + x) + (1 - awake) * v
    spike = awake * fire(v - 1.0)
    return spike, v - spike * v, awake * 2 * spike + (1 - awake) * (rest - 1)


def by_nested_choices(x, v, rest, fire):
    v = torch.where(rest > 0, v, 0.9 * v + x)
    spike = fire(v - 1)  # who rests has a membrane of 0
    return spike, torch.where(spike > 0, 0.0, v), torch.where(rest > 0, rest - 1, torch.where(spike > 0, 2.0, 0.0))


def by_clamping(x, v, rest, fire):
    v = torch.where(rest > 0, v, 0.9 * v + x)
    spike = fire(v - 1.0)
    return spike, v * (1 - spike.detach()), (rest - 1).clamp(min=0) + 2 * spike


@pytest.mark.parametrize("answer", [by_masks, by_nested_choices, by_clamping])
def test_other_right_answers_to_06_2_pass(answer):
    outcome = grade("06.2", answer)
    assert outcome.status == "passed", outcome


def test_the_reference_is_the_neuron_of_the_text():
    v = rest = torch.zeros(1)
    one = (0.0, 0.0)
    spikes = []
    for number in torch.rand(50, generator=torch.Generator().manual_seed(1)).tolist():
        spike, v, rest = resting_step(torch.tensor([number]), v, rest, ATan())
        expected, *one = one_resting_neuron(number, *one)
        assert spike.item() == expected
        assert (v.item(), rest.item()) == pytest.approx(tuple(one), abs=1e-6)
        spikes.append(expected)
    assert 5 < sum(spikes) < 20


def with_if(x, v, rest, fire):
    if rest > 0:
        return torch.zeros_like(x), v, rest - 1
    v = 0.9 * v + x
    spike = fire(v - 1.0)
    return spike, v * (1 - spike), 2 * spike


def all_or_none(x, v, rest, fire):
    if (rest > 0).any():
        return torch.zeros_like(x), v, rest - 1
    v = 0.9 * v + x
    spike = fire(v - 1.0)
    return spike, v * (1 - spike), 2 * spike


def indexing(x, v, rest, fire):
    awake = rest <= 0
    new = v.clone()
    new[awake] = 0.9 * v[awake] + x[awake]
    spike = fire(new - 1.0)
    return spike, new * (1 - spike), torch.where(awake, 2 * spike, rest - 1)


def skipping_when_silent(x, v, rest, fire):
    spike, new, after = resting_step(x, v, rest, fire)
    return (spike, new, after) if spike.sum() >= 0 else (spike, v, rest)


def never_resting(x, v, rest, fire):
    v = 0.9 * v + x
    spike = fire(v - 1.0)
    return spike, v * (1 - spike), 2 * spike


def resting_for_ever(x, v, rest, fire):
    spike, v, _ = resting_step(x, v, rest, fire)
    return spike, v, torch.where(rest > 0, rest, 2 * spike)


def counting_below_zero(x, v, rest, fire):
    spike, v, _ = resting_step(x, v, rest, fire)
    return spike, v, rest - 1 + 3 * spike


def silent_but_hearing(x, v, rest, fire):
    awake = rest <= 0
    v = 0.9 * v + x
    spike = torch.where(awake, fire(v - 1.0), 0.0)
    return spike, v * (1 - spike), torch.where(awake, 2 * spike, rest - 1)


def without_reset(x, v, rest, fire):
    awake = rest <= 0
    v = torch.where(awake, 0.9 * v + x, v)
    spike = torch.where(awake, fire(v - 1.0), 0.0)
    return spike, v, torch.where(awake, 2 * spike, rest - 1)


def soft_reset(x, v, rest, fire):
    awake = rest <= 0
    v = torch.where(awake, 0.9 * v + x, v)
    spike = torch.where(awake, fire(v - 1.0), 0.0)
    return spike, v - spike, torch.where(awake, 2 * spike, rest - 1)


def without_leak(x, v, rest, fire):
    spike, _, after = resting_step(x, v / 0.9, rest, fire)
    awake = rest <= 0
    return spike, torch.where(awake, v + x, v) * (1 - spike), after


def compared(x, v, rest, fire):
    awake = rest <= 0
    v = torch.where(awake, 0.9 * v + x, v)
    spike = torch.where(awake, (v >= 1.0).float(), 0.0)
    return spike, v * (1 - spike), torch.where(awake, 2 * spike, rest - 1)


def detached(x, v, rest, fire):
    spike, v, rest = resting_step(x, v, rest, fire)
    return spike.detach(), v, rest


STEPS = [
    (with_if, "many neurons", 0),
    (never_resting, "two steps of rest", 3),
    (resting_for_ever, "two steps of rest", 3),
    (counting_below_zero, "as one neuron does", 1),
    (silent_but_hearing, "two steps of rest", 4),
    (without_reset, "two steps of rest", 4),
    (soft_reset, "two steps of rest", 4),
    (without_leak, "as one neuron does", 1),
    (all_or_none, "as one neuron does", 1),
    (indexing, "elementwise", 2),
    (skipping_when_silent, "elementwise", 2),
    (compared, "learns", 5),
    (detached, "learns", 5),
]


@pytest.mark.parametrize(("answer", "check", "hint"), STEPS)
def test_classic_mistakes_in_06_2(answer, check, hint):
    fails("06.2", answer, check, hint)


def test_a_state_changed_in_place_fails():
    def answer(x, v, rest, fire):
        v.mul_(0.9).add_(x)
        return resting_step(torch.zeros_like(x), v / 0.9, rest, fire)

    outcome = grade("06.2", answer)
    assert outcome.status == "failed" and "in place" in outcome.message


def test_two_values_in_place_of_three_fail():
    outcome = grade("06.2", lambda x, v, rest, fire: (fire(v), v))
    assert outcome.status == "failed" and "three tensors" in outcome.message


# 06.3


def test_another_right_answer_to_06_3_passes():
    def answer(operations, bytes, rate, bandwidth):
        return operations / min(rate, bandwidth * operations / bytes)

    assert grade("06.3", answer).status == "passed"


ROOFS = [
    (lambda operations, bytes, rate, bandwidth: operations / rate + bytes / bandwidth, "at the same time", 3),
    (lambda operations, bytes, rate, bandwidth: min(operations / rate, bytes / bandwidth), "memory is slow", 1),
    (lambda operations, bytes, rate, bandwidth: operations / rate, "memory is slow", 1),
    (lambda operations, bytes, rate, bandwidth: bytes / bandwidth, "arithmetic is slow", 2),
    (lambda operations, bytes, rate, bandwidth: max(operations * rate, bytes * bandwidth), "memory is slow", 0),
    (lambda operations, bytes, rate, bandwidth: max(rate / operations, bandwidth / bytes), "memory is slow", 0),
]


@pytest.mark.parametrize(("answer", "check", "hint"), ROOFS)
def test_classic_mistakes_in_06_3(answer, check, hint):
    fails("06.3", answer, check, hint)


@pytest.mark.parametrize(
    ("key", "stub"),
    [
        ("06.1", lambda ops, x=4, spike=4: (..., ..., ...)),
        ("06.1", lambda ops, x=4, spike=4: (sum(map(len, ops)), 8, ...)),
        ("06.2", lambda x, v, rest, fire: (..., ..., ...)),
        ("06.2", lambda x, v, rest, fire: (fire(v - 1), v, ...)),
        ("06.3", lambda operations, bytes, rate, bandwidth: ...),
    ],
)
def test_stubs_are_to_do(key, stub):
    assert grade(key, stub).status == "to do"
