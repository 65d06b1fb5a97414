"""The page for users of other libraries names all that they have; and what they type is answered with what is here.

``peer_names.txt`` has the public names of each library, module by module. Those of Spyx 1.0 were read from its sources.
"""

import fnmatch
import importlib
import math
import re
import types
import warnings
from pathlib import Path

import pytest
import torch

from snnkit import encode, lazy, loss, neuron, nn, plasticity, surrogate
from snnkit.data import events
from snnkit.lab.bench.workloads import SpikeFirst
from snnkit.lab.tools.project import find
from snnkit.neuron import IF, LIF, Leaky, Synaptic, beta_of

HERE = Path(__file__).parent
PAGE = (find(HERE).root / "docs" / "coming_from.md").read_text(encoding="utf-8")
ROOMS = "bench data device encode engine export hardware interop loss measure models neuron nn plasticity quantize"


def listed():
    """Library to module to names."""
    libraries: dict[str, dict[str, list[str]]] = {}
    text = (HERE / "peer_names.txt").read_text(encoding="utf-8").replace("\n  ", " ")
    for line in text.splitlines():
        if line.startswith("# "):
            modules = libraries.setdefault(line[2:], {})
        else:
            module, _, names = line.partition(": ")
            modules[module] = names.split()
    return libraries


def rows(title=""):
    """(there, here) of the tables below this title."""
    page = next(part for part in PAGE.split("\n### ") if part.startswith(title)) if title else PAGE
    page = page.split("\n## ")[0] if title else page
    return [line.split("|")[1:3] for line in page.splitlines() if line.startswith("|") and "---" not in line]


LISTED = listed()


@pytest.mark.parametrize("library", LISTED)
def test_every_public_name_is_on_the_page(library):
    patterns = [name for there, _ in rows(library) for name in re.findall(r"`([\w*]+)`", there)]
    names = [name for module in LISTED[library].values() for name in module]
    assert [name for name in names if not any(fnmatch.fnmatchcase(name, one) for one in patterns)] == []
    missing = [one for one in patterns if not any(fnmatch.fnmatchcase(name, one) for name in names)]
    assert missing == [], f"{library} has no such names"


def public(module):
    """Names that the module exports; without a list, those that were made in its package."""
    exported = getattr(module, "__all__", None)
    root = module.__name__.split(".")[0]
    for name in exported or dir(module):
        made = getattr(getattr(module, name, None), "__module__", "") or ""
        kind = isinstance(getattr(module, name, None), types.ModuleType)
        if not name.startswith("_") and not kind and (exported or str(made).startswith(root)):
            yield name


@pytest.mark.parametrize("library", [library for library in LISTED if library != "Spyx"])
def test_the_list_is_that_of_the_library(library):
    known = {name for module in LISTED[library].values() for name in module}
    pytest.importorskip(next(iter(LISTED[library])))
    new = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in LISTED[library]:
            try:
                module = importlib.import_module(name)
            except ImportError:  # it needs another package
                continue
            new += [one for one in public(module) if one not in known]
    assert new == [], f"add them to peer_names.txt and to docs/coming_from.md: {new}"


def test_what_the_tables_say_is_here_is_here():
    named = re.compile(rf"(?<![\w.])((?:{ROOMS.replace(' ', '|')}|surrogate|train|viz)\.[\w.]+\w)")
    checked = 0
    for _, here in rows():
        for code in re.findall(r"`([^`]+)`", here):
            for reference in named.findall(code):
                room, *path = reference.split(".")
                if path == ["backward"]:  # of a loss
                    continue
                home = "snnkit.lab" if room in ("bench", "hardware", "viz") else "snnkit"
                thing = importlib.import_module(f"{home}.{room}")
                for part in path:
                    thing = getattr(thing, part)
                checked += 1
    assert checked > 100


def test_every_name_that_is_answered_is_on_the_page():
    words = set(re.findall(r"[\w*]+", PAGE))
    patterns = [word for word in words if "*" in word and len(word) > 3]
    own = {*torch.nn.modules.__all__, *neuron.__all__}
    names = {name.rpartition(".")[2] for name in lazy.ELSEWHERE} - own
    assert len(names) > 100
    assert [n for n in sorted(names - words) if not any(fnmatch.fnmatchcase(n, one) for one in patterns)] == []


X, SPIKES, LABELS = torch.rand(4, 8), torch.ones(5, 4, 8), torch.arange(4)
CALLS = [
    (lambda: encode.poisson(X, num_steps=5), "poisson has no argument num_steps: the number of time steps is steps"),
    (lambda: encode.poisson(X, 5, time_var_input=True), r"steps=None takes x \[T, B, ...\] as rates that vary in time"),
    (lambda: encode.poisson(X, 5, first_spike_time=2), r"put torch.zeros\(k, \*x.shape\) before the spikes"),
    (lambda: encode.poisson(2 + X, 5), r"use x.clamp\(0, 1\) to cut them"),
    (lambda: encode.latency(X, 5, bypass=True), r"latency has no argument bypass: .* x.clamp\(0, 1\) cuts them"),
    (
        lambda: encode.latency(X, 5, interpolate=True),
        "no argument interpolate: .* the losses of snnkit.loss take labels",
    ),
    (lambda: encode.latency(X, 5, on_target=1), "no argument on_target: .* the losses of snnkit.loss take labels"),
    (lambda: encode.delta(SPIKES, off_spike=True), "delta has no argument off_spike: it is off_spikes"),
    (lambda: encode.constant_current_lif(LABELS, 5), r"use x.float\(\)"),
    (lambda: loss.count_cross_entropy(SPIKES, LABELS, population_code=True, num_classes=4), "population_size"),
    (lambda: loss.accuracy(SPIKES, LABELS, num_classes=4), "output's neurons / population_size"),
    (lambda: plasticity.PairSTDP(mu=0.75), 'PairSTDP has no argument mu: bound="hard" is additive'),
    (lambda: plasticity.PairSTDP(f_pre=abs), "a power of it is a Rule of your own"),
    (lambda: events.to_frames(None, split_by="number"), "to_frames has no argument split_by: steps=T"),
    (lambda: loss.ce_rate_loss, r"no snnkit.loss.ce_rate_loss: use loss.rate_cross_entropy \(more names: docs/coming_"),
    (lambda: surrogate.fast_sigmoid, r"use surrogate.FastSigmoid\(25.0\)"),
    (lambda: plasticity.STDPLearner, "use plasticity.PairSTDP"),
    (lambda: neuron.BatchNormTT1d, "it is nn.PerStep"),
    (lambda: nn.reset_net, "nothing: a call without a state starts at rest"),
]


@pytest.mark.parametrize(("call", "message"), CALLS, ids=[message[:50] for _, message in CALLS])
def test_an_error_names_the_way(call, message):
    with pytest.raises((TypeError, ValueError, AttributeError), match=message):
        call()


@pytest.mark.parametrize("norm_input", [True, False])
def test_lif_of_sinabs(norm_input):
    layers = pytest.importorskip("sinabs.layers")
    spike = importlib.import_module("sinabs.activation").SingleSpike
    x = torch.rand(40, 3, 5, generator=torch.Generator().manual_seed(0)) * (8 if norm_input else 1)

    def theirs(kind, x, **more):
        with torch.no_grad():
            return kind(spike_fn=spike, **more)(x.transpose(0, 1)).transpose(0, 1)

    decay = beta_of(10.0, 1)
    out, _ = LIF(1 / (1 - decay), v_reset=None, decay_input=norm_input)(x)
    assert torch.equal(out, theirs(layers.LIF, x, tau_mem=10.0, norm_input=norm_input)) and out.any()
    assert torch.equal(IF(v_reset=None)(x / 8)[0], theirs(layers.IAF, x / 8))
    if not norm_input:
        alpha, weak = math.exp(-1 / 5), 0.06 * x
        out, _ = Synaptic(alpha, decay, reset_delay=False)(alpha * weak)
        assert torch.equal(out, theirs(layers.LIF, weak, tau_mem=10.0, tau_syn=5.0, norm_input=False)) and out.any()


def test_spyx_tells_each_spike_of_leaky_one_step_later():
    x = 1.5 * torch.rand(40, 3, 5, generator=torch.Generator().manual_seed(0))
    ours, theirs = Leaky(0.9)(x)[0], SpikeFirst(surrogate=surrogate.ATan())(x)[0]
    assert torch.equal(ours[:-1], theirs[1:]) and ours.any() and not theirs[0].any()
