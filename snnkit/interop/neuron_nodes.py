"""NIR's neurons under Euler's rule; between our neurons and NIR's nodes; and a note that restores a neuron exactly.

An Euler neuron has a time step of ``dt`` seconds and spikes, z = H(v - v_threshold), strictly above the threshold; then
v ← v_reset. Equations: Pedersen et al. 2024, doi:10.1038/s41467-024-52259-9. NIR does not define where a membrane
begins: here at ``v_leak``, for an ``IF`` at ``v_reset``. Numbers are for all neurons, or tensors that broadcast against
a step [B, ...].

A number converted to seconds and back differs in its last digit, and NIR can't express that a neuron fires at its
threshold. So a node's metadata note which of our neurons it was, with its arguments. The note counts only if that
neuron, written again, has the numbers of the node. If another program has changed these, or at another ``dt``, only
the numbers count.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from snnkit import surrogate as surrogates
from snnkit.interop.layer_nodes import KEY, Shape, nir_package, note_of
from snnkit.neuron import (
    ALIF,
    IF,
    LI,
    LIF,
    PLIF,
    QIF,
    AdEx,
    Alpha,
    CubaLIF,
    Izhikevich,
    Leaky,
    Neuron,
    OneToOne,
    Readout,
    Refractory,
    Synaptic,
)
from snnkit.neuron.base import MembraneState, Value, between, reset_membrane
from snnkit.neuron.cuba import SynapticState
from snnkit.surrogate import ATan, Surrogate

_DEFAULTS = {"v_leak": 0.0, "v_reset": 0.0, "w_in": 1.0}


class EulerNeuron(Neuron):
    """Base class of the six neurons: a step charges the membrane, which then fires if it has a threshold.

    Args:
        numbers: of the equation, by NIR's names; ``v_leak`` and ``v_reset`` are 0 by default, ``w_in`` is 1. With
            ``v_reset=None``, which NIR does not have, a spike subtracts the threshold.
        dt: time step in s.
        surrogate, engine: as in every neuron.
    """

    resting: ClassVar[dict[str, str]] = {"v": "v_leak"}
    names: ClassVar[tuple[str, ...]]
    dt: float
    r: Value
    v_leak: Value
    v_threshold: Value
    v_reset: Value | None

    def __init__(
        self, *, dt: float, surrogate: Callable[..., Tensor] = ATan(), engine: str = "auto", **numbers: Value | None
    ) -> None:
        super().__init__(surrogate=surrogate if self.spiking else None, engine=engine)
        self.number("dt", dt, above=0)
        numbers = {name: value for name, value in _DEFAULTS.items() if name in self.names} | numbers
        if numbers.keys() != set(self.names):
            raise TypeError(
                f"numbers of {type(self).__name__} must be {', '.join(self.names)}, but they are {', '.join(numbers)}"
            )
        for name in self.names:
            if name not in ("v_threshold", "v_reset"):
                self.number(name, numbers[name], above=0 if name.startswith("tau") else None)  # type: ignore[arg-type]
        if self.spiking:
            self.threshold_and_reset(numbers["v_threshold"], numbers["v_reset"])  # type: ignore[arg-type]

    @property
    def threshold(self) -> Value | None:
        """Its ``v_threshold``; None for a readout."""
        return self.v_threshold if self.spiking else None

    @property
    def decay(self) -> Value:
        """1 - dt over the time constant of the membrane; 1 if it has none."""
        tau = next((getattr(self, name) for name in ("tau", "tau_mem") if name in self.names), None)
        return 1.0 if tau is None else 1 - self.dt / tau

    def charge(self, x: Tensor, state: Any) -> Any:
        """The state before the reset."""
        raise NotImplementedError

    def step(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        state = self.charge(x, state)
        if not self.spiking:
            return state.v, state
        spike = self.spike(state.v - self.v_threshold, strict=True)
        return spike, state._replace(v=reset_membrane(state.v, spike, self.v_threshold, self.v_reset))


class EulerI(EulerNeuron):
    """v ← v + dt r x; its output is v.

    Numbers: r, resistance (1/s for a dimensionless membrane).
    """

    names = ("r",)
    resting: ClassVar[dict[str, str]] = {}
    spiking = False

    def charge(self, x: Tensor, state: MembraneState) -> MembraneState:
        return MembraneState(state.v + self.dt * self.r * x)


class EulerIF(EulerI):
    """v ← v + dt r x, then fires.

    Numbers: r as of ``EulerI``; v_threshold, potential at which it fires; v_reset, potential after a spike.
    """

    names = ("r", "v_threshold", "v_reset")
    resting: ClassVar[dict[str, str]] = {"v": "v_reset"}
    spiking = True


class EulerLI(EulerNeuron):
    """v ← v + dt/tau ((v_leak - v) + r x); its output is v.

    Numbers: tau, membrane time constant in s; r, resistance; v_leak, potential at rest.
    """

    names = ("tau", "r", "v_leak")
    spiking = False
    tau: Value

    def charge(self, x: Tensor, state: MembraneState) -> MembraneState:
        return MembraneState(state.v + self.dt / self.tau * ((self.v_leak - state.v) + self.r * x))


class EulerLIF(EulerLI):
    """v ← v + dt/tau ((v_leak - v) + r x), then fires. Numbers: those of ``EulerLI`` and ``EulerIF``."""

    names = ("tau", "r", "v_leak", "v_threshold", "v_reset")
    spiking = True


class EulerCubaLI(EulerNeuron):
    """i ← i + dt/tau_syn (w_in x - i);  v ← v + dt/tau_mem ((v_leak - v) + r i); its output is v.

    Numbers: tau_syn and tau_mem, time constants of synapse and membrane in s; r, resistance; v_leak, potential at rest;
    w_in, weight of the input current: with tau_syn / dt a spike of 1 adds 1 to the current.
    """

    State: ClassVar[Any] = SynapticState
    names = ("tau_syn", "tau_mem", "r", "v_leak", "w_in")
    spiking = False
    tau_syn: Value
    tau_mem: Value
    w_in: Value

    def charge(self, x: Tensor, state: SynapticState) -> SynapticState:
        i = state.i + self.dt / self.tau_syn * (self.w_in * x - state.i)
        return SynapticState(state.v + self.dt / self.tau_mem * ((self.v_leak - state.v) + self.r * i), i)


class EulerCubaLIF(EulerCubaLI):
    """i ← i + dt/tau_syn (w_in x - i);  v ← v + dt/tau_mem ((v_leak - v) + r i), then fires.

    Numbers: those of ``EulerCubaLI``, and v_threshold and v_reset as in ``EulerIF``.
    """

    names = ("tau_syn", "tau_mem", "r", "v_leak", "v_threshold", "v_reset", "w_in")
    spiking = True


# By NIR's name of the equation.
EULER: dict[str, type[EulerNeuron]] = {
    kind.__name__.removeprefix("Euler"): kind
    for kind in (EulerI, EulerIF, EulerLI, EulerLIF, EulerCubaLI, EulerCubaLIF)
}

Numbers = dict[str, Any]  # floats, and float64 arrays that broadcast against one sample
Described = tuple[str, Numbers]  # a neuron in NIR's terms: kind of node, and its numbers


def described(neuron: Neuron, dt: float) -> Described:
    """``neuron`` in NIR at time steps of ``dt`` seconds; ValueError or TypeError if there is no such node.

    Of a number that an optimizer moved out of its range, the nearest one in it, as the neuron's step takes it.
    """
    writer = _WRITERS.get(type(neuron))
    if writer is None:
        why = next((f", as {text}" for kind, text in _NO_NODE.items() if isinstance(neuron, kind)), "")
        known = ", ".join(kind.__name__ for kind in _WRITERS)
        raise TypeError(f"NIR has no node for {type(neuron).__name__}{why}; it has nodes for {known}")
    own_dt = _plain(getattr(neuron, "dt", dt))
    # As a tensor it may have been rounded to float32.
    if not np.allclose(own_dt, dt, rtol=1e-9 if isinstance(own_dt, float) else 1e-6, atol=0):
        raise ValueError(f"dt must be that of the network's {type(neuron).__name__}, {own_dt} s, but it is {dt}")
    return writer(neuron, dt)


def _plain(value: Value) -> Any:
    """As float, or as array of float64."""
    return value.detach().cpu().double().numpy() if isinstance(value, Tensor) else float(value)


def _hard(neuron: IF | LIF | PLIF | EulerNeuron) -> Numbers:
    if neuron.v_reset is None:
        raise ValueError(
            f"{type(neuron).__name__} has a soft reset (v_reset=None), which NIR can't express; "
            "use a hard one, such as v_reset=0.0, and train the network with it"
        )
    return _threshold_and_reset(neuron.v_threshold, neuron.v_reset)


def _threshold_and_reset(v_threshold: Value, v_reset: Value) -> Numbers:
    return {"v_threshold": _plain(between(v_threshold, v_reset, open=True)), "v_reset": _plain(v_reset)}


def _of_lif(neuron: LIF | PLIF, dt: float) -> Described:
    tau = _plain(between(neuron.tau, 1.0))
    reset = _hard(neuron)
    r = 1.0 if neuron.decay_input else tau
    return "LIF", {"tau": tau * dt, "r": r, "v_leak": reset["v_reset"], **reset}


def _of_leaky(neuron: Leaky, dt: float) -> Described:
    if neuron.reset_mechanism != "zero":
        raise ValueError(
            f'Leaky has reset_mechanism="{neuron.reset_mechanism}", which NIR can\'t express; '
            'use "zero", and train the network with it'
        )
    beta = _plain(between(neuron.beta, 0, 1))
    reset = _threshold_and_reset(neuron.threshold, 0.0)
    if _adds_up(beta, neuron):
        return "IF", {"r": 1 / dt, **reset}
    return "LIF", {"tau": dt / (1 - beta), "r": 1 / (1 - beta), "v_leak": 0.0, **reset}


def _adds_up(beta: Any, neuron: Neuron) -> bool:
    """Whether nothing decays; ValueError if that is so for some of its neurons."""
    if not np.all(beta == 1) and np.any(beta == 1):
        name = type(neuron).__name__
        raise ValueError(
            f"beta of {name} must be below 1 for all its neurons, or 1 for all: NIR has two nodes for these"
        )
    return bool(np.all(beta == 1))


def _of_readout(neuron: Readout, dt: float) -> Described:
    beta = _plain(between(neuron.beta, 0, 1))
    if not neuron.decay_input and _adds_up(beta, neuron):
        return "I", {"r": 1 / dt}
    if np.any(beta == 1):
        raise ValueError("beta of Readout with decay_input must be below 1 for NIR: with 1 it has no input")
    return "LI", {"tau": dt / (1 - beta), "r": 1.0 if neuron.decay_input else 1 / (1 - beta), "v_leak": 0.0}


def _of_synaptic(neuron: Synaptic, dt: float) -> Described:
    if neuron.reset_mechanism != "zero" or neuron.reset_delay:
        delay = ", reset_delay=True" if neuron.reset_mechanism == "zero" else ""
        raise ValueError(
            f'Synaptic has reset_mechanism="{neuron.reset_mechanism}"{delay}, which NIR can\'t express; '
            'use "zero" with reset_delay=False, and train the network with it'
        )
    left = {name: 1 - np.asarray(_plain(between(getattr(neuron, name), 0, 1))) for name in ("alpha", "beta")}
    for name, value in left.items():
        if np.any(value == 0):
            raise ValueError(f"{name} of Synaptic must be below 1 for NIR, whose currents and membranes decay")
    return "CubaLIF", {
        "tau_syn": dt / left["alpha"],
        "tau_mem": dt / left["beta"],
        "r": 1 / left["beta"],
        "v_leak": 0.0,
        "w_in": 1 / left["alpha"],
        **_threshold_and_reset(neuron.threshold, 0.0),
    }


def _synaptic(neuron: CubaLIF | LI, dt: float) -> Numbers:
    inverse = {
        name: _plain(between(getattr(neuron, name), 0.0, 2 / neuron.dt)) for name in ("tau_syn_inv", "tau_mem_inv")
    }
    for name, value in inverse.items():
        if not np.all(value > 0):
            raise ValueError(f"{name} of {type(neuron).__name__} must be greater than 0 for NIR, but it is {value}")
    tau_syn = 1 / inverse["tau_syn_inv"]
    # A spike of 1 adds 1 to the current for any dt; in NIR it adds w_in dt / tau_syn.
    return {
        "tau_syn": tau_syn,
        "tau_mem": 1 / inverse["tau_mem_inv"],
        "r": 1.0,
        "v_leak": _plain(neuron.v_leak),
        "w_in": tau_syn / dt,
    }


def _of_euler(neuron: EulerNeuron, dt: float) -> Described:
    numbers = _hard(neuron) if neuron.spiking else {}
    numbers |= {name: _plain(getattr(neuron, name)) for name in neuron.names if name not in numbers}
    return type(neuron).__name__.removeprefix("Euler"), numbers


_WRITERS: dict[type, Callable[[Any, float], Described]] = {
    IF: lambda neuron, dt: ("IF", {"r": 1 / dt, **_hard(neuron)}),
    LIF: _of_lif,
    PLIF: _of_lif,
    Leaky: _of_leaky,
    CubaLIF: lambda n, dt: ("CubaLIF", {**_synaptic(n, dt), **_threshold_and_reset(n.v_th, n.v_reset)}),
    LI: lambda neuron, dt: ("CubaLI", _synaptic(neuron, dt)),
    Synaptic: _of_synaptic,
    Readout: _of_readout,
    **dict.fromkeys(EULER.values(), _of_euler),
}


# Why there is no node for the others.
_NO_NODE: dict[type[Neuron], str] = {
    Alpha: "its two currents and its membrane are reset together",
    QIF: "its membrane is quadratic",
    AdEx: "its membrane is exponential, and it adapts",
    Izhikevich: "its membrane is quadratic, and it adapts",
    ALIF: "its threshold adapts",
    Refractory: "no node has a refractory period",
    OneToOne: "a neuron with weights to itself is two nodes, and here it is inside another one",
}


def euler_neuron(
    kind: str, numbers: dict[str, np.ndarray | None], dt: float, dtype: torch.dtype, surrogate: Callable[..., Tensor]
) -> Neuron:
    """The neuron with exactly these numbers: arrays of the shape of a sample; a ``v_reset`` of None is a soft reset."""
    values: dict[str, Any] = {
        name: float(array.flat[0]) if np.all(array == array.flat[0]) else torch.tensor(array, dtype=dtype)
        for name, array in numbers.items()
        if array is not None
    }
    values = dict.fromkeys(numbers) | values
    return EULER[kind](dt=dt, surrogate=surrogate, **values)


def reach(kind: str, numbers: dict[str, np.ndarray | None], dt: float) -> float:
    """How far an input of 1 in one step takes the membrane, as a part of its way from rest to the threshold; at most.

    Infinity where it has no threshold, or rests above it.
    """
    n = {name: array for name, array in numbers.items() if array is not None}
    if "v_threshold" not in n:
        return np.inf
    moved = dt * n["r"]
    if kind == "LIF":
        moved = moved / n["tau"]
    if kind == "CubaLIF":  # the current decays while it charges the membrane
        moved = moved * n["w_in"] / np.maximum(n["tau_mem"], n["tau_syn"])
    way = n["v_threshold"] - n.get("v_leak", n.get("v_reset", 0.0))
    return float(np.where(way > 0, np.abs(moved) / np.where(way > 0, way, 1), np.inf).max())


# The arguments of each, but for its surrogate and its engine.
_ARGUMENTS: dict[type[Neuron], tuple[str, ...]] = {
    IF: ("v_threshold", "v_reset", "detach_reset"),
    LIF: ("tau", "v_threshold", "v_reset", "decay_input", "detach_reset"),
    PLIF: ("w", "v_threshold", "v_reset", "decay_input", "detach_reset"),
    Leaky: ("beta", "threshold", "reset_mechanism", "reset_delay"),
    CubaLIF: ("tau_mem_inv", "tau_syn_inv", "v_leak", "v_th", "v_reset", "dt", "detach_reset"),
    LI: ("tau_mem_inv", "tau_syn_inv", "v_leak", "dt"),
    Synaptic: ("alpha", "beta", "threshold", "reset_mechanism", "reset_delay"),
    Readout: ("beta", "decay_input"),
    **{kind: (*kind.names, "dt") for kind in EULER.values()},
}
_CLASSES = {kind.__name__: kind for kind in _ARGUMENTS}
_SURROGATES = {name: kind for name in surrogates.__all__ if (kind := getattr(surrogates, name)) is not Surrogate}


def note_on(neuron: Neuron) -> dict[str, Any]:
    """The metadata of the node of ``neuron``: numbers as HDF5 stores them, and what it does not store of them."""
    note = _note(neuron, _ARGUMENTS[type(neuron)])
    spike = neuron.surrogate
    if spike is not None:
        known = type(spike) is _SURROGATES.get(type(spike).__name__)
        settings = dataclasses.asdict(spike) if known else None  # type: ignore[call-overload]
        note["surrogate"] = json.dumps([getattr(type(spike), "__name__", ""), settings])
    return note


def _note(neuron: Neuron, names: tuple[str, ...]) -> dict[str, Any]:
    values = {name: getattr(neuron, name) for name in names}
    tensors = {name: value for name, value in values.items() if isinstance(value, Tensor)}
    # An array without dimensions can't be compressed, and bfloat16 is unknown to NumPy.
    stored = {name: np.atleast_1d(np.asarray(_plain(value))) for name, value in tensors.items()}
    note = {KEY: type(neuron).__name__, **values, **stored}
    note["single"] = " ".join(name for name, value in tensors.items() if value.dim() == 0)
    note["learnable"] = " ".join(name for name, value in tensors.items() if isinstance(value, nn.Parameter))
    return note


def weights_of(neuron: OneToOne, shape: Shape) -> Any:
    """The node of the weights from each neuron to itself, for samples of this shape."""
    scale = np.broadcast_to(_plain(neuron.weight), shape).astype(np.float64)
    return nir_package().Scale(scale=scale, metadata=_note(neuron, ("weight",)))


def one_to_one(neuron: Neuron, node: Any, dtype: torch.dtype) -> OneToOne:
    """``neuron`` with the weights of a node to itself: as noted, if the note fits, or else learned."""
    scale, note = np.array(node.scale, np.float64), note_of(node)
    try:
        weight = _restored("weight", note)
        if np.allclose(np.broadcast_to(_plain(weight), scale.shape), scale, rtol=1e-6, atol=1e-12):
            return OneToOne(neuron, weight).to(dtype)
    except (KeyError, TypeError, ValueError):  # no note of ours
        pass
    return OneToOne(neuron, nn.Parameter(torch.tensor(scale, dtype=dtype)))


def neuron_of(
    node: Any, kind: str, numbers: dict[str, np.ndarray | None], dt: float, surrogate: Callable[..., Tensor] | None
) -> Neuron | None:
    """The neuron of the note on a node; None if there is no note, or if it does not fit the node's numbers.

    Its surrogate is ``surrogate``, or for None its own if it is one of the package.
    """
    note = note_of(node)
    owner = _CLASSES.get(str(note.get(KEY)))
    if owner is None or any(array is None for array in numbers.values()):
        return None
    try:
        neuron = _made(owner, note, surrogate)
        same_kind, same = described(neuron, dt)
        fits = same_kind == kind and all(
            np.allclose(np.broadcast_to(same[name], array.shape), array, rtol=1e-6, atol=1e-12)  # type: ignore[union-attr]
            for name, array in numbers.items()
        )
    except (KeyError, TypeError, ValueError):  # the note, or the shape of a number, was changed
        return None
    return neuron if fits else None


def _made(owner: type[Neuron], note: dict[str, Any], surrogate: Callable[..., Tensor] | None) -> Neuron:
    arguments: dict[str, Any] = {name: _restored(name, note) for name in _ARGUMENTS[owner]}
    if owner.spiking:
        arguments["surrogate"] = surrogate or surrogate_of(note) or ATan()
    learnable = {name: value for name, value in arguments.items() if isinstance(value, nn.Parameter)}
    # Constructors refuse what an optimizer may have moved out of bounds, but take tensors without values.
    arguments |= {name: nn.Parameter(value.to("meta")) for name, value in learnable.items()}
    if owner is PLIF:
        arguments["shape"] = tuple(arguments.pop("w").shape)
    neuron = owner(**arguments)
    for name, value in learnable.items():
        setattr(neuron, name, value)
    return neuron


def surrogate_of(note: dict[str, Any]) -> Surrogate | None:
    """The one that is noted; None if there is none, or one that is not of this package."""
    try:
        name, settings = json.loads(_text(note["surrogate"]))
        return _SURROGATES[name](**settings)
    except (KeyError, TypeError, ValueError, RecursionError):
        return None


def _restored(name: str, note: dict[str, Any]) -> Any:
    value = note[name]
    if isinstance(value, np.ndarray):
        tensor = torch.from_numpy(np.array(value))
        if name in _text(note["single"]).split():
            tensor = tensor.reshape(())
        return nn.Parameter(tensor) if name in _text(note["learnable"]).split() else tensor
    return value.item() if isinstance(value, np.generic) else value if not isinstance(value, bytes) else _text(value)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
