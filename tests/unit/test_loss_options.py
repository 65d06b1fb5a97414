"""Keywords of the losses, each against plain Python loops in float64: populations, class weights, reductions, ignored
labels; membranes and values to reach; bad input."""

import math
from functools import partial

import pytest
import torch

from snnkit import loss, neuron, nn

from .test_loss import cross_entropy, mean, sample

STEPS, BATCH, CLASSES = 5, 6, 3
NAN, INF = math.nan, math.inf


def first_spikes(rows):
    """Of each class, the step of the first spike, or the last one."""
    return [next((t for t, s in enumerate(column) if s), len(rows) - 1) for column in zip(*rows, strict=True)]


def square_errors(values, target, right, wrong):
    return [(value - (right if c == target else wrong)) ** 2 for c, value in enumerate(values)]


# The loss of one sample: of its outputs, T rows of C, its class, and the size of its populations.
OF_A_SAMPLE = {
    loss.rate_cross_entropy: lambda rows, y, p: mean(cross_entropy(row, y) for row in rows),
    loss.count_cross_entropy: lambda rows, y, p: cross_entropy([*map(sum, zip(*rows, strict=True))], y),
    loss.membrane_max_cross_entropy: lambda rows, y, p: cross_entropy([*map(max, zip(*rows, strict=True))], y),
    loss.first_spike_cross_entropy: lambda rows, y, p: cross_entropy([-t for t in first_spikes(rows)], y),
    loss.count_mse: lambda rows, y, p: (
        mean(square_errors(map(sum, zip(*rows, strict=True)), y, p * STEPS, 0.0)) / STEPS
    ),
    loss.rate_mse: lambda rows, y, p: mean(
        square_errors([sum(column) / STEPS / p for column in zip(*rows, strict=True)], y, 1.0, 0.0)
    ),
    loss.membrane_mse: lambda rows, y, p: mean(mean(square_errors(row, y, 1.0, 0.0)) for row in rows),
    loss.first_spike_mse: lambda rows, y, p: mean(square_errors(first_spikes(rows), y, 0, STEPS - 1)) / STEPS**2,
}
CROSS_ENTROPIES = [*OF_A_SAMPLE][:4]
ON_SPIKES = {loss.first_spike_cross_entropy, loss.first_spike_mse}
POPULATIONS = [*CROSS_ENTROPIES[:3], loss.count_mse, loss.rate_mse]
ALL = [*OF_A_SAMPLE, loss.tet_cross_entropy]


def given(function, size=1, seed=0):
    """Outputs of 3 classes in populations of such a size, and targets."""
    out, _ = sample(STEPS, BATCH, CLASSES * size, seed, spikes=function in ON_SPIKES)
    return out, torch.tensor([0, 2, 1, 2, 2, 0])


def losses_of(function, out, targets, size=1):
    """The loss of each sample, by loops."""
    rows = out.tolist()
    added = [
        [[sum(row[c * size : (c + 1) * size]) for c in range(CLASSES)] for row in (step[b] for step in rows)]
        for b in range(len(targets))
    ]
    return [OF_A_SAMPLE[function](rows, int(y), size) for rows, y in zip(added, targets, strict=True)]


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weight", [None, [0.5, 2.0, 0.0]])
@pytest.mark.parametrize("function", OF_A_SAMPLE)
def test_weights_and_reductions_are_the_plain_loop(function, weight, reduction):
    out, targets = given(function)
    shares = [1.0 if weight is None else weight[y] for y in targets]
    weighted = [share * one for share, one in zip(shares, losses_of(function, out, targets), strict=True)]
    expected = {"mean": sum(weighted) / sum(shares), "sum": sum(weighted), "none": weighted}[reduction]
    tensor = None if weight is None else torch.tensor(weight)
    actual = function(out, targets, weight=tensor, reduction=reduction)
    assert actual.dtype == torch.float64
    assert actual.tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("function", POPULATIONS)
def test_populations_are_neighbours_that_are_added(function, size):
    out, targets = given(function, size)
    expected = mean(losses_of(function, out, targets, size))
    assert float(function(out, targets, population_size=size)) == pytest.approx(expected, abs=1e-12)
    if function not in (loss.count_mse, loss.rate_mse):
        assert torch.equal(function(loss.pooled(out, size), targets), function(out, targets, population_size=size))


def test_pooled_outputs_and_their_accuracy():
    out = torch.arange(12.0).reshape(1, 2, 6)
    assert loss.pooled(out, 2).tolist() == [[[1, 5, 9], [13, 17, 21]]]
    assert loss.pooled(out[0, 0], 3).tolist() == [3, 12]
    assert loss.pooled(out, 1) is out
    spikes = torch.tensor([0.0, 3.0, 2.0, 2.0]).expand(1, 2, 4)  # one neuron of class 0 leads, and both of class 1
    assert loss.accuracy(spikes, torch.tensor([1, 0]), population_size=2) == 0.5
    assert loss.accuracy(spikes, torch.tensor([1, 1])) == 1.0


def test_a_network_may_end_in_populations():
    torch.manual_seed(0)
    net = nn.Sequential(torch.nn.Linear(8, 12), neuron.Leaky(0.9), torch.nn.AvgPool1d(4))
    _, spikes, out = net.record(4 * torch.rand(5, 2, 8)).layers
    assert spikes.sum() > 5 and torch.allclose(4 * out, loss.pooled(spikes, 4))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weight", [None, [0.5, 2.0, 1.0]])
@pytest.mark.parametrize("ignored", [-100, 2, 7])
@pytest.mark.parametrize("function", [*CROSS_ENTROPIES, loss.tet_cross_entropy])
def test_ignored_samples_count_for_nothing(function, ignored, weight, reduction):
    out, targets = given(function)
    if ignored == -100:
        targets = targets.where(targets != 2, -100)
    kept = targets != ignored
    options = {"weight": None if weight is None else torch.tensor(weight), "reduction": reduction}
    if function is loss.tet_cross_entropy:
        options["lam"] = 0.0  # its regulariser knows no classes
    actual = function(out.requires_grad_(), targets, ignore_index=ignored, **options)
    expected = function(out[:, kept], targets[kept], **options)
    if reduction == "none":
        assert actual.shape == (BATCH,) and not actual[~kept].any()
        actual = actual[kept]
    assert torch.allclose(actual, expected, atol=1e-12)
    (gradient,) = torch.autograd.grad(actual.sum(), out)
    assert not gradient[:, ~kept].any() and gradient[:, kept].any()
    assert torch.allclose(gradient, torch.autograd.grad(expected.sum(), out)[0], atol=1e-12)


@pytest.mark.parametrize("function", [*CROSS_ENTROPIES, loss.tet_cross_entropy])
def test_a_batch_in_which_no_sample_counts_has_no_loss_and_no_gradient(function):
    out, targets = given(function)
    none = targets.fill_(2)
    for options in ({"ignore_index": 2}, {"weight": torch.tensor([1.0, 1.0, 0.0])}):
        leaf = out.clone().requires_grad_()
        result = function(leaf, none, **options, **({"lam": 0} if function is loss.tet_cross_entropy else {}))
        result.backward()
        assert result == 0 and torch.equal(leaf.grad, torch.zeros_like(leaf))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_tet_adds_a_pull_towards_phi(reduction):
    out, targets = given(loss.tet_cross_entropy)
    weight = torch.tensor([0.5, 2.0, 1.0])
    actual = loss.tet_cross_entropy(out, targets, lam=0.3, phi=0.7, weight=weight, reduction=reduction)
    pull = torch.tensor(
        [mean((v - 0.7) ** 2 for row in out[:, b].tolist() for v in row) for b in range(BATCH)]
    ).double()
    pull = {"mean": pull.mean(), "sum": pull.sum(), "none": pull}[reduction]
    each_step = loss.rate_cross_entropy(out, targets, weight=weight, reduction=reduction)
    assert torch.allclose(actual, 0.7 * each_step + 0.3 * pull, atol=1e-6)
    assert torch.equal(loss.tet_cross_entropy(out, targets, lam=0), loss.rate_cross_entropy(out, targets))


# --- values to reach --------------------------------------------------------------------------------------------------


def test_a_membrane_follows_classes_potentials_or_a_sequence_of_them():
    out, targets = given(loss.membrane_mse)
    by_class = torch.full((BATCH, CLASSES), -0.5).double()
    by_class[range(BATCH), targets] = 2.0
    expected = (out - by_class).square().mean()
    assert torch.allclose(loss.membrane_mse(out, targets, on_target=2.0, off_target=-0.5), expected)
    assert torch.allclose(loss.membrane_mse(out, by_class), expected)
    assert torch.allclose(loss.membrane_mse(out, by_class.half().expand_as(out)), expected)
    for shape in ([BATCH], [BATCH, 4, 3, 2]):  # regression: any shape
        membrane, wanted = torch.randn(STEPS, *shape), torch.randn(STEPS, *shape)
        for of_a_step in (wanted, wanted[0]):
            errors = (membrane - of_a_step).square()
            assert torch.allclose(loss.membrane_mse(membrane, of_a_step), errors.mean())
            each = errors.transpose(0, 1).flatten(1).mean(1)
            assert torch.allclose(loss.membrane_mse(membrane, of_a_step, reduction="none"), each)
            assert torch.allclose(loss.membrane_mse(membrane, of_a_step, reduction="sum"), each.sum())


@pytest.mark.parametrize("function", [f for f in ALL if f not in ON_SPIKES])
def test_gradients_are_derivatives(function):
    out, targets = given(function)
    options = {"weight": torch.tensor([0.5, 2.0, 1.0]), "reduction": "none"}
    if function in (*CROSS_ENTROPIES, loss.tet_cross_entropy):
        options["ignore_index"] = 0
    assert torch.autograd.gradcheck(partial(function, targets=targets), out.requires_grad_())
    assert torch.autograd.gradcheck(partial(function, targets=targets, **options), out)
    if function in POPULATIONS:
        pairs = given(function, 2)[0].requires_grad_()
        assert torch.autograd.gradcheck(partial(function, targets=targets, population_size=2), pairs)
    if function is loss.membrane_mse:
        assert torch.autograd.gradcheck(partial(function, targets=torch.randn(BATCH, CLASSES)), out)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("function", ALL)
def test_half_precision_with_weights(function, dtype):
    out, targets = given(loss.first_spike_mse)
    weight = torch.tensor([0.5, 2.0, 1.0], dtype=dtype)
    out = out.to(dtype).requires_grad_()
    result = function(out, targets, weight=weight)
    assert result.dtype == torch.float32
    assert torch.equal(result, function(out.detach().float(), targets, weight=weight.float()))
    result.backward()
    assert out.grad.dtype == dtype and out.grad.isfinite().all()


@pytest.mark.parametrize("function", ALL)
def test_options_work_in_transforms_and_full_graphs(function):
    out, targets = torch.stack([given(function, seed=seed)[0] for seed in (0, 1)]), given(function)[1]
    weight = torch.tensor([0.5, 2.0, 1.0])
    options = {"weight": weight, **({"population_size": 1} if function in POPULATIONS else {})}
    options |= {"ignore_index": 0} if function in (*CROSS_ENTROPIES, loss.tet_cross_entropy) else {}

    def call(out):
        return function(out, targets, **options)

    one_by_one = torch.stack([call(o) for o in out])
    assert torch.allclose(torch.func.vmap(call)(out), one_by_one)
    leaf = out[0].clone().requires_grad_()
    call(leaf).backward()
    assert torch.allclose(torch.func.vmap(torch.func.grad(call))(out)[0], leaf.grad)
    torch._dynamo.reset()  # it compiles each line of code for a few functions only
    assert torch.equal(torch.compile(call, backend="eager", fullgraph=True)(out[0]), one_by_one[0])


def test_options_off_the_cpu_are_not_read():
    out, targets, weight = (torch.zeros(s, device="meta") for s in ((STEPS, BATCH, CLASSES), BATCH, CLASSES))
    for function in ALL:
        ignored = {"ignore_index": 1} if function in (*CROSS_ENTROPIES, loss.tet_cross_entropy) else {}
        assert function(out, targets.long(), weight=weight, **ignored).shape == ()
    assert loss.first_spike_mse(out, out[0]).shape == loss.membrane_mse(out, out).shape == ()


# --- bad input --------------------------------------------------------------------------------------------------------

OUT, TARGETS = torch.zeros(STEPS, 2, 3), torch.tensor([0, 2])


@pytest.mark.parametrize("function", ALL)
@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"reduction": "avg"}, ValueError, "reduction must be one of 'mean', 'sum', 'none', but it is 'avg'"),
        ({"reduction": None}, TypeError, "reduction must be one of"),
        ({"weight": torch.ones(2)}, ValueError, r"weight must have shape \[C\] = \[3\], but its shape is \[2\]"),
        ({"weight": torch.ones(1, 3)}, ValueError, r"weight must have shape \[C\] = \[3\], but its shape is \[1, 3\]"),
        ({"weight": [1.0, 1.0, 1.0]}, TypeError, r"weight must be a floating-point tensor \[C\], but it is \[1.0, 1.0"),
        ({"weight": (1.0, 1.0, 1.0)}, TypeError, r"weight must be a floating-point tensor \[C\], but it is \(1.0, 1.0"),
        ({"weight": torch.ones(3).int()}, TypeError, r"torch\.int32: use weight\.float\(\)$"),
        ({"weight": torch.ones(3, device="meta")}, ValueError, "weight must be on the device of .* but it is on meta"),
        (
            {"weight": torch.tensor([1, -1.0, 1])},
            ValueError,
            "weight must hold finite numbers of at least 0, .* -1 to 1",
        ),
        ({"weight": torch.tensor([1, NAN, 1])}, ValueError, "weight must hold finite numbers of at least 0, .* nan"),
        ({"weight": torch.tensor([1, INF, 1])}, ValueError, "weight must hold finite numbers of at least 0, .* to inf"),
    ],
)
def test_bad_weights_and_reductions(function, options, error, words):
    with pytest.raises(error, match=words):
        function(OUT, TARGETS, **options)


@pytest.mark.parametrize("function", [*POPULATIONS, loss.tet_cross_entropy, loss.accuracy])
def test_bad_populations(function):
    with pytest.raises(ValueError, match="population_size must divide the 3 output neurons, but it is 2"):
        function(OUT, TARGETS, population_size=2)
    with pytest.raises(ValueError, match="population_size must be at least 1, but it is 0"):
        function(OUT, TARGETS, population_size=0)
    with pytest.raises(TypeError, match="population_size must be an integer"):
        function(OUT, TARGETS, population_size=1.0)
    with pytest.raises(ValueError, match=r"targets must be in 0 … 0, as .* has 1 classes"):
        function(OUT, TARGETS, population_size=3)


@pytest.mark.parametrize("function", [*CROSS_ENTROPIES, loss.tet_cross_entropy])
def test_bad_labels_to_ignore(function):
    with pytest.raises(TypeError, match=r"ignore_index must be an integer, but it is 0\.5"):
        function(OUT, TARGETS, ignore_index=0.5)
    with pytest.raises(ValueError, match=r"targets must be in 0 … 2 or -100, as .* has 3 classes, .* go from -1 to 0"):
        function(OUT, torch.tensor([0, -1]), ignore_index=-100)
    with pytest.raises(ValueError, match=r"targets must be in 0 … 2, .* go from -100 to 0"):
        function(OUT, torch.tensor([0, -100]))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: loss.tet_cross_entropy(OUT, TARGETS, lam=1.5), ValueError, "lam must be at most 1, but it is 1.5"),
        (lambda: loss.tet_cross_entropy(OUT, TARGETS, phi=None), TypeError, "phi must be a number"),
        (lambda: loss.membrane_mse(OUT, TARGETS, on_target="1"), TypeError, "on_target must be a number"),
        (lambda: loss.membrane_mse(OUT, TARGETS, off_target=INF), ValueError, "off_target must be finite"),
        (
            lambda: loss.membrane_mse(OUT, TARGETS.float()), ValueError,
            r"targets must be classes, int64 \[B\], or values of shape \[2, 3\] or \[5, 2, 3\], as membrane is "
            r"\[5, 2, 3\], but they are torch\.float32 of shape \[2\]",
        ),
        (lambda: loss.membrane_mse(OUT, OUT[:4]), ValueError, r"of shape \[4, 2, 3\]"),
        (lambda: loss.membrane_mse(OUT[0, 0], OUT[0, 0]), ValueError, r"membrane must be \[T, B, \.\.\.\]"),
        (lambda: loss.membrane_mse(OUT, OUT, weight=torch.ones(3)), ValueError, "weight must be None where targets"),
        (lambda: loss.membrane_mse(OUT, OUT.to("meta")), ValueError, "targets must be on the device of membrane"),
        (lambda: loss.membrane_mse(OUT.byte(), OUT), TypeError, r"torch\.uint8: use membrane\.float\(\)$"),
        (lambda: loss.membrane_mse((OUT, None), OUT), TypeError, r"returns \(out, state\): pass out"),
        (lambda: loss.membrane_mse(OUT, None), TypeError, "targets must be an int64 tensor"),
        (lambda: loss.count_cross_entropy(OUT.byte(), TARGETS), TypeError, r"torch\.uint8: use spikes\.float\(\)$"),
        (lambda: loss.count_cross_entropy(OUT.cfloat(), TARGETS), TypeError, r"torch\.complex64$"),
        (lambda: loss.pooled([1.0], 1), TypeError, r"output must be a floating-point tensor \[\.\.\., C P\]"),
        (lambda: loss.pooled(torch.tensor(1.0), 2), ValueError, "population_size must divide the 1 output neurons"),
        (lambda: loss.spike_count_regulariser(OUT - 1), ValueError, "outputs of spiking layers only"),
        (lambda: loss.spike_count_regulariser([]), ValueError, "layers must hold at least one tensor"),
        (lambda: loss.spike_count_regulariser(OUT, weight=-1), ValueError, "weight must be at least 0"),
    ],
)  # fmt: skip
def test_bad_arguments(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_a_price_for_each_spike():
    first, second = (sample(4, 2, size, spikes=True)[0].requires_grad_() for size in (3, 5))
    price = loss.spike_count_regulariser([first, second.half()], weight=0.1)
    assert price.item() == pytest.approx(0.1 * (first.sum() + second.sum()).item(), rel=1e-6)
    price.backward()
    assert torch.allclose(first.grad, torch.full_like(first, 0.1))
