"""Every argument error is one sentence: what the argument must be, and what it is."""

from __future__ import annotations

import importlib
import inspect
import math
import os
import pkgutil
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch.nn.utils import prune, spectral_norm, weight_norm

import snnkit
from snnkit import checks
from snnkit.data.events import Events
from snnkit.measure.timing import Clock, HostClock
from snnkit.tables import text_table


class Wordless:
    def __repr__(self):
        raise RuntimeError


META = "x must be a number, but it is tensor(..., device='meta', size=())"
OF_CSR = "x must be a tensor, but it is sparse, a Tensor of shape [2, 2]"
LAZY, NONE = torch.nn.Sequential(torch.nn.LazyLinear(2)), "has none yet (a lazy layer, or the meta device)"


@pytest.mark.parametrize(
    ("check", "error", "message"),
    [
        (lambda: checks.number("tau", -1, above=0), ValueError, "tau must be greater than 0, but it is -1"),
        (lambda: checks.number("x", "1"), TypeError, "x must be a number, but it is '1'"),
        (lambda: checks.number("x", True), TypeError, "x must be a number, but it is True"),
        (lambda: checks.number("x", math.nan), ValueError, "x must be finite, but it is nan"),
        (lambda: checks.number("x", math.nan, finite=False), ValueError, "x must be finite, but it is nan"),
        (lambda: checks.number("x", 2, at_most=1.5), ValueError, "x must be at most 1.5, but it is 2"),
        (lambda: checks.number("x", 1, below=1), ValueError, "x must be less than 1, but it is 1"),
        (lambda: checks.number("x", np.zeros(2)), TypeError, "x must be a number, but it is a ndarray of shape [2]"),
        (lambda: checks.integer("n", 3.0), TypeError, "n must be an integer, but it is 3.0"),
        (lambda: checks.integer("n", 0, at_least=1), ValueError, "n must be at least 1, but it is 0"),
        (lambda: checks.integer("n", 9, at_most=8), ValueError, "n must be at most 8, but it is 9"),
        (lambda: checks.number("x", Wordless()), TypeError, "x must be a number, but it is a Wordless"),
        (lambda: checks.number("x", torch.empty((), device="meta")), TypeError, META),
        (lambda: checks.number("x", -1e39), ValueError, "x must be at least -3.4e+38, but it is -1e+39"),
        (lambda: checks.number("x", 1e-320, above=0), ValueError, "x must be at least 1.2e-38, but it is 1e-320"),
        (lambda: checks.integer("n", 2**63), ValueError, f"n must be at most {2**63 - 1}, but it is {2**63}"),
        (lambda: checks.counts(a=1, b=0), ValueError, "b must be at least 1, but it is 0"),
        (lambda: checks.flag("amp", 1), TypeError, "amp must be True or False, but it is 1"),
        (lambda: checks.choice("mode", "c", ("a", "b")), ValueError, "mode must be one of 'a', 'b', but it is 'c'"),
        (lambda: checks.instance("x", 1, torch.Tensor, "a tensor"), TypeError, "x must be a tensor, but it is 1"),
        (lambda: checks.instance("x", torch.eye(2).to_sparse_csr(), torch.Tensor, "a tensor"), TypeError, OF_CSR),
        (lambda: checks.values("x", torch.empty(2, device="meta")), ValueError, f"x must have values, but it {NONE}"),
        (lambda: checks.values("net", LAZY), ValueError, f"net must have values, but 0.weight {NONE}"),
        (lambda: checks.function("f", 1), TypeError, "f must be a function, but it is 1"),
        (lambda: checks.mapping("by", [1], "a to b"), TypeError, "by must be a dict of a to b, but it is [1]"),
    ],
)
@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_the_sentence(check, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        check()


def test_good_values_come_back_in_their_plain_type():
    assert checks.number("x", torch.tensor(0.5)) == 0.5
    assert type(checks.number("x", np.float32(0.5))) is float and type(checks.integer("n", np.int64(3))) is int
    assert checks.number("x", math.inf, finite=False) == math.inf
    assert checks.choice("mode", "a", ("a", None)) == "a" and checks.choice("mode", None, ("a", None)) is None
    assert checks.function("f", abs) is abs and checks.flag("amp", False) is False


def without_end():
    value = []
    value.append(value)
    return value


def laughs():
    value = ["x"] * 9
    for _ in range(30):  # its repr would have 9 ** 31 words
        value = {"a": [value] * 9}
    return value


@pytest.mark.parametrize("value", ["9" * 10_000, b"9" * 10**8, laughs(), without_end(), [10**9999, 1], (laughs(),)])
def test_a_huge_value_is_quoted_in_part(value):
    with pytest.raises(TypeError) as caught:
        checks.number("x", value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("value", [[], (), {}, (1,), {1: [2, "a'b"], "c": (None,)}, {3}, set(), b"x", 1.5, True])
def test_a_small_value_is_quoted_as_python_writes_it(value):
    assert checks.shown(value) == repr(value)


def test_numbers_beyond_all_floats():
    with pytest.raises(ValueError, match="x must be finite, but it is an int of 33220 bits"):
        checks.number("x", 10**10_000, finite=False)
    with pytest.raises(ValueError, match="n must be at most 3, but it is an int of 33220 bits"):
        checks.integer("n", 10**10_000, at_most=3)


@pytest.mark.parametrize("linux", [True, False])
def test_what_memory_does_not_hold_is_refused(linux, monkeypatch):
    if not linux:
        monkeypatch.setattr(checks, "open", lambda path, **_: os.stat("/none"), raising=False)
    checks.fits("steps", 10, 1000)
    with pytest.raises(ValueError, match=r"^steps must be at most \d+, which is what memory holds here, but it is 1"):
        checks.fits("steps", 10**6, 10**12)


# Results, and what others call.
EXCEPT = {"Accelerated", "History", "LayerCount", "Plan", "QuantizedLayer", "Scorecard", "Layer", "HoldoutNet"}
EXCEPT |= {"AtomicCheckpointIO", "Neuron", "plan_for"}
INSIDE = ["data.events", "train.lit", "train.recipes", "train.slurm", "lab.hardware.roofline"]
INSIDE = [f"snnkit.{room}" for room in INSIDE]


def taking_flags():
    """(callable, name of a flag) of every room; by name, as some are in several."""
    homes = (snnkit, snnkit.lab)
    rooms = [room.name for home in homes for room in pkgutil.iter_modules(home.__path__, f"{home.__name__}.")]
    found = {}
    for module in map(importlib.import_module, {*rooms, *INSIDE} - {"snnkit.checks", "snnkit.lab.cli"}):
        for name in getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")]):
            value = getattr(module, name)
            known = name in EXCEPT or (inspect.isclass(value) and issubclass(value, Exception))
            ours = not known and str(getattr(value, "__module__", None)).startswith("snnkit")
            functions = [value] if ours and (inspect.isfunction(value) or inspect.isclass(value)) else []
            if inspect.isclass(value) and functions:
                functions += [m for key, m in vars(value).items() if key[0] != "_" and inspect.isfunction(m)]
            for function in functions:
                for parameter in inspect.signature(function).parameters.values():
                    if isinstance(parameter.default, bool) or str(parameter.annotation).startswith("bool"):
                        found[f"{function.__qualname__}({parameter.name})"] = function, parameter.name
    return found


def test_every_flag_is_true_or_false_and_checked_first():
    found = taking_flags()
    assert len(found) > 40
    for function, flag in found.values():
        if inspect.isgeneratorfunction(inspect.unwrap(function)):  # a context: nothing runs before it is entered
            continue
        required = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
        given = {p.name: None for p in required if p.kind is not p.VAR_KEYWORD}
        with pytest.raises(
            TypeError,
            match=rf"^{flag}( of \w+)? must be (True or False|True, False or None|True, False or 'auto'), .*'no'$",
        ):
            function(**{**given, flag: "no"})


ZEROS = torch.zeros(2)
ONE = torch.zeros(1, dtype=torch.int64)
EVENTS = Events(ONE, ONE, ONE, ONE > 0, (1, 1))


@checks.arguments
def compared(
    x: torch.Tensor = ZEROS,
    n: int = 1,
    *,
    rate: float | None = None,
    on: bool = False,
    net: torch.nn.Module | None = None,
    path: str | os.PathLike[str] = "",
    names: Sequence[str] = (),
    size: tuple[int, int] = (1, 1),
    by: Mapping[str, float] | None = None,
    paths: Iterable[Path] = (),
    edges: Sequence[tuple[str, str]] = (),
    mode: Literal["a", "b"] = "a",
    answer: Literal["a"] | None = None,
    figure: somewhere.Figure | somewhere.graph.Figure[int] | None = None,  # noqa: F821
    call: Callable[[int], int] = abs,
    anything: dict[str, Any] | None = None,
    unknown: somewhere.NotImported | None = None,  # noqa: F821  for type checkers only
    clock: Clock | None = None,
    sample: tuple[Events, int | torch.Tensor] | None = None,
    many: Sequence[int | torch.Tensor] = (),
    all_events: Sequence[Events] = (),
) -> int:
    return n


@checks.arguments
@dataclass(frozen=True)
class Compared:
    n: int
    names: Sequence[str] = ()


@pytest.mark.parametrize(
    ("argument", "bad", "message"),
    [
        ("x", None, "x must be a torch.Tensor, but it is None"),
        ("n", 1.0, "n must be an integer, but it is 1.0"),
        ("n", True, "n must be an integer, but it is True"),
        ("rate", "1", "rate must be a number or None, but it is '1'"),
        ("on", 0, "on must be True or False, but it is 0"),
        ("net", torch.nn.ReLU, "net must be a torch.nn.Module or None, but it is <class"),
        ("path", 1, "path must be a path, but it is 1"),
        ("names", "ab", "names must be a list or tuple of texts, but it is 'ab'"),
        ("names", ["a", 1], "names[1] must be a text, but it is 1"),
        ("size", (1, 2, 3), "size must be a pair of integers, but it is (1, 2, 3)"),
        ("size", (1, "a"), "size[1] must be an integer, but it is 'a'"),
        ("size", ("a",), "size must be a pair of integers, but it is ('a',)"),
        ("by", [], "by must be a dict of texts to numbers or None, but it is []"),
        ("by", {1: 1}, "each key of by must be a text, but it is 1"),
        ("by", {"a": "b"}, "by['a'] must be a number, but it is 'b'"),
        ("paths", 1, "paths must be an iterable of Paths, but it is 1"),
        ("edges", 1, "edges must be a list or tuple of pairs of texts, but it is 1"),
        ("sample", (1, 2, 3), "sample must be a pair (an Events, an integer or a torch.Tensor) or None, but"),
        ("many", 1, "many must be a list or tuple of integers or torch.Tensors, but it is 1"),
        ("all_events", EVENTS, "all_events must be a list or tuple of Events, but it is an Events of shape [2, 1, 1]"),
        ("mode", 3, "mode must be one of 'a', 'b', but it is 3"),
        ("answer", {1: 2}, "answer must be 'a' or None, but it is {1: 2}"),
        ("figure", 1, "figure must be a Figure or a Figure or None, but it is 1"),
        ("call", 1, "call must be a function, but it is 1"),
        ("unknown", 1, "unknown must be a NotImported or None, but it is 1"),
        ("clock", 1, "clock must be a Clock or None, but it is 1"),
    ],
)
def test_arguments_are_compared_with_their_annotations(argument, bad, message):
    with pytest.raises(TypeError, match=f"^{re.escape(message)}"):
        compared(**{argument: bad})


def test_what_an_annotation_allows_or_can_not_say():
    allowed = {"rate": torch.tensor(0.5), "net": torch.nn.ReLU(), "path": Path(), "size": (1, 2)}
    assert compared(torch.ones(1), np.int64(3), **allowed) == 3
    assert compared(by={"a": 1}, paths=iter([1]), anything={"a": object()}, names=["a"]) == 1
    assert compared(unknown=type("NotImported", (), {})(), clock=HostClock()) == 1
    with pytest.raises(TypeError, match="unexpected keyword argument 'other'"):
        compared(other=1)
    with pytest.raises(TypeError, match=r"^n of Compared must be an integer, but it is 'a'$"):
        replace(Compared(1), n="a")


def test_columns_are_as_wide_as_their_widest_cell_and_empty_ones_are_left_out():
    table = partial(text_table, ("n", "no", "x", "y"), [("a", "", "1", ""), ("bcd", "", "23", "")])
    assert table() == ["n     x", "a     1", "bcd  23"] and table(always=1) == table()
    assert table(always=2) == ["n    no   x", "a         1", "bcd      23"]


def pruned(layer):
    prune.random_unstructured(layer, "weight", 0.5)


def around_itself(layer):
    layer.add_module("inside", torch.nn.Sequential(layer))


def deep(layer):
    for _ in range(1500):
        layer.inside = torch.nn.Identity()
        layer = layer.inside


# What is done to the first layer of a network, and what is said about it.
NOT_COPIED = {
    "pruned": (
        pruned,
        r"model at 0 must have plain weights, but its weight is pruned: call torch.nn.utils.prune.rem",
    ),
    "weight_norm": (weight_norm, r"its weight is under weight_norm: call torch.nn.utils.remove_weight_norm\(layer"),
    "spectral_norm": (spectral_norm, r"its weight is under spectral_norm: call torch.nn.utils.remove_spectral_norm\("),
    "product": (
        lambda layer: setattr(layer, "last", layer.weight * 2),
        "as its last is part of a graph",
    ),
    "itself": (around_itself, "no module of model must hold itself, but a Linear does"),
    "deep": (deep, "modules of model must be nested at most 50 deep"),
}
USES = {
    "copyable": lambda net, folder: checks.copyable("model", net),
    "to_nir": lambda net, folder: snnkit.interop.to_nir(net, torch.zeros(1, 1, 4), 1e-3),
    "quantize": lambda net, folder: snnkit.quantize.quantize(net),
    "export": lambda net, folder: snnkit.export.export(net, torch.zeros(1, 1, 4)),
    "challenge": lambda net, folder: snnkit.lab.challenge.score(net),
    "ipu": lambda net, folder: snnkit.lab.hardware.ipu.check(net, torch.zeros(2, 1, 4)),
    "roofline": lambda net, folder: snnkit.lab.hardware.roofline.count(
        net, torch.zeros(3, 2, 4), torch.zeros(2, dtype=torch.long), snnkit.loss.count_cross_entropy
    ),
    "layer_costs": lambda net, folder: snnkit.lab.viz.layer_costs(net, torch.zeros(3, 2, 4)),
    "page": lambda net, folder: snnkit.lab.pages.page(net, folder / "net.html", steps=3, size=(1, 1, 4)),
}


@pytest.mark.filterwarnings("ignore:.*(weight_norm|spectral_norm).*:FutureWarning")
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", NOT_COPIED)
def test_networks_that_can_not_be_copied_or_compute_their_weights(kind, use, tmp_path):
    net = snnkit.nn.Sequential(torch.nn.Linear(4, 3), snnkit.neuron.Leaky(0.9, reset_mechanism="zero", engine="eager"))
    change, message = NOT_COPIED[kind]
    change(net[0])
    if use in ("page", "challenge", "roofline", "layer_costs"):
        message = message.replace("model", "net")
    if use == "to_nir":
        pytest.importorskip("nir")
    with pytest.raises(ValueError, match=message):
        USES[use](net, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore:.*(weight_norm|spectral_norm).*:FutureWarning")
def test_the_cures_work():
    layers = [torch.nn.Linear(4, 3) for _ in range(3)]
    pruned(layers[0])
    prune.remove(layers[0], "weight")
    torch.nn.utils.remove_weight_norm(weight_norm(layers[1]), "weight")
    torch.nn.utils.remove_spectral_norm(spectral_norm(layers[2]), "weight")
    shared = torch.nn.Sequential(*layers)
    checks.copyable("model", torch.nn.Sequential(shared, shared))
