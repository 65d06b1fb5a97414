"""What a notebook records: plain values under plain names, through an output of its own MIME type."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import numpy as np
import pytest
import torch

from snnkit import sweep
from snnkit.sweep import recorded_values


@pytest.fixture
def shown(monkeypatch):
    """The MIME bundles that a notebook would be given."""
    import IPython.display

    bundles = []
    monkeypatch.setattr("IPython.get_ipython", lambda: object())
    monkeypatch.setattr(IPython.display, "display", lambda data, raw: bundles.append(data))
    return bundles


VALUES = {
    "accuracy": (0.97, 0.97),
    "count": (np.int64(3), 3),
    "loss": (torch.tensor(0.5, dtype=torch.bfloat16, requires_grad=True), 0.5),
    "mean": (np.array(2.5), 2.5),
    "dead": (np.bool_(True), True),
    "note": ("fine", "fine"),
    "up": (math.inf, math.inf),
    "down": (torch.tensor(-math.inf), -math.inf),
}


def test_values_arrive_as_plain_python_through_strict_json(shown):
    sweep.record(**{name: given for name, (given, _) in VALUES.items()}, lost=math.nan)
    (bundle,) = shown
    text = json.dumps(bundle, allow_nan=False)
    found = recorded_values.recorded(json.loads(text))
    assert math.isnan(found.pop("lost"))
    assert found == {name: expected for name, (_, expected) in VALUES.items()}
    assert all(type(found[name]) is type(expected) for name, (_, expected) in VALUES.items())
    assert "accuracy 0.97 · count 3 · loss 0.5" in bundle["text/plain"]


NONE = [[1], "x", {"a": {"x": 1}}, {"a": {"float": "b"}}, {"a": [1]}, {"run": 3}]


@pytest.mark.parametrize("data", [{}, *({recorded_values.MIME: one} for one in ("x", *({"values": v} for v in NONE)))])
def test_what_record_has_not_made_is_no_result(data):
    assert recorded_values.recorded(data) == {}


def test_without_a_notebook_the_values_are_printed(capsys, monkeypatch):
    monkeypatch.setattr("IPython.get_ipython", lambda: None)
    sweep.record(accuracy=2 / 3, spikes=812)
    assert capsys.readouterr().out == "accuracy 0.6667 · spikes 812\n"


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([1.0], r"accuracy must be int, float, bool or str, but it is \[1\.0\]"),
        (None, "but it is None"),
        (1j, "but it is 1j"),
        (torch.zeros(2), r"but it is a Tensor of shape \[2\]"),
        (np.zeros((1, 2)), r"but it is a ndarray of shape \[1, 2\]"),
    ],
)
def test_what_is_no_single_value_is_refused(value, says, shown):
    with pytest.raises(TypeError, match=says):
        sweep.record(good=1, accuracy=value)
    assert shown == []


@pytest.mark.parametrize("name", [*recorded_values.RESERVED, "two words", ""])
def test_names_that_every_table_has_are_refused(name, shown):
    with pytest.raises(TypeError, match="at least one name"):
        sweep.record()
    with pytest.raises(ValueError, match=r"can't be recorded: .*run, status, seconds, peak_mb, error"):
        sweep.record(**{name: 1})
    assert shown == []


def test_recording_brings_nothing_heavy_into_a_notebook():
    code = "import sys\nfrom snnkit import sweep\nsweep.record(a=1)\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "snnkit.sweep.recorded_values" in loaded
    assert not loaded & {"torch", "numpy", "polars", "plotly", "papermill", "nbformat", "yaml", "rich", "IPython"}
