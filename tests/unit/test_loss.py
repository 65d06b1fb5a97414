"""Losses: each against plain Python loops in float64; gradients; precision; bad input."""

import math

import pytest
import torch
from hypothesis import given, settings, strategies as st

from snnkit import loss

CLASSIFICATION = [loss.rate_cross_entropy, loss.count_cross_entropy, loss.membrane_max_cross_entropy]
CLASSIFICATION += [loss.count_mse, loss.rate_mse]
sizes = st.tuples(st.integers(1, 6), st.integers(1, 4), st.integers(1, 5), st.integers(0, 1000))


def sample(steps, batch, classes, seed=0, *, spikes=False, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    out = torch.randn(steps, batch, classes, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, classes, (batch,), generator=generator)
    return (out > 0).to(dtype) if spikes else out.to(dtype), targets


def cross_entropy(logits, target):
    return math.log(sum(math.exp(v) for v in logits)) - logits[target]


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def over_time(steps, b):
    """Of each class, the values of sample b."""
    return list(zip(*(step[b] for step in steps), strict=True))


# The logits of sample b: of every step for itself, or one row for all of them.
LOGITS = {
    loss.rate_cross_entropy: lambda steps, b: [step[b] for step in steps],
    loss.count_cross_entropy: lambda steps, b: [[*map(sum, over_time(steps, b))]],
    loss.membrane_max_cross_entropy: lambda steps, b: [[*map(max, over_time(steps, b))]],
}


@pytest.mark.parametrize("function", LOGITS)
@given(sizes)
@settings(max_examples=40, deadline=None)
def test_cross_entropies_are_the_plain_loop(function, size):
    out, targets = sample(*size)
    rows = [(row, int(target)) for b, target in enumerate(targets) for row in LOGITS[function](out.tolist(), b)]
    expected = mean(cross_entropy(row, target) for row, target in rows)
    assert float(function(out, targets)) == pytest.approx(expected, abs=1e-12)


@given(sizes, st.floats(0, 1), st.floats(0, 1))
@settings(max_examples=40, deadline=None)
def test_count_mse_is_the_plain_loop(size, correct_rate, incorrect_rate):
    out, targets = sample(*size, spikes=True)
    steps, batch, classes, _ = size
    errors = []
    for b in range(batch):
        for c in range(classes):
            wanted = steps * (correct_rate if c == targets[b] else incorrect_rate)
            errors.append((sum(float(out[t, b, c]) for t in range(steps)) - wanted) ** 2)
    actual = loss.count_mse(out, targets, correct_rate=correct_rate, incorrect_rate=incorrect_rate)
    assert float(actual) == pytest.approx(mean(errors) / steps, abs=1e-12)


@given(sizes)
@settings(max_examples=40, deadline=None)
def test_rate_mse_is_the_plain_loop(size):
    out, targets = sample(*size, spikes=True)
    rates = (out.sum(0) / size[0]).tolist()
    errors = [(rates[b][c] - (c == int(targets[b]))) ** 2 for b in range(size[1]) for c in range(size[2])]
    assert float(loss.rate_mse(out, targets)) == pytest.approx(mean(map(float, errors)), abs=1e-12)


@given(sizes, st.floats(0, 1), st.floats(0, 3))
@settings(max_examples=40, deadline=None)
def test_spike_rate_regulariser_is_the_plain_loop(size, target, weight):
    first, _ = sample(*size, spikes=True)
    second, _ = sample(size[0] + 1, size[1], size[2] + 2, size[3] + 1, spikes=True)
    layers = [first, second.unsqueeze(-1).expand(-1, -1, -1, 2)]
    per_layer = []
    for layer in layers:
        flat = layer.flatten(2)
        rates = [mean(flat[:, :, n].flatten().tolist()) for n in range(flat.shape[2])]
        per_layer.append(mean((rate - target) ** 2 for rate in rates))
    actual = loss.spike_rate_regulariser(layers, target, weight=weight)
    assert float(actual) == pytest.approx(weight * mean(per_layer), abs=1e-12)
    assert torch.equal(loss.spike_rate_regulariser(first, target), loss.spike_rate_regulariser([first], target))


def test_accuracy_counts_the_largest_sum():
    spikes = torch.zeros(4, 3, 2)
    spikes[0, 0, 1] = 1  # one late winner, a tie, and a loser
    spikes[:, 1] = 1
    spikes[1:3, 2, 1] = 1
    spikes[0, 2, 0] = 1
    result = loss.accuracy(spikes.requires_grad_(), torch.tensor([1, 1, 1]))
    assert result.shape == () and not result.requires_grad
    assert float(result) == pytest.approx(2 / 3)
    assert float(loss.accuracy(spikes, torch.tensor([1, 0, 1]))) == 1.0
    broken = torch.full((4, 3, 2), math.nan)
    broken[:, 1] = torch.tensor([0.0, math.inf])
    assert loss.accuracy(broken, torch.tensor([0, 1, 1])) == pytest.approx(1 / 3)


def test_accuracy_over_time_is_that_of_the_first_steps():
    spikes = (torch.rand(9, 20, 3) < 0.4).float()
    targets = torch.randint(3, (20,))
    curve = loss.accuracy_over_time(spikes.requires_grad_(), targets)
    assert curve.shape == (9,) and not curve.requires_grad
    for t in range(9):
        assert curve[t] == loss.accuracy(spikes[: t + 1], targets)
    broken = spikes.detach().clone()
    broken[4, :, 0] = float("nan")
    curve = loss.accuracy_over_time(broken, targets)
    assert curve[3] == loss.accuracy(spikes[:4], targets) > 0 and not curve[4:].any()


@pytest.mark.parametrize("function", [*CLASSIFICATION, loss.accuracy])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_float32(function, dtype):
    # 700 spikes: bfloat16 sums stop at 256
    out = torch.zeros(700, 2, 3, dtype=dtype)
    out[:, 0, 1] = 1
    out[:, 1, 2] = 1
    out[:690, :, 0] = 1
    targets = torch.tensor([1, 2])
    result = function(out.requires_grad_(), targets)
    assert result.dtype == torch.float32 and result.shape == ()
    assert torch.equal(result, function(out.detach().float(), targets))
    if function is loss.accuracy:
        assert float(result) == 1.0
    else:
        result.backward()
        assert out.grad.dtype == dtype and out.grad.isfinite().all()


@pytest.mark.parametrize("function", CLASSIFICATION)
def test_float64_stays_and_full_graph_compiles(function):
    out, targets = sample(3, 2, 4)
    assert function(out, targets).dtype == torch.float64
    compiled = torch.compile(function, backend="eager", fullgraph=True)
    assert torch.equal(compiled(out, targets), function(out, targets))


@pytest.mark.parametrize("function", [loss.membrane_max_cross_entropy, loss.accuracy])
@pytest.mark.parametrize(
    ("shape", "words"), [((2, 4), "T, B, C"), ((3, 2, 4, 1), "T, B, C"), ((0, 2, 4), "not empty"), ((3, 2, 0), "empty")]
)
def test_bad_shapes(function, shape, words):
    with pytest.raises(ValueError, match=f"(spikes|membrane) must be .*{words}.*but its shape is"):
        function(torch.zeros(shape), torch.zeros(2, dtype=torch.int64))


@pytest.mark.parametrize("function", [*CLASSIFICATION, loss.accuracy, loss.accuracy_over_time])
def test_bad_outputs(function):
    targets = torch.tensor([0, 1])
    with pytest.raises(TypeError, match="int64"):
        function(torch.zeros(3, 2, 4, dtype=torch.int64), targets)
    with pytest.raises(TypeError, match=r"returns \(out, state\): pass out"):
        function((torch.zeros(3, 2, 4), None), targets)


@pytest.mark.parametrize("function", [loss.count_mse, loss.accuracy])
@pytest.mark.parametrize(
    ("targets", "error", "words"),
    [
        (torch.tensor([0.0, 1.0]), TypeError, r"torch\.float32: use targets\.long\(\)"),
        (torch.tensor([0, 1, 2]), ValueError, r"targets must have shape \[B\] = \[2\]"),
        (torch.tensor(0), ValueError, r"targets must have shape \[B\] = \[2\]"),
        (torch.tensor([0, 4]), ValueError, "targets must be in 0 … 3"),
        (torch.tensor([-100, 0]), ValueError, "targets must be in 0 … 3"),  # PyTorch's ignore_index by default
        (torch.zeros(2, dtype=torch.int64, device="meta"), ValueError, "targets must be on the device of"),
    ],
)
def test_bad_targets(function, targets, error, words):
    with pytest.raises(error, match=words):
        function(torch.zeros(3, 2, 4), targets)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"layers": []}, ValueError, "at least one tensor"),
        ({"layers": torch.zeros(3)}, ValueError, r"layers\[0\] must be \[T, B, \.\.\.\]"),
        ({"layers": torch.zeros(0, 3, 2)}, ValueError, "not empty"),
        ({"layers": torch.full((2, 2, 2), -0.4)}, ValueError, "outputs of spiking layers only"),
        ({"layers": torch.full((2, 2, 2), 1.2)}, ValueError, "outputs of spiking layers only"),
        ({"layers": torch.full((2, 2, 2), math.nan)}, ValueError, "outputs of spiking layers only"),
    ],
)
def test_bad_arguments_of_the_regulariser(arguments, error, words):
    with pytest.raises(error, match=words):
        loss.spike_rate_regulariser(**({"layers": torch.zeros(2, 2, 2)} | arguments))


def test_values_off_the_cpu_are_not_read():
    # A meta tensor has no values at all, so reading one would raise: as on CUDA it would wait for the device.
    targets = torch.zeros(2, dtype=torch.int64, device="meta")
    for function in [*CLASSIFICATION, loss.accuracy]:
        assert function(torch.zeros(3, 2, 4, device="meta"), targets).shape == ()
    assert loss.spike_rate_regulariser(torch.zeros(3, 2, 4, device="meta")).shape == ()


@pytest.mark.parametrize("function", [*CLASSIFICATION, loss.accuracy])
def test_losses_work_inside_functional_transforms(function):
    out, targets = torch.rand(5, 6, 4, 3), torch.randint(0, 3, (5, 4))
    one_by_one = torch.stack([function(o, t) for o, t in zip(out, targets, strict=True)])
    assert torch.allclose(torch.func.vmap(function)(out, targets), one_by_one)
    if function is not loss.accuracy:
        each = torch.func.vmap(torch.func.grad(function))(out, targets)
        first = out[0].clone().requires_grad_()
        function(first, targets[0]).backward()
        assert torch.allclose(each[0], first.grad)


def test_class_weights_make_classes_equal():
    targets = torch.tensor([0, 0, 0, 1, 3, 3])
    assert loss.class_weights(targets).tolist() == pytest.approx([6 / 9, 2.0, 0.0, 1.0])
    assert loss.class_weights(targets, 5).tolist() == pytest.approx([6 / 9, 2.0, 0.0, 1.0, 0.0])
    assert float(loss.class_weights(targets)[targets].mean()) == pytest.approx(1.0)
    for wrong, words in (
        ((torch.tensor([]).long(),), "targets must be int64 and not empty"),
        ((torch.tensor([0.0]),), r"but they are torch.float32 \[1\]"),
        ((targets, 3), "targets must be in 0 … 2, but their values go from 0 to 3"),
        ((targets - 1,), "but their values go from -1 to 2"),
    ):
        with pytest.raises(ValueError, match=words):
            loss.class_weights(*wrong)
