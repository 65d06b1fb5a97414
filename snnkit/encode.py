"""From numbers to spikes: pixel intensities or features [B, ...] become sequences [T, B, ...].

| encoder | where the information is | values of x |
|---|---|---|
| ``repeat`` | in the size of a constant input, the same at every step | any finite |
| ``poisson`` | in the rate of random spikes | [0, 1] |
| ``latency`` | in the time of one spike | [0, 1] |
| ``delta`` | in the changes of a sequence | any finite, [T, B, ...] |
| ``constant_current_lif`` | in the rate of regular spikes | any finite current |

Every encoder returns the dtype and device of its input. All except ``repeat`` cut the gradient. If you need a function
of one argument (``train.fit(..., encode=...)``), fix the others with ``functools.partial(poisson, steps=25)``.

All raise TypeError for a tensor that is not floating point or an argument of another kind than stated, and ValueError
for a wrong rank, NaN, infinity or a value out of its range. Values of tensors are checked on a CPU only, because the
CPU would wait for an accelerator in every batch; and not inside ``torch.func`` transforms.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from snnkit import checks
from snnkit.engine import state_dtype
from snnkit.engine.memory_gate import shows_values

__all__ = ["constant_current_lif", "delta", "latency", "poisson", "repeat"]

# The smallest x − threshold that the logarithm of ``latency`` sees (snnTorch's value): it decides when "latest" is.
_LATENCY_EPSILON = 1e-7
_MOST_STEPS = 2**31 - 1


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


def poisson(x: Tensor, steps: int, *, generator: torch.Generator | None = None, max_rate: float = 1.0) -> Tensor:
    """Draw a spike at each step independently with probability ``max_rate * x`` (rate coding).

    Independent draws per step are the discrete form of a Poisson process (Dayan and Abbott 2001, Theoretical
    Neuroscience, section 1.4).

    Args:
        x: [B, ...] in [0, 1].
        steps: T, at least 1.
        generator: makes the draw repeatable, on the device of x; None: PyTorch's global one.
        max_rate: spikes per step at x = 1, above 0 and at most 1. For f hertz and steps of dt seconds it is f dt.

    Returns:
        Spikes [T, B, ...].
    """
    _check_x(x, "x", within=(0.0, 1.0))
    _check_steps(steps, x)
    checks.number("max_rate", max_rate, above=0.0, at_most=1.0)
    checks.instance("generator", generator, torch.Generator, "a torch.Generator", optional=True)
    if generator is not None and generator.device.type != x.device.type:
        raise ValueError(f"generator must be on the device of x ({x.device}), but it is on {generator.device}")
    probability = max_rate * x.detach().to(state_dtype(x))
    # Drawn in float32 at least: bfloat16 random numbers have 8 bits and would distort small probabilities.
    noise = torch.rand((steps, *x.shape), generator=generator, dtype=probability.dtype, device=x.device)
    return (noise < probability).to(x.dtype)


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


def delta(x_seq: Tensor, *, threshold: float = 0.1, off_spikes: bool = False) -> Tensor:
    """Emit a spike where a sequence rises by at least ``threshold`` from one step to the next.

    The first step is compared with 0. Source: snnTorch's ``spikegen.delta``.

    Args:
        x_seq: [T, B, ...], any finite values.
        threshold: smallest change that makes a spike, above 0.
        off_spikes: give -1 where the sequence falls by at least ``threshold``: the second polarity of an event camera.

    Returns:
        [T, B, ...] of 0, 1 and, with ``off_spikes``, -1.
    """
    checks.flag("off_spikes", off_spikes)
    _check_x(x_seq, "x_seq", sequence=True)
    checks.number("threshold", threshold, above=0.0)
    value = x_seq.detach().to(state_dtype(x_seq))
    change = value.clone()
    change[1:] -= value[:-1]
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


def _check_steps(steps: int, x: Tensor) -> None:
    """A count of steps of which memory holds as many."""
    checks.integer("steps", steps, at_least=1, at_most=_MOST_STEPS)
    if x.device.type == "cpu" and not torch.compiler.is_compiling():
        checks.fits("steps", steps, x.numel() * x.element_size())


def _check_x(x: Tensor, name: str, *, within: tuple[float, float] | None = None, sequence: bool = False) -> None:
    shape = "[T, B, ...]" if sequence else "[B, ...]"
    checks.instance(name, x, Tensor, f"a floating-point tensor {shape}")
    if not x.is_floating_point():
        hint = f"; scale images to [0, 1] first: {name}.float() / 255" if x.dtype == torch.uint8 else ""
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
            f"{name} must be in [{within[0]:g}, {within[1]:g}], but its values go from {low:g} to {high:g}"
        )
