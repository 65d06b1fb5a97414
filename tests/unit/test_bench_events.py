"""The benchmark of event data: its second way to the frames, its numbers and its table."""

import pytest
import torch
from click.testing import CliRunner

from snnkit.bench import events as bench
from snnkit.bench.events_command import events as command
from snnkit.data.events import to_frames
from snnkit.measure.timing import Timing


@pytest.mark.parametrize("steps", [1, 7, 40])
def test_two_ways_to_the_same_frames(steps):
    recording = bench.random_recording(3000, (5, 9), seed=steps)
    assert recording.size == (5, 9) and recording.duration == 1_000_000 and len(recording) == 3000
    assert torch.equal(bench.by_bincount(recording, steps), to_frames(recording, steps=steps))


def test_a_rate_is_events_per_median_second():
    pace = bench.Pace("frames", 3_000_000, Timing(0.25, (0.2, 0.5), 0.25, 1))
    assert pace.rate == pytest.approx(12.0)
    assert bench.table([pace]).splitlines()[-1] == "| frames | 12.0 | 250.00 | 200.00 to 500.00 |"


def test_results_that_differ_are_not_timed(monkeypatch):
    monkeypatch.setattr(bench, "to_frames", lambda recording, steps: torch.zeros(1))
    with pytest.raises(AssertionError, match="disagree"):
        bench.paces(100, (4, 4), 2, 3)


def test_the_command():
    threads = torch.get_num_threads()
    try:
        done = CliRunner().invoke(command, ["--events", "500", "--side", "8", "--steps", "3", "--repeats", "3"])
    finally:
        torch.set_num_threads(threads)
    assert done.exit_code == 0, done.output
    assert "500 events, 8 × 8 pixels" in done.output
    for name in ("to_frames, windows of time", "time_surface", "voxel_grid"):
        assert f"| {name} | " in done.output
    assert CliRunner().invoke(command, ["--events", "0"]).exit_code == 2
