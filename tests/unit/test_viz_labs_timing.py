import plotly.graph_objects as go
import pytest
from click.testing import CliRunner

from snnkit.cli.bench import explorers
from snnkit.viz import labs
from snnkit.viz.labs import Lab
from snnkit.viz.labs import lab as timing

pytest.importorskip("ipywidgets")


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])
    return now


@pytest.fixture
def lab(clock):
    """Ten milliseconds at gain 1, half a second at gain 2; the first call pays another second."""
    paid = []

    def figure(gain=1, flip=False):
        clock[0] += 0.5 if gain == 2 else 0.01
        if gain not in paid:
            clock[0] += 1.0
            paid.append(gain)
        return go.Figure(go.Scatter(y=[0, gain])).update_layout(title={"text": str(flip)})

    return Lab("some_lab", "Some lab", figure, {"gain": (0, 2), "flip": False}, "")


def test_every_setting_is_timed_without_what_is_paid_once(lab):
    times = timing.time_updates(lab)
    assert times.tried == 5
    assert times.first == pytest.approx(1.01)
    assert times.median == pytest.approx(0.01)
    assert times.worst == pytest.approx(0.5)
    assert (times.slowest, times.over) == ("gain = 2", 1)


def test_the_table_marks_what_is_slow(lab):
    text = timing.update_table([timing.time_updates(lab)])
    assert "some_lab" in text and "500.0" in text
    assert "gain = 2" in text and "over 100 ms: 1 of 5 settings" in text


def test_the_command(lab, monkeypatch):
    monkeypatch.setattr(labs, "LABS", (lab,))
    done = CliRunner().invoke(explorers, [])
    assert done.exit_code == 0 and "some_lab" in done.output
    done = CliRunner().invoke(explorers, ["other_lab"])
    assert done.exit_code == 2 and "must be one of some_lab, but it is 'other_lab'" in done.output
