"""Neurons that compete: whoever fires first holds the others down, and whoever fires often becomes harder to excite."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import check


class CompetitionState(NamedTuple):
    """State of neurons that compete.

    Attributes:
        v: membrane potential of every sample [B, n].
        theta: how far homeostasis has raised each neuron's threshold [n]; all samples share it.
    """

    v: Tensor
    theta: Tensor


@dataclass(frozen=True)
class Competition:
    """Leaky integrate-and-fire neurons with lateral inhibition and a threshold that adapts.

    In every step, for every sample:

        v ← exp(-dt / tau) v + current
        the neuron that is farthest above threshold + theta fires, if there is one; its v becomes 0
        every other neuron's v falls by ``inhibition``, to -``inhibition`` at the lowest

    and once for all samples, which count as if they had been shown one after the other:

        theta ← exp(-B dt / tau_theta) theta + ``theta_plus`` × spikes

    Inhibition is taken to be quicker than a time step, so that one neuron fires per step and sample at most.
    With ``inhibition`` = 0 nobody holds anybody down: all neurons above their threshold fire. With ``theta_plus`` = 0
    there is no homeostasis.

    Source: Diehl & Cook 2015 (doi:10.3389/fncom.2015.00099), with the inhibitory layer written as what it does; samples
    in parallel as in Saunders et al. 2019 (doi:10.1016/j.neunet.2019.08.016). The numbers suit ``CompetitiveLayer``,
    weights of the sum 16 and about a hundred neurons.

    Args:
        tau: time constant of the membrane in seconds.
        threshold: potential at which a neuron fires that has never fired.
        inhibition: by how much a spike lowers the potential of the others, 0 or more.
        theta_plus: by how much a spike raises the threshold of its neuron, 0 or more.
        tau_theta: time constant in seconds with which that is forgotten.
        dt: seconds per step.

    Raises:
        TypeError, ValueError: a number out of its range.
    """

    tau: float = 0.1
    threshold: float = 8.0
    inhibition: float = 20.0
    theta_plus: float = 0.4
    tau_theta: float = 500.0
    dt: float = 5e-3

    def __post_init__(self) -> None:
        for name in ("tau", "threshold", "tau_theta", "dt"):
            check.number(name, getattr(self, name), above=0.0)
        for name in ("inhibition", "theta_plus"):
            check.number(name, getattr(self, name), at_least=0.0)

    def initial_state(self, current: Tensor, theta: Tensor | None = None) -> CompetitionState:
        """At rest, for steps like ``current`` [..., B, n]; thresholds raised by ``theta`` [n], or not yet (None)."""
        if theta is None:
            theta = current.new_zeros(current.shape[-1])
        return CompetitionState(current.new_zeros(current.shape[-2:]), theta)

    @torch.no_grad()
    def step(self, current: Tensor, state: CompetitionState | None = None) -> tuple[Tensor, CompetitionState]:
        """One time step, in which thresholds adapt.

        Args:
            current: [B, n], float32 or float64.
            state: of the step before; None: at rest.

        Returns:
            Spikes [B, n], 0 or 1 in the dtype of ``current``, and the new state.

        Raises:
            TypeError, ValueError: a wrong kind, shape, dtype or device.
        """
        spikes, (v, theta) = self.respond(current, state)
        forget = math.exp(-len(current) * self.dt / self.tau_theta)
        return spikes, CompetitionState(v, torch.add(theta * forget, spikes.sum(0), alpha=self.theta_plus))

    @torch.no_grad()
    def respond(self, current: Tensor, state: CompetitionState | None = None) -> tuple[Tensor, CompetitionState]:
        """``step`` with thresholds as they are."""
        state = self._checked(current, state)
        v = torch.add(current, state.v, alpha=math.exp(-self.dt / self.tau))
        above = v - (state.theta + self.threshold)
        if self.inhibition:
            best, winner = above.max(dim=1, keepdim=True)
            fires = (best >= 0).to(v.dtype)
            spikes = torch.zeros_like(v).scatter_(1, winner, fires)
            v = v.sub_(fires, alpha=self.inhibition).clamp_(min=-self.inhibition)
        else:
            spikes = (above >= 0).to(v.dtype)
        return spikes, CompetitionState(v.mul_(1 - spikes), state.theta)

    def _checked(self, current: Any, state: Any) -> CompetitionState:
        if not isinstance(current, Tensor):
            raise TypeError(f"current must be a torch.Tensor [B, n], not a {type(current).__name__}")
        if current.dtype not in check.DTYPES:
            raise TypeError(f"current must be float32 or float64, not {current.dtype}")
        if current.dim() != 2 or 0 in current.shape:
            raise ValueError(f"current must be [B, n], none of them 0, but its shape is {list(current.shape)}")
        if state is None:
            return self.initial_state(current)
        if not (isinstance(state, tuple) and len(state) == 2):
            raise TypeError(f"state must be a CompetitionState or None, not a {type(state).__name__}")
        state = CompetitionState(*state)
        for name, value, shape in (("v", state.v, current.shape), ("theta", state.theta, current.shape[1:])):
            if not isinstance(value, Tensor) or value.shape != shape:
                raise ValueError(f"state.{name} must be a torch.Tensor {list(shape)} for current {list(current.shape)}")
            if (value.dtype, value.device) != (current.dtype, current.device):
                raise ValueError(
                    f"state.{name} must be {current.dtype} on {current.device}, as current is, "
                    f"not {value.dtype} on {value.device}"
                )
        return state
