"""From numbers to spikes: pixel intensities or features [B, ...] become sequences [T, B, ...].

| encoder | where the information is | values of x |
|---|---|---|
| ``repeat`` | in the size of a constant input, the same at every step | any finite |
| ``poisson`` | in the rate of random spikes | [0, 1] |
| ``latency`` | in the time of one spike | [0, 1] |
| ``phase`` | in the steps of the spikes: the binary digits of x | [0, 1] |
| ``delta`` | in the changes of a sequence | any finite, [T, B, ...] |
| ``constant_current_lif`` | in the rate of regular spikes | any finite current |
| ``columns`` | in the sizes of inputs that change: a picture from left to right | any finite |

``population`` comes before them: it spreads a number over several inputs, and adds no time. ``first_spike`` comes after
them, and ``spike_times`` makes a sequence of the times of its spikes.

Every encoder returns the dtype and device of its input. All except ``repeat``, ``columns``, ``population`` and
``first_spike`` cut the gradient. If you need a function of one argument (``train.fit(..., encode=...)``), fix the
others with ``functools.partial(poisson, steps=25)``.

All raise TypeError for a tensor that is not floating point or an argument of another kind than stated, and ValueError
for a wrong rank, NaN, infinity or a value out of its range. Values of tensors are checked on a CPU only, because the
CPU would wait for an accelerator in every batch; and not inside ``torch.func`` transforms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from snnkit import checks, lazy
from snnkit.engine import state_dtype
from snnkit.engine.memory_gate import shows_values

__all__ = [
    "columns",
    "constant_current_lif",
    "delta",
    "first_spike",
    "latency",
    "phase",
    "poisson",
    "population",
    "repeat",
    "spike_times",
]

# The smallest x − threshold that the logarithm of ``latency`` sees (snnTorch's value): it decides when "latest" is.
_LATENCY_EPSILON = 1e-7
_MOST_STEPS = 2**31 - 1

# Arguments of other libraries.
_STEPS = "the number of time steps is steps"
_LATER = "put torch.zeros(k, *x.shape) before the spikes, or set the first k steps of a rate code to 0"
_INTERPOLATED = "targets of the shape of spikes are not needed, as the losses of snnkit.loss take labels"


def repeat(x: Tensor, steps: int) -> Tensor:
    """Present the same x at each of ``steps`` time steps ("direct" or "constant current" encoding).

    Args:
        x: [B, ...], any finite values.
        steps: T, at least 1.

    Returns:
        [T, B, ...], a view of x with stride 0 in time. It takes no memory, layers compute it once instead of T times,
        and gradients reach x.
    """
    _check_x(x, "x")
    checks.integer("steps", steps, at_least=1, at_most=_MOST_STEPS)
    return x.expand(steps, *x.shape)


def columns(x: Tensor) -> Tensor:
    """Present a picture from left to right, one column at each time step: of a sound, its spectrum over time.

    ``lab.pages.page`` takes it as ``encode``, so that one can draw a sound.

    Args:
        x: [B, ..., T], any finite values.

    Returns:
        [T, B, ...], a view of x. Gradients reach x.
    """
    _check_x(x, "x", sequence=True)
    return x.movedim(-1, 0)


def population(
    x: Tensor, out_features: int, *, low: float = 0.0, high: float = 1.0, sigma: float | None = None
) -> Tensor:
    """Give each number a population of inputs, each of which answers best to a value of its own (receptive fields).

    The activity exp(-(x - c)² / (2 σ²)) is a Gaussian around a centre c. Encode it next, as in
    ``poisson(population(x, 8), 25)``. Centres are spread evenly from ``low`` to ``high``. By default, σ is 2/3 of the
    distance between two of them, as in Bohte et al. 2002 (doi:10.1016/S0925-2312(01)00658-0), who let the outermost
    centres lie half a distance outside of the range of x.
    SpikingJelly's ``PopEncoder`` has ``mean_range`` for (low, high) and ``std`` for σ. Norse's ``population_encode``
    has ``high=scale, sigma=scale**-0.5``, where its default scale is the largest x of the batch.

    Args:
        x: [B, ...], any finite values.
        out_features: inputs for each number, at least 2.
        low, high: the first and the last centre.
        sigma: σ, above 0; None: as above.

    Returns:
        Activities [B, ..., out_features] in [0, 1]. Gradients reach x.
    """
    _check_x(x, "x")
    checks.integer("out_features", out_features, at_least=2, at_most=_MOST_STEPS)
    checks.number("low", low)
    checks.number("high", high)
    if not low < high:
        raise ValueError(f"high must be greater than low, but they are {high} and {low}")
    distance = (high - low) / (out_features - 1)
    width = 2 / 3 * distance if sigma is None else checks.number("sigma", sigma, above=0.0)
    value = x.to(state_dtype(x)).unsqueeze(-1)
    centres = torch.linspace(low, high, out_features, dtype=value.dtype, device=x.device)
    return (-0.5 * ((value - centres) / width).square()).exp().to(x.dtype)


@lazy.explains(
    num_steps=_STEPS,
    seq_length=_STEPS,
    first_spike_time=_LATER,
    time_var_input="steps=None takes x [T, B, ...] as rates that vary in time",
    gain="multiply x: gain * x, in [0, 1]",
    offset="add it to x: x + offset, in [0, 1]",
    f_max="the probability of a spike is x * max_rate, so max_rate = dt * f_max",
)
def poisson(x: Tensor, steps: int | None, *, generator: torch.Generator | None = None, max_rate: float = 1.0) -> Tensor:
    """Draw a spike at each step independently with probability ``max_rate * x`` (rate coding).

    Independent draws per step are the discrete form of a Poisson process (Dayan and Abbott 2001, Theoretical
    Neuroscience, section 1.4).

    Spikes with a sign, for x in [-1, 1], are ``x.sign() * poisson(x.abs(), steps)``.

    Args:
        x: [B, ...] in [0, 1].
        steps: T, at least 1. None: x is a sequence [T, B, ...] already, whose rates vary over time.
        generator: makes the draw repeatable, on the device of x; None: PyTorch's global one.
        max_rate: spikes per step at x = 1, above 0 and at most 1. For f hertz and steps of dt seconds it is f dt.

    Returns:
        Spikes [T, B, ...].
    """
    _check_x(x, "x", within=(0.0, 1.0), sequence=steps is None)
    if steps is not None:
        _check_steps(steps, x)
    checks.number("max_rate", max_rate, above=0.0, at_most=1.0)
    checks.instance("generator", generator, torch.Generator, "a torch.Generator", optional=True)
    if generator is not None and generator.device.type != x.device.type:
        raise ValueError(f"generator must be on the device of x ({x.device}), but it is on {generator.device}")
    probability = max_rate * x.detach().to(state_dtype(x))
    # Drawn in float32 at least: bfloat16 random numbers have 8 bits and would distort small probabilities.
    shape = x.shape if steps is None else (steps, *x.shape)
    noise = torch.rand(shape, generator=generator, dtype=probability.dtype, device=x.device)
    return (noise < probability).to(x.dtype)


@lazy.explains(
    num_steps=_STEPS,
    first_spike_time=_LATER,
    on_target=_INTERPOLATED,
    off_target=_INTERPOLATED,
    interpolate=_INTERPOLATED,
    bypass="values outside [0, 1] are an error: x.clamp(0, 1) cuts them",
    epsilon="the latest spike is that of x - threshold = 1e-7",
)
def latency(
    x: Tensor,
    steps: int,
    *,
    threshold: float = 0.01,
    linear: bool = False,
    normalize: bool = True,
    tau: float = 1.0,
    clip: bool = True,
) -> Tensor:
    """Give each input at most one spike: the larger x, the earlier (time-to-first-spike coding).

    A leaky integrator with time constant τ, charged by the constant x, reaches the threshold θ at the first of these
    times. The first puts bright pixels close together in the first steps. ``linear=True`` takes the second, which
    spreads grey levels:

        t = τ ln(x / (x - θ))          t = τ (1 - x)

    The spike is at the nearest step. Normalised, τ does not depend on image and batch, and every spike fits: the last
    step is x = θ for the logarithm (where x - θ is at least 1e-7) and x = 0 for the line.
    Source: snnTorch's ``spikegen.latency`` (Eshraghian et al. 2023, doi:10.1109/JPROC.2023.3308088). Its defaults are
    ``normalize=False, clip=False``. It normalises the logarithm by the latest spike in the batch; that is the same if
    any pixel of it is below the threshold.

    Args:
        x: [B, ...] in [0, 1].
        steps: T, at least 1.
        threshold: θ, at least 1e-7 and below 1.
        linear: the line instead of the logarithm.
        normalize: choose τ such that every spike fits. False: τ is ``tau``, and later spikes are lost.
        tau: τ in steps, above 0; only used with ``normalize=False``.
        clip: an x below the threshold stays silent. False: it fires as late as x = θ.

    Returns:
        Spikes [T, B, ...].
    """
    for name, value in (("linear", linear), ("normalize", normalize), ("clip", clip)):
        checks.flag(name, value)
    checks.number("tau", tau, above=0.0)
    _check_x(x, "x", within=(0.0, 1.0))
    _check_steps(steps, x)
    checks.number("threshold", threshold, at_least=_LATENCY_EPSILON, below=1.0)
    value = x.detach().to(state_dtype(x))
    if not clip:
        value = value.clamp(min=threshold)
    if linear:
        time, longest = 1.0 - value, 1.0
    else:
        # ln(x / (x − θ)) written as ln(1 + θ / (x − θ)), which keeps its precision for x far above θ.
        time = torch.log1p(threshold / (value - threshold).clamp(min=_LATENCY_EPSILON))
        longest = math.log1p(threshold / _LATENCY_EPSILON)
    step = (time * ((steps - 1) / longest if normalize else tau)).round()
    fires = value >= threshold
    if not normalize:
        fires = fires & (step < steps)
    # Rounding errors of float32 must not push the latest spike out; a NaN, not refused on an accelerator, stays silent.
    index = torch.where(fires, step, 0).clamp(0, steps - 1).long()
    silence = torch.zeros((steps, *x.shape), dtype=x.dtype, device=x.device)
    return silence.scatter(0, index.unsqueeze(0), fires.unsqueeze(0).to(x.dtype))


def phase(x: Tensor, steps: int) -> Tensor:
    """Spike where a binary digit of x is 1: the spike of step t is worth 2^-(t+1) (weighted spikes).

    So x is ``(weights * spikes).sum(0)`` to within 2^-T, with ``weights = 0.5 ** torch.arange(1, T + 1)`` along time;
    x = 1 gets all spikes. Source: Kim et al. 2018 (doi:10.1016/j.neucom.2018.05.087); SpikingJelly's
    ``WeightedPhaseEncoder`` is the same, for x up to 1 - 2^-T.

    Args:
        x: [B, ...] in [0, 1].
        steps: T, at least 1: the number of digits.

    Returns:
        Spikes [T, B, ...].
    """
    _check_x(x, "x", within=(0.0, 1.0))
    _check_steps(steps, x)
    rest = x.detach().to(state_dtype(x))
    spikes = x.detach().new_empty((steps, *x.shape))
    for t in range(steps):
        rest = 2.0 * rest
        spikes[t] = rest >= 1.0
        rest = rest - spikes[t]
    return spikes


@lazy.explains(off_spike="it is off_spikes")
def delta(x_seq: Tensor, *, threshold: float = 0.1, off_spikes: bool = False, padding: bool = False) -> Tensor:
    """Emit a spike where a sequence rises by at least ``threshold`` from one step to the next.

    The first step is compared with 0, or by ``padding`` with itself. Source: snnTorch's ``spikegen.delta``.

    Args:
        x_seq: [T, B, ...], any finite values.
        threshold: smallest change that makes a spike, above 0.
        off_spikes: give -1 where the sequence falls by at least ``threshold``: the second polarity of an event camera.
        padding: no spikes at the first step.

    Returns:
        [T, B, ...] of 0, 1 and, with ``off_spikes``, -1.
    """
    checks.flag("off_spikes", off_spikes)
    checks.flag("padding", padding)
    _check_x(x_seq, "x_seq", sequence=True)
    checks.number("threshold", threshold, above=0.0)
    value = x_seq.detach().to(state_dtype(x_seq))
    change = value.clone()
    change[1:] -= value[:-1]
    if padding:
        change[0] = 0.0
    spikes = (change >= threshold).to(x_seq.dtype)
    if off_spikes:
        spikes -= (change <= -threshold).to(x_seq.dtype)
    return spikes


def constant_current_lif(
    x: Tensor,
    steps: int,
    *,
    tau_mem_inv: float = 100.0,
    v_th: float = 1.0,
    v_leak: float = 0.0,
    v_reset: float = 0.0,
    dt: float = 1e-3,
) -> Tensor:
    """Drive one leaky integrate-and-fire neuron per input with the constant current x: larger x, faster regular spikes.

    From v = v_leak on, v ← v + dt tau_mem_inv ((v_leak - v) + x); spike where v > v_th, and there v ← v_reset.
    Source: Norse's ``lif_current_encoder`` and ``constant_current_lif_encode`` (Pehle and Pedersen 2021,
    doi:10.5281/zenodo.4422025).

    Args:
        x: current [B, ...], any finite values. With the defaults only x > 1 fires: give images in [0, 1] a gain, as
            in ``constant_current_lif(2 * images, 32)``.
        steps: T, at least 1.
        tau_mem_inv: inverse membrane time constant in 1/s, above 0.
        v_th: threshold.
        v_leak: potential at rest.
        v_reset: potential after a spike, below ``v_th``.
        dt: time step in s, above 0; at most 1 / tau_mem_inv.

    Returns:
        Spikes [T, B, ...].
    """
    _check_x(x, "x")
    _check_steps(steps, x)
    checks.number("tau_mem_inv", tau_mem_inv, above=0.0)
    checks.number("dt", dt, above=0.0)
    checks.number("v_leak", v_leak)
    checks.number("v_reset", v_reset)
    checks.number("v_th", v_th)
    if not v_reset < v_th:
        raise ValueError(f"v_reset must be less than v_th, but they are {v_reset} and {v_th}")
    rate = dt * tau_mem_inv
    if rate > 1.0:
        raise ValueError(
            f"dt * tau_mem_inv must be at most 1, or the Euler step overshoots, but it is {dt} * {tau_mem_inv} = "
            f"{rate:g}: choose a smaller dt or tau_mem_inv"
        )
    current = x.detach().to(state_dtype(x))
    v = torch.full_like(current, v_leak)
    spikes = x.detach().new_empty((steps, *x.shape))  # of x, as vmap writes into batched tensors only
    for t in range(steps):
        v = v + rate * ((v_leak - v) + current)
        fired = v > v_th
        spikes[t] = fired
        v = v.masked_fill(fired, v_reset)
    return spikes


def first_spike(x_seq: Tensor) -> Tensor:
    """Keep the first spike of each neuron, and remove those after it (time-to-first-spike coding).

    Of ``constant_current_lif(x, steps)`` it makes a latency code: Norse's ``spike_latency_lif_encode``. Source: Norse's
    ``spike_latency_encode``, after Van Rullen and Thorpe 2001 (doi:10.1162/08997660152002852).

    Args:
        x_seq: spikes [T, B, ...]; whatever is not 0 counts as one.

    Returns:
        [T, B, ...]. Gradients reach the first spikes alone.
    """
    _check_x(x_seq, "x_seq", sequence=True)
    return x_seq * ((x_seq != 0).cumsum(0) <= 1)


def spike_times(times: Tensor | Sequence[Sequence[Sequence[float]]], steps: int) -> Tensor:
    """Make a sequence of the times at which each neuron fires, in steps: a spike at t is in step ⌊t⌋.

    Two spikes of a neuron in one step are one. Divide times in seconds by the time step first.

    Args:
        times: [B, ..., K] from 0 on and below T, with infinity where a neuron has fewer than K spikes. Or lists of
            times: ``times[b][n]`` is that of neuron n of sample b.
        steps: T, at least 1.

    Returns:
        Spikes [T, B, ...], [T, B, N] for lists.
    """
    if not isinstance(times, Tensor):
        times = _padded(times)
    checks.instance("times", times, Tensor, "a dense tensor or lists of times")
    if not times.is_floating_point() or times.dim() < 2:
        kind = f"of {times.dtype} and shape {list(times.shape)}"
        raise TypeError(f"times must be a floating-point tensor [B, ..., K] or lists of times, but it is {kind}")
    neurons = times[..., 0] if times.shape[-1] else times.new_empty(times.shape[:-1])
    _check_steps(steps, neurons)
    value = times.detach()
    lost = ~((value >= 0) & (value < steps)) & (value != math.inf)
    if shows_values(times) and lost.any():
        raise ValueError(f"times must be from 0 on and below steps, {steps}, but one is {value[lost][0].item():g}")
    # Spikes that do not occur go to an extra last step, which is cut off.
    index = torch.where(lost | (value == math.inf), steps, value).long().movedim(-1, 0)
    return value.new_zeros((steps + 1, *neurons.shape)).scatter(0, index, 1.0)[:steps]


def _padded(times: Sequence[Sequence[Sequence[float]]]) -> Tensor:
    """[B, N, K] of lists."""
    try:
        trains = [torch.as_tensor(train, dtype=torch.float32) for sample in times for train in sample]
        if {len(sample) for sample in times} != {len(times[0])} or any(train.dim() != 1 for train in trains):
            raise ValueError
        return pad_sequence(trains, batch_first=True, padding_value=math.inf).unflatten(0, (len(times), -1))
    except (IndexError, KeyError, RuntimeError, TypeError, ValueError):
        raise TypeError(
            "times must be a tensor [B, ..., K], or a list of samples, each a list of as many neurons, each a list of "
            f"times, but it is {checks.shown(times)}"
        ) from None


def _check_steps(steps: int, x: Tensor) -> None:
    """A count of steps of which memory holds as many."""
    checks.integer("steps", steps, at_least=1, at_most=_MOST_STEPS)
    if x.device.type == "cpu" and not torch.compiler.is_compiling():
        checks.fits("steps", steps, x.numel() * x.element_size())


def _check_x(x: Tensor, name: str, *, within: tuple[float, float] | None = None, sequence: bool = False) -> None:
    shape = "[T, B, ...]" if sequence else "[B, ...]"
    checks.instance(name, x, Tensor, f"a floating-point tensor {shape}")
    if not x.is_floating_point():
        images = x.dtype == torch.uint8
        hint = f"; scale images to [0, 1] first: {name}.float() / 255" if images else f"; use {name}.float()"
        raise TypeError(f"{name} must be a floating-point tensor {shape}, but its dtype is {x.dtype}{hint}")
    if x.ndim < (2 if sequence else 1):
        raise ValueError(f"{name} must be {shape}, but its shape is {list(x.shape)}")
    if sequence and x.shape[0] == 0:
        raise ValueError(f"{name} must have at least one time step, but its shape is {list(x.shape)}")
    if x.numel() == 0 or not shows_values(x):
        return
    low, high = (bound.item() for bound in torch.aminmax(x.detach()))
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError(f"{name} must be finite, but it contains NaN or infinity")
    if within is not None and (low < within[0] or high > within[1]):
        raise ValueError(
            f"{name} must be in [{within[0]:g}, {within[1]:g}], but its values go from {low:g} to {high:g}; use "
            f"{name}.clamp({within[0]:g}, {within[1]:g}) to cut them"
        )


_TARGETS = "nothing: the losses of snnkit.loss take labels"
__getattr__ = lazy.instead(
    __name__,
    {
        "spikegen": "encode.poisson, encode.latency and encode.delta",
        "rate": "encode.poisson",
        "rate_conv": "encode.poisson(x_seq, steps=None)",
        "latency_code": "encode.latency",
        "targets_convert": _TARGETS,
        "targets_rate": _TARGETS,
        "targets_latency": _TARGETS,
        **dict.fromkeys(("target_rate_code", "rate_interpolate", "latency_interpolate"), _TARGETS),
        "latency_code_linear": "encode.latency(x, steps, linear=True)",
        "latency_code_log": "encode.latency",
        "to_one_hot": "torch.nn.functional.one_hot",
        "to_one_hot_inverse": "1 - torch.nn.functional.one_hot(labels, classes)",
        "from_one_hot": "one_hot.argmax(1)",
        "poisson_encode": "encode.poisson",
        "PoissonEncoder": "encode.poisson",
        "signed_poisson_encode": "x.sign() * encode.poisson(x.abs(), steps)",
        "SignedPoissonEncoder": "x.sign() * encode.poisson(x.abs(), steps)",
        "population_encode": "encode.population",
        "PopulationEncoder": "encode.population",
        "PopEncoder": "encode.repeat(encode.population(x, n), steps)",
        "PopSpikeEncoderRandom": "encode.poisson(encode.population(x, n), steps)",
        "constant_current_lif_encode": "encode.constant_current_lif",
        "ConstantCurrentLIFEncoder": "encode.constant_current_lif",
        "spike_latency_encode": "encode.first_spike",
        "SpikeLatencyEncoder": "encode.first_spike",
        "spike_latency_lif_encode": "encode.first_spike(encode.constant_current_lif(x, steps))",
        "SpikeLatencyLIFEncoder": "encode.first_spike(encode.constant_current_lif(x, steps))",
        "LatencyEncoder": "encode.latency(x, steps, linear=True, clip=False, threshold=1e-7)",
        "PeriodicEncoder": "spikes[torch.arange(steps) % len(spikes)]",
        "WeightedPhaseEncoder": "encode.phase",
    },
)
