"""Timing takes turns and quotes medians; the floors are the bytes that have to be moved."""

import pytest
import torch

from snnkit.bench.floor import bytes_per_neuron_step
from snnkit.measure import timing


class ScriptedClock:
    """Gives the times it was told, whatever runs; each function is called as a clock has to."""

    name = "script"

    def __init__(self, seconds):
        self.seconds_of, self.asked = seconds, []

    def seconds(self, function, calls=1):
        name = function()
        self.asked.append((name, calls))
        return self.seconds_of[name].pop(0), 0.5


def test_contestants_take_turns():
    clock = ScriptedClock({"a": [1.0] * 5, "b": [1.0] * 5})
    timing.race({"a": lambda: "a", "b": lambda: "b"}, repeats=3, warmup=2, clock=clock)
    assert [name for name, _ in clock.asked] == ["a", "b"] * 5


def test_the_median_and_the_spread_leave_the_warm_up_out():
    clock = ScriptedClock({"a": [99.0, 5.0, 1.0, 3.0, 2.0, 4.0]})
    (result,) = timing.race({"a": lambda: "a"}, repeats=5, warmup=1, clock=clock).values()
    assert result.median == 3.0
    assert result.spread == pytest.approx((1.4, 4.6))
    assert result.host == 0.5 and result.calls == 1


def test_short_functions_are_called_more_often_within_a_measurement():
    clock = ScriptedClock({"short": [1e-4] * 4, "tiny": [1e-9] * 4, "long": [1.0] * 4})
    contestants = {name: (lambda name=name: name) for name in ("short", "tiny", "long")}
    results = timing.race(contestants, repeats=3, warmup=1, clock=clock)
    assert {name: result.calls for name, result in results.items()} == {"short": 10, "tiny": 50, "long": 1}
    assert clock.asked[3:6] == [("short", 10), ("tiny", 50), ("long", 1)]


def test_the_hosts_clock_gives_the_mean_of_the_calls():
    called = []
    work, host = timing.HostClock().seconds(lambda: called.append(1), calls=7)
    assert len(called) == 7 and work == host > 0


@pytest.mark.parametrize(
    ("numbers", "says"), [({"repeats": 2}, "repeats must be at least 3"), ({"warmup": 0}, "warmup")]
)
def test_too_few_rounds(numbers, says):
    with pytest.raises(ValueError, match=says):
        timing.race({"a": lambda: None}, **numbers)


def test_a_first_call_gives_its_result():
    seconds, result = timing.first_call(lambda: "made", torch.device("cpu"))
    assert seconds > 0 and result == "made"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_device_events_see_the_work_that_the_host_does_not_wait_for():
    x = torch.rand(2**26, device="cuda")
    clock = timing.clock_for(x.device)
    clock.seconds(lambda: x.sin_())
    work, _ = clock.seconds(lambda: x.sin_(), calls=3)
    assert work > 2 * x.nbytes / 20e12  # no card moves 20 TB/s


@pytest.mark.parametrize(
    ("mode", "dtype", "out", "expected"),
    [
        ("inference", torch.float32, None, 8),
        ("inference", torch.bfloat16, None, 4),
        ("inference", torch.float32, torch.uint8, 5),
        ("inference", torch.float16, torch.uint8, 3),
        ("training", torch.float32, None, 20),
        ("training", torch.bfloat16, None, 10),
    ],
)
def test_floors(mode, dtype, out, expected):
    assert bytes_per_neuron_step(mode, dtype, out) == expected


def test_an_unknown_mode_has_no_floor():
    with pytest.raises(ValueError, match="mode must be one of 'inference', 'training', but it is 'both'"):
        bytes_per_neuron_step("both", torch.float32)
