"""Networks to compare yours with. Their numbers were found by programs, and lie in ``references.json``."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import torch
from torch import Tensor, nn

from snnkit.neuron import LIF, Recurrent
from snnkit.nn import Sequential

from . import delay_lines, evolve, task
from .delays import Delays
from .entries import Entry, neurons_in_words
from .scoring import Score, score
from .training import network

FILE = Path(__file__).with_name("references.json")
HIDDEN, PENALTY = 16, 0.01
TAU = 20.0  # steps, of the neuron behind delay lines

NOTES = {
    "plain": "backpropagation, spikes are free",
    "thrifty": f"backpropagation, a spike costs {PENALTY}",
    "two neurons": "ten numbers found by evolution",
    "delays": "synapses with delays, and one neuron that fires",
}
# On every board. The last one beats them all; who looks for it below has read so far.
SHOWN = ("plain", "thrifty", "two neurons")


def reference(name: str) -> Sequential:
    """A network of the kit, [T, B, 8] to [T, B, 2].

    - "plain": 16 hidden neurons, trained by backpropagation through time without a thought for spikes.
    - "thrifty": the same with a penalty on spikes.
    - "two neurons": one recurrent layer of two ``LIF``, found by evolution: 0.75 spikes per sample.
    - "delays": a ``LIF`` behind ``Delays``: 0.5 spikes per sample.

    Raises:
        ValueError: no such reference.
    """
    if name not in NOTES:
        raise ValueError(f"name must be one of {', '.join(NOTES)}, but it is {name!r}")
    numbers = json.loads(FILE.read_text(encoding="utf-8"))["networks"][name]
    if name == "two neurons":
        return two_neurons(torch.tensor(numbers))
    if name == "delays":
        return with_delays(torch.tensor(numbers["weights"]), numbers["bias"])
    net = network(HIDDEN)
    net.load_state_dict({key: torch.tensor(value) for key, value in numbers.items()})
    return net


def two_neurons(numbers: Tensor) -> Sequential:
    """The network of ten numbers, as in ``evolve``."""
    inward, among, bias = (part[0].float() for part in evolve.unpack(numbers[None]))
    units = task.CHANNELS // 2
    synapses = nn.Linear(task.CHANNELS, 2)
    layer = Recurrent(LIF(evolve.TAU, v_reset=None, decay_input=False), 2)
    with torch.no_grad():
        synapses.weight.copy_(inward.repeat_interleave(units, dim=1))
        synapses.bias.copy_(bias)
        layer.weight.weight.copy_(among)
    return Sequential(synapses, layer)


def with_delays(weights: Tensor, bias: float) -> Sequential:
    """The network of weights [delay, group] and a (negative) bias, as in ``delay_lines``. Output 0 never fires."""
    units, keeps = task.CHANNELS // 2, 1 - 1 / TAU
    # Before it fires, v[t] = keeps v[t-1] + I[t] is to be the weighted sum u[t], so I[t] = u[t] - keeps u[t-1].
    # The bias is the threshold, which is 1 here.
    scaled = weights / -bias
    scaled = torch.cat([scaled[:1], scaled[1:] - keeps * scaled[:-1]])
    synapses = nn.Linear(len(delay_lines.LATE) * task.CHANNELS, 2, bias=False)
    with torch.no_grad():
        synapses.weight.zero_()
        synapses.weight[1] = scaled.repeat_interleave(units, dim=1).flatten()
    layer = Recurrent(LIF(TAU, v_reset=None, decay_input=False), 2)
    with torch.no_grad():
        layer.weight.weight.copy_(-1000 * torch.eye(2))  # who has fired stops itself for the rest of the sample
    return Sequential(Delays(delay_lines.LATE), synapses, layer)


@functools.lru_cache(maxsize=32)
def reference_score(name: str, salt: str = task.SALT) -> Score:
    """Of ``reference(name)``; computed once in a process."""
    return score(reference(name), salt=salt)


def reference_entry(name: str, salt: str = task.SALT) -> Entry:
    """A reference as a line of the board."""
    net, found = reference(name), reference_score(name, salt)
    return Entry(
        f"({name})", NOTES[name], "", found.score, found.error, found.accuracy, found.spikes, found.samples,
        found.mark, neurons_in_words(net), sum(p.numel() for p in net.parameters()),
    )  # fmt: skip
