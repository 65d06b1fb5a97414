"""Encoders: shapes, dtypes and bad input for all; each against its equation written as a plain loop."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from snnkit import encode

DTYPES = [torch.bfloat16, torch.float16, torch.float32, torch.float64]
STATIC = [encode.repeat, encode.poisson, encode.latency, encode.constant_current_lif]
STATIC += [partial(encode.latency, linear=True), encode.phase]

shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)
dtypes = st.sampled_from(DTYPES)


def pixels(*shape, dtype=torch.float32, seed=0):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def spike_times(spikes):
    """Step of the only spike of each neuron of [T, N], or None."""
    times = []
    for train in spikes.T.tolist():
        assert sum(train) in (0, 1)
        times.append(train.index(1) if 1 in train else None)
    return times


@given(shapes, dtypes, st.integers(1, 7), st.sampled_from(STATIC))
@settings(max_examples=80, deadline=None)
def test_encoders_add_time_in_front_and_keep_dtype(shape, dtype, steps, encoder):
    x = pixels(*shape, dtype=dtype)
    before = x.clone()
    out = encoder(x, steps)
    assert out.shape == (steps, *shape)
    assert out.dtype == dtype and out.device == x.device
    assert torch.equal(x, before)
    if encoder is not encode.repeat:
        assert set(out.unique().tolist()) <= {0.0, 1.0}


@pytest.mark.parametrize("encoder", STATIC)
def test_encoders_work_as_encode_argument_and_inside_a_full_graph(encoder):
    x = pixels(2, 3)
    fixed = partial(encoder, steps=5)
    assert fixed(x).shape == (5, 2, 3)
    compiled = torch.compile(fixed, backend="eager", fullgraph=True)
    torch.manual_seed(1)
    expected = fixed(x)
    torch.manual_seed(1)
    assert torch.equal(compiled(x), expected)


@pytest.mark.parametrize("encoder", STATIC)
def test_encoders_take_permuted_empty_and_numpy_sized_input(encoder):
    x = pixels(4, 3, 5)
    torch.manual_seed(0)
    assert encoder(x.transpose(0, 2), 3).shape == (3, 5, 3, 4)
    assert encoder(torch.zeros(0, 4), 3).shape == (3, 0, 4)
    assert encoder(x, np.int64(3)).shape == (3, 4, 3, 5)


@pytest.mark.parametrize("encoder", STATIC)
@pytest.mark.parametrize(
    ("x", "error", "words"),
    [
        (torch.ones(2, dtype=torch.int64), TypeError, r"int64; use x\.float\(\)"),
        (torch.ones(2, dtype=torch.uint8), TypeError, r"x\.float\(\) / 255"),
        (torch.tensor(0.5), ValueError, r"x must be \[B, \.\.\.\]"),
        (torch.tensor([0.5, math.nan]), ValueError, "x must be finite"),
    ],
)
def test_bad_x(encoder, x, error, words):
    with pytest.raises(error, match=words):
        encoder(x, 4)


@pytest.mark.parametrize(
    ("encoder", "x", "arguments", "words"),
    [
        (
            encode.poisson,
            torch.tensor([0.3, -1e-6]),
            {},
            r"x must be in \[0, 1\], .*; use x\.clamp\(0, 1\) to cut them",
        ),
        (encode.poisson, pixels(3), {"steps": None}, r"x must be \[T, B, \.\.\.\], but its shape is \[3\]"),
        (encode.phase, torch.tensor([0.3, 1.1]), {}, r"x must be in \[0, 1\]"),
        (encode.population, pixels(2), {"out_features": 1}, "out_features must be at least 2"),
        (encode.population, pixels(2), {"high": 0.0}, "high must be greater than low, but they are 0.0 and 0.0"),
        (encode.population, pixels(2), {"sigma": 0.0}, "sigma must be greater than 0"),
        (encode.poisson, pixels(2), {"max_rate": 1.1}, "max_rate must be at most 1"),
        (encode.latency, torch.tensor([0.3, 1.0001]), {}, r"x must be in \[0, 1\]"),
        (encode.latency, pixels(2), {"threshold": 1e-320}, "threshold must be at least 1e-07"),
        (encode.latency, pixels(2), {"threshold": 1.0}, "threshold must be less than 1"),
        (encode.constant_current_lif, pixels(2), {"dt": 0.1}, r"dt \* tau_mem_inv must be at most 1"),
        (encode.constant_current_lif, pixels(2), {"v_reset": 1.0}, "v_reset must be less than v_th"),
        (encode.delta, pixels(3), {}, r"x_seq must be \[T, B, \.\.\.\]"),
        (encode.delta, pixels(0, 3), {}, "at least one time step"),
        (encode.delta, torch.full((2, 2), math.nan), {}, "x_seq must be finite"),
        (encode.delta, pixels(3, 2), {"threshold": 1e-320}, "threshold must be at least 1.2e-38"),
    ],
)
def test_bad_arguments(encoder, x, arguments, words):
    given = {encode.delta: {}, encode.population: {"out_features": 5}}.get(encoder, {"steps": 5})
    with pytest.raises((TypeError, ValueError), match=words):
        encoder(x, **given | arguments)


def test_repeat_is_a_view_with_stride_zero_in_time():
    x = pixels(4, 3)
    out = encode.repeat(x, 1000)
    assert out.stride(0) == 0 and out.data_ptr() == x.data_ptr()
    assert torch.equal(out[0], x) and torch.equal(out[999], x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("max_rate", [1.0, 0.2])
def test_poisson_rate_is_max_rate_times_x(dtype, max_rate):
    x = torch.tensor([0.0, 0.01, 0.1, 0.5, 0.9, 1.0]).to(dtype).repeat(500, 1)
    spikes = encode.poisson(x, 100, generator=torch.Generator().manual_seed(3), max_rate=max_rate)
    p = max_rate * x[0].double()
    rate = spikes.double().mean((0, 1))
    sigma = (p * (1 - p) / (100 * 500)).sqrt()
    assert ((rate - p).abs() <= 4 * sigma).all()  # at 0 and 1 there is no chance about it


def test_columns_become_time_steps():
    x = pixels(2, 1, 3, 5).requires_grad_()
    out = encode.columns(x)
    assert out.shape == (5, 2, 1, 3) and torch.equal(out[4], x[..., 4]) and out.untyped_storage().nbytes() == x.nbytes
    out.sum().backward()
    assert (x.grad == 1).all()
    with pytest.raises(ValueError, match="x must be"):
        encode.columns(torch.rand(3))


def test_poisson_repeats_with_the_generator_and_with_the_global_seed():
    x = pixels(5, 7)
    draws = [encode.poisson(x, 9, generator=torch.Generator().manual_seed(s)) for s in (1, 1, 2)]
    assert torch.equal(draws[0], draws[1]) and not torch.equal(draws[0], draws[2])
    torch.manual_seed(5)
    first = encode.poisson(x, 9)
    second = encode.poisson(x, 9)
    torch.manual_seed(5)
    assert torch.equal(first, encode.poisson(x, 9)) and not torch.equal(first, second)


def test_poisson_of_a_sequence_follows_its_rates_over_time():
    rates = torch.tensor([0.0, 0.2, 1.0]).view(3, 1, 1).expand(3, 200, 50)
    spikes = encode.poisson(rates, steps=None, generator=torch.Generator().manual_seed(3))
    assert spikes.shape == rates.shape
    torch.testing.assert_close(spikes.mean((1, 2)), torch.tensor([0.0, 0.2, 1.0]), atol=0.02, rtol=0)


def test_values_off_the_cpu_are_not_read():
    # A meta tensor has no values at all, so reading one would raise: as on CUDA it would wait for the device.
    assert encode.poisson(torch.empty(2, 3, device="meta"), 4).shape == (4, 2, 3)
    assert encode.latency(torch.empty(2, 3, device="meta"), 4).shape == (4, 2, 3)
    assert encode.spike_times(torch.empty(2, 3, 5, device="meta"), 4).shape == (4, 2, 3)


def latency_time(x, steps, threshold, linear, normalize, tau, clip):
    """The step of the spike of one input, or None; the published formula in Python floats."""
    if x < threshold:
        if clip:
            return None
        x = threshold
    longest = 1 if linear else math.log((threshold + 1e-7) / 1e-7)
    time = 1 - x if linear else math.log(x / (x - threshold)) if x - threshold > 1e-7 else longest
    step = round(time * ((steps - 1) / longest if normalize else tau))
    return step if step < steps else None


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=20),
    st.integers(1, 40),
    st.tuples(st.floats(0.001, 0.9), st.booleans(), st.booleans(), st.floats(0.1, 50), st.booleans()),
)
@settings(max_examples=150, deadline=None)
def test_latency_is_the_published_formula(values, steps, given):
    options = dict(zip(("threshold", "linear", "normalize", "tau", "clip"), given, strict=True))
    spikes = encode.latency(torch.tensor(values, dtype=torch.float64), steps, **options)
    for value, step in zip(values, spike_times(spikes), strict=True):
        assert step in {latency_time(v, steps, **options) for v in (value, value + 1e-12, value - 1e-12)}


def test_latency_golden_values():
    x = torch.tensor([1.0, 0.5, 0.02, 0.01, 0.0099, 0.0])
    # 5 ln(x / (x − 0.01)) is 0.050, 0.101, 3.466, then far away (57.6); scaled by 9 / 57.6
    assert spike_times(encode.latency(x, 10)) == [0, 0, 1, 9, None, None]
    # 4 (1 − x): as in snnTorch's documented example for 5 steps
    linear = encode.latency(torch.tensor([0.02, 0.5, 1.0]), 5, linear=True)
    assert spike_times(linear) == [4, 2, 0]
    # snnTorch's spikegen.latency(x, 20, linear=True, normalize=True): black fires, too, at 19 · 0.99.
    assert spike_times(encode.latency(torch.tensor([0.0, 0.5]), 20, linear=True, clip=False)) == [19, 10]
    # Not normalised, as in snnTorch's spikegen.latency(x, 60, tau=5); later ones are lost.
    raw = {"normalize": False, "tau": 5.0}
    assert spike_times(encode.latency(x, 60, **raw, clip=False)) == [0, 0, 3, 58, 58, 58]
    assert spike_times(encode.latency(x, 10, **raw)) == [0, 0, 3, None, None, None]


@pytest.mark.parametrize("steps", [2, 100, 1001, 5000])
@pytest.mark.parametrize("threshold", [0.01, 0.1, 0.7])
def test_latency_latest_spike_falls_on_the_last_step(steps, threshold):
    x = torch.tensor([threshold])
    assert spike_times(encode.latency(x, steps, threshold=threshold)) == [steps - 1]


def test_delta_golden_values():
    rising = torch.tensor([1, 2, 2.9, 3, 3.9], dtype=torch.float64).unsqueeze(1)
    assert encode.delta(rising, threshold=0.95).flatten().tolist() == [1, 1, 0, 0, 0]
    both = torch.tensor([1, 2, 0, 2, 2.9]).unsqueeze(1)
    assert encode.delta(both, threshold=1.0).flatten().tolist() == [1, 1, 0, 1, 0]
    assert encode.delta(both, threshold=1.0, off_spikes=True).flatten().tolist() == [1, 1, -1, 1, 0]


@given(st.integers(1, 6), st.floats(0.01, 0.6), st.booleans())
@settings(max_examples=40, deadline=None)
def test_delta_is_the_plain_loop(steps, threshold, off_spikes):
    x = pixels(steps, 2, 5, dtype=torch.float64, seed=steps)
    before, previous = x.clone(), torch.zeros(2, 5, dtype=torch.float64)
    out = encode.delta(x, threshold=threshold, off_spikes=off_spikes)
    assert torch.equal(x, before) and encode.delta(x.bfloat16()).dtype == torch.bfloat16
    for x_t, spikes in zip(x, out, strict=True):
        for index in np.ndindex(2, 5):
            change = float(x_t[index] - previous[index])
            expected = 1 if change >= threshold else -1 if off_spikes and change <= -threshold else 0
            assert spikes[index] == expected
        previous = x_t


def test_delta_with_padding_compares_the_first_step_with_itself():
    both = torch.tensor([1, 2, 0, 2, 2.9]).unsqueeze(1)
    for options in ({"off_spikes": True}, {}):
        padded, plain = (encode.delta(both, threshold=1.0, padding=padding, **options) for padding in (True, False))
        assert padded[0] == 0 and plain[0] == 1 and torch.equal(padded[1:], plain[1:])


@given(
    st.lists(st.floats(-3, 3), min_size=1, max_size=6),
    st.integers(2, 9),
    st.sampled_from([{}, {"low": -1.0, "high": 2.0}, {"sigma": 0.3}]),
)
@settings(max_examples=60, deadline=None)
def test_population_is_the_published_formula(values, out_features, options):
    out = encode.population(torch.tensor(values, dtype=torch.float64), out_features, **options)
    low, high = options.get("low", 0.0), options.get("high", 1.0)
    distance = (high - low) / (out_features - 1)
    sigma = options.get("sigma", distance / 1.5)
    for x, activities in zip(values, out.tolist(), strict=True):
        centres = [low + i * distance for i in range(out_features)]
        assert activities == pytest.approx([math.exp(-((x - c) ** 2) / (2 * sigma**2)) for c in centres], abs=1e-12)


def test_population_keeps_gradient_and_dtype_and_feeds_the_encoders():
    x = pixels(2, 3).requires_grad_()
    out = encode.population(x, 8)
    assert out.shape == (2, 3, 8) and encode.poisson(out, 5).shape == (5, 2, 3, 8)
    out.sum().backward()
    assert x.grad.any()
    assert encode.population(pixels(2, dtype=torch.bfloat16), 3).dtype == torch.bfloat16


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.integers(1, 60))
@settings(max_examples=80, deadline=None)
def test_phase_gives_the_binary_digits_of_x(values, steps):
    spikes = encode.phase(torch.tensor(values, dtype=torch.float64), steps)
    for x, train in zip(values, spikes.T.tolist(), strict=True):
        number = min(math.floor(x * 2**steps), 2**steps - 1)
        assert train == [float(number >> (steps - 1 - t) & 1) for t in range(steps)]
    weights = 0.5 ** torch.arange(1, steps + 1, dtype=torch.float64)
    assert ((weights @ spikes - torch.tensor(values, dtype=torch.float64)).abs() <= 0.5**steps).all()


def test_first_spike_keeps_the_first_of_each_neuron():
    x_seq = torch.tensor([[0.0, 1, -1], [1, 1, 0], [1, 0, 1]]).unsqueeze(1)
    assert encode.first_spike(x_seq).squeeze(1).tolist() == [[0, 1, -1], [1, 0, 0], [0, 0, 0]]
    spikes = encode.constant_current_lif(3 * pixels(4, 5), 40)
    latest = encode.first_spike(spikes)
    assert spikes.sum(0).max() > 1
    assert torch.equal(latest.sum(0), (spikes.sum(0) > 0).float())
    assert torch.equal(latest.argmax(0), spikes.argmax(0))


def test_spike_times_of_lists_and_of_tensors():
    lists = [[[0, 3.7, 3.9], [], [2]], [[1], [4.99], [0, 1]]]
    spikes = encode.spike_times(lists, 5)
    trains = [["".join(str(int(s)) for s in spikes[:, b, n]) for n in range(3)] for b in range(2)]
    assert trains == [["10010", "00000", "00100"], ["01000", "00001", "11000"]]
    none = math.inf
    times = [[[0, 3.7, 3.9], [none] * 3, [2, none, none]], [[1, none, none], [none, 4.99, none], [0, 1, none]]]
    tensor = torch.tensor(times, dtype=torch.float64)
    assert torch.equal(encode.spike_times(tensor, 5), spikes.double())
    assert torch.equal(encode.spike_times(tensor.unsqueeze(2), 5), spikes.double().unsqueeze(3))
    silent = encode.spike_times([[[], []]], 3)
    assert silent.shape == (3, 1, 2) and not silent.any()


@pytest.mark.parametrize(
    "times, error, words",
    [
        ([[[5.0]]], ValueError, "times must be from 0 on and below steps, 5, but one is 5"),
        (torch.tensor([[-0.5]]), ValueError, "but one is -0.5"),
        (torch.tensor([[math.nan]]), ValueError, "but one is nan"),
        (torch.tensor([[1]]), TypeError, "times must be a floating-point tensor .* of torch.int64 and shape"),
        ([[[1.0], [2.0]], [[1.0]]], TypeError, "each a list of as many neurons"),
        ([[1, 2]], TypeError, "each a list of times, but it is "),
        ([[["soon"]]], TypeError, "each a list of times, but it is "),
        (3, TypeError, "each a list of times, but it is 3"),
    ],
)
def test_bad_spike_times(times, error, words):
    with pytest.raises(error, match=words):
        encode.spike_times(times, 5)


def lif_train(x, steps, tau_mem_inv=100.0, v_th=1.0, v_leak=0.0, v_reset=0.0, dt=1e-3):
    v, train = v_leak, []
    for _ in range(steps):
        v = v + dt * tau_mem_inv * ((v_leak - v) + x)
        train.append(float(v > v_th))
        if v > v_th:
            v = v_reset
    return train


@given(
    st.lists(st.floats(-5, 20), min_size=1, max_size=8),
    st.integers(1, 40),
    st.floats(10, 900),
    st.floats(-0.5, 0.9),
    st.floats(-0.5, 0.9),
)
@settings(max_examples=80, deadline=None)
def test_constant_current_lif_is_the_plain_loop(currents, steps, tau_mem_inv, v_leak, v_reset):
    parameters = {"tau_mem_inv": tau_mem_inv, "v_leak": v_leak, "v_reset": v_reset, "v_th": 1.0, "dt": 1e-3}
    out = encode.constant_current_lif(torch.tensor(currents, dtype=torch.float64), steps, **parameters)
    assert out.T.tolist() == [lif_train(x, steps, **parameters) for x in currents]


def test_constant_current_lif_keeps_float32_state_for_bfloat16():
    x = torch.tensor([1.5, 2.0, 3.5])
    half = encode.constant_current_lif(x.bfloat16(), 200)
    assert torch.equal(half.float(), encode.constant_current_lif(x, 200))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "encoder",
    [
        encode.repeat,
        lambda x, steps: encode.columns(x),
        encode.latency,
        partial(encode.latency, linear=True),
        lambda x, steps: encode.constant_current_lif(2 * x, steps),
        lambda x, steps: encode.delta(x, threshold=0.2, off_spikes=True),
        encode.phase,
        encode.population,
        lambda x, steps: encode.first_spike((x > 0.5).float()),
        lambda x, steps: encode.spike_times(steps * x, steps),
    ],
)
def test_encoders_work_inside_vmap(encoder):
    x = pixels(5, 4, 3)
    expected = torch.stack([encoder(part, 6) for part in x])
    assert torch.equal(torch.func.vmap(lambda part: encoder(part, 6))(x), expected)
