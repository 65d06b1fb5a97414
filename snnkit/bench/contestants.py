"""Who takes part: our engines, the unrolled loop under ``torch.compile``, uint8 spikes, and the peers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..engine import ENGINES, state_dtype
from ..engine.select import choose
from ..neuron import LIF, CubaLIF, Leaky, Neuron
from ..surrogate import ATan, SuperSpike
from .floor import INFERENCE, MODES
from .peers import Forward, peers

# Each equation with the constants and the surrogate that its peer has by default.
EQUATIONS: dict[str, Callable[[str], Neuron]] = {
    "LIF": lambda engine: LIF(2.0, surrogate=ATan(), engine=engine),  # SpikingJelly 2.0
    "Leaky": lambda engine: Leaky(0.9, surrogate=ATan(), engine=engine),  # snnTorch 1.0
    # Norse 1.1's SuperSpike leaves its alpha = 100 out of the derivative, so it trains with alpha = 1.
    "CubaLIF": lambda engine: CubaLIF(surrogate=SuperSpike(1.0), engine=engine),
}

COMPILED = "torch.compile"
LONGEST_COMPILED = 32  # steps; compiling an unrolled loop takes about a second for each
OURS = "snnkit"

# Upper guesses of what training needs beside inputs and outputs, in float32 tensors of the shape of x. Loops were seen
# to keep three for backward, and hold as many lists of gradients while they go back; engines that recompute keep x.
LOOP_KEEPS, ENGINE_KEEPS = 8, 2


@dataclass(frozen=True)
class Contestant:
    """One line of the table.

    Attributes:
        name: unique for its equation: the engine (and what is special), "torch.compile" or the peer.
        library: "snnkit", "torch" or the peer's name.
        engine: that of ours that runs it; "" for others.
        equation: a key of EQUATIONS; its eager engine is what the result is compared with.
        forward: x [T, B, N] to spikes [T, B, N].
        why_not: (x) to the reason why this contestant would not run as its name says, or "".
        modes: in which it takes part.
        keeps: guess of what training needs beside inputs and outputs, in float32 tensors of the shape of x.
        out_dtype: of the spikes, where it is not that of x.
        longest: most steps it takes part with; None is any number.
    """

    name: str
    library: str
    engine: str
    equation: str
    forward: Forward
    why_not: Callable[[Tensor], str] = lambda x: ""
    modes: Sequence[str] = MODES
    keeps: int = LOOP_KEEPS
    out_dtype: torch.dtype | None = None
    longest: int | None = None

    @property
    def key(self) -> str:
        """Unique within a run."""
        return f"{self.name} · {self.equation}"


def engine_names() -> tuple[str, ...]:
    """What may be asked for: every engine, and the unrolled loop under ``torch.compile``."""
    return (*(name for name in ENGINES if name != "auto"), COMPILED)


def contestants(
    device: torch.device, engines: Sequence[str] | None = None, with_peers: bool = True
) -> tuple[list[Contestant], dict[str, str]]:
    """Everybody who takes part on ``device``, and why the others do not.

    Args:
        engines: some of ``engine_names()``; None is every one that is made for the device.
        with_peers: other libraries too, and our engines on their equations.

    Returns:
        Those who take part, equation by equation: ours, then peers. And name to reason of engines left out.
    """
    others = peers(device) if with_peers else []
    asked = engines or engine_names()
    found: list[Contestant] = []
    left_out: dict[str, str] = {}
    for equation in dict.fromkeys(["LIF", *(peer.equation for peer in others)]):
        for name in asked:
            if name == COMPILED:
                if equation == "LIF":
                    found.append(_compiled(equation))
                continue
            ours = _ours(name, equation)
            reason = ours.why_not(torch.zeros(2, 1, 8, device=device))
            if reason:
                left_out[name] = reason
                continue
            found.append(ours)
            if equation == "LIF" and name != "eager":
                found.append(_ours(name, equation, torch.uint8))
        found += [Contestant(p.name, p.name, "", p.equation, p.forward) for p in others if p.equation == equation]
    return found, left_out


def _ours(engine: str, equation: str, out_dtype: torch.dtype | None = None) -> Contestant:
    neuron = EQUATIONS[equation](engine)

    def forward(x: Tensor) -> Tensor:
        return neuron(x, out_dtype=out_dtype)[0]

    def why_not(x: Tensor) -> str:
        dtype = state_dtype(x)
        rest = neuron.initial_state(torch.empty(x.shape[1:], dtype=dtype, device=x.device))
        choice = choose(engine, neuron, x, rest, dtype)
        return "" if choice.engine == engine else choice.reason

    if out_dtype is None:
        keeps = LOOP_KEEPS if engine == "eager" else ENGINE_KEEPS
        return Contestant(engine, OURS, engine, equation, forward, why_not, keeps=keeps)
    # No gradient passes through bytes.
    name = f"{engine}, {str(out_dtype).removeprefix('torch.')} spikes"
    return Contestant(name, OURS, engine, equation, forward, why_not, modes=(INFERENCE,), out_dtype=out_dtype)


def _compiled(equation: str) -> Contestant:
    """What a user of PyTorch would write: the loop over time, handed to ``torch.compile`` as it stands."""
    neuron = EQUATIONS[equation]("eager")

    def loop(x: Tensor) -> Tensor:
        dtype = state_dtype(x)
        state = neuron.initial_state(torch.zeros_like(x[0], dtype=dtype))
        spikes = []
        for x_t in x.unbind(0):
            spike, state = neuron.step(x_t.to(dtype), state)
            spikes.append(spike.to(x.dtype))
        return torch.stack(spikes)

    # Sizes stay constants, as they are by default in a first call.
    forward = torch.compile(loop, fullgraph=True, dynamic=False)
    return Contestant(COMPILED, "torch", "", equation, forward, longest=LONGEST_COMPILED)
