"""Time, memory and traffic: what is counted, and clocks that can be trusted."""

import contextlib
from types import SimpleNamespace

import pytest
import torch

from snnkit import device
from snnkit.device import MemoryTracker, memory_limit, timeline
from snnkit.device.usage import available
from snnkit.engine.page_pool import POOL
from snnkit.measure import Kernel, Traffic, Transfers, peak_of, timing
from snnkit.measure.tracker import left_under_limit


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
    for few in ({"repeats": 2}, {"warmup": 0}):
        with pytest.raises(ValueError, match=f"{next(iter(few))} must be at least"):
            timing.race({"a": lambda: "a"}, clock=clock, **few)


def test_the_median_and_the_spread_leave_the_warm_up_out():
    clock = ScriptedClock({"a": [99.0, 5.0, 1.0, 3.0, 2.0, 4.0]})
    (result,) = timing.race({"a": lambda: "a"}, repeats=5, warmup=1, clock=clock).values()
    assert result.median == 3.0
    assert result.spread == pytest.approx((1.4, 4.6))
    assert result.host == 0.5 and result.calls == 1 and result.rounds == (5.0, 1.0, 3.0, 2.0, 4.0)


def test_short_functions_are_called_more_often_within_a_measurement():
    clock = ScriptedClock({"short": [1e-4] * 4, "tiny": [1e-9] * 4, "long": [1.0] * 4})
    contestants = {name: (lambda name=name: name) for name in ("short", "tiny", "long")}
    results = timing.race(contestants, repeats=3, warmup=1, clock=clock)
    assert {name: result.calls for name, result in results.items()} == {"short": 10, "tiny": 50, "long": 1}
    assert clock.asked[3:6] == [("short", 10), ("tiny", 50), ("long", 1)]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_device_events_see_the_work_that_the_host_does_not_wait_for():
    x = torch.rand(2**26, device="cuda")
    clock = timing.clock_for(x.device)
    clock.seconds(lambda: x.sin_())
    work, _ = clock.seconds(lambda: x.sin_(), calls=3)
    assert work > 2 * x.nbytes / 20e12  # no card moves 20 TB/s


def test_clocks_of_another_gpu_than_the_current_one_see_its_work(monkeypatch):
    device, current, done = torch.device("cuda:1"), [torch.device("cuda:0")], []

    class Event:
        def __init__(self, enable_timing):
            pass

        def record(self):
            done.append(("event", current[-1]))

        def elapsed_time(self, end):
            return 2.0

    @contextlib.contextmanager
    def on(device):
        current.append(device)
        yield
        current.pop()

    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(L2_cache_size=0))
    monkeypatch.setattr(timing.torch, "empty", lambda *sizes, **options: torch.zeros(1))
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "device", on)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device=None: done.append(("wait", device or current[-1])))
    work, _ = timing.clock_for(device).seconds(lambda: None, calls=2)
    assert work == 2e-3 and set(done) == {("event", device), ("wait", device)}
    done.clear()
    timing.ThroughputClock(device).seconds(lambda: None)
    timing.first_call(lambda: None, device)
    assert set(done) == {("wait", device)}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_the_allocator_counts():
    x = torch.rand(64, 1, 2**14, device="cuda")
    assert peak_of(lambda: x.exp().sin(), x.device) == 2 * x.nbytes
    assert 2**20 < available(x.device) < 2**50


def kernels(function, *arguments):
    with Traffic() as seen:
        function(*arguments)
    return seen.kernels


def test_reads_and_writes_of_each_operation():
    x, y = torch.ones(10), torch.ones(10)
    found = kernels(lambda: torch.where((x + y) >= 2.0, x, 0.0))
    assert found[:2] == [Kernel("add", (40, 40), (40,)), Kernel("ge", (40,), (10,))]
    name, reads, writes = found[-1]
    assert (name, sorted(reads)[-2:], writes) == ("where", [10, 40], (40,))
    with Traffic() as seen:
        x * 2.0
    assert seen.bytes == seen.kernels[0].bytes == 80


@pytest.mark.parametrize(
    ("work", "moved"),
    [
        (lambda x: [row[1:] for row in x.view(4, 5).t().unbind(0)] and x.expand(3, 20).detach(), []),  # views
        (torch.zeros_like, [Kernel("zeros_like", (), (80,))]),
        (torch.empty_like, [Kernel("empty_like", (), ())]),
        (lambda x: x.add_(x.view(20)), [Kernel("add_", (80, 80), (80,))]),
        (lambda x: x.zero_(), [Kernel("zero_", (), (80,))]),
    ],
)
def test_what_is_only_read_only_written_or_neither(work, moved):
    assert kernels(work, torch.ones(20)) == moved


ON_META = {"device": "meta"}


@pytest.mark.parametrize(
    ("work", "sizes"),
    [
        (lambda x: x.to("meta"), [48]),
        (lambda x: x[0].expand(10, 4).to("meta"), [160]),  # written out in full
        (lambda x: torch.zeros(10, dtype=torch.uint8).to("meta", torch.float32), [40]),  # converted before it crosses
        (lambda x: torch.empty(12, dtype=torch.uint8, **ON_META).copy_(x.flatten()), [12]),
        (lambda x: torch.empty_like(x).copy_((x + 1).double().clone().to("cpu")), []),
        (lambda x: torch.zeros(3, **ON_META) + 1, []),
    ],
)
def test_what_crosses_to_another_device_is_noted_with_its_bytes(work, sizes):
    x = torch.zeros(3, 4)
    with Transfers() as seen:
        work(x)
    assert (seen.sizes, seen.count, seen.bytes) == (sizes, len(sizes), sum(sizes))


MB = 2**20


def test_what_lives_and_what_lived():
    old = torch.rand(MB // 4)
    with MemoryTracker() as tracker:
        a = torch.zeros(MB // 4)
        view = a[10:].view(-1)
        assert tracker.live == MB  # a view takes nothing
        b = a + old
        assert tracker.live == tracker.peak == 2 * MB
        del a
        assert tracker.live == 2 * MB  # the view holds it
        del view
        assert tracker.live == MB
        old.add_(1)
        del b
    assert (tracker.live, tracker.peak) == (0, 2 * MB)


def test_what_was_there_before_never_counts():
    old = torch.rand(MB)
    with MemoryTracker() as tracker:
        kept = [old[:5], old.view(2, -1).t(), old.detach()]
    assert tracker.live == tracker.peak == 0 and len(kept) == 3


def test_a_tensor_that_grows_in_place():
    with MemoryTracker() as tracker:
        x = torch.empty(0)
        x.resize_(MB)
        x.zero_()
        assert tracker.live == 4 * MB


def test_a_limit_raises_what_a_full_device_raises_and_the_innermost_counts():
    with memory_limit(3 * MB) as tracker:
        kept = torch.zeros(MB // 2)
        assert left_under_limit() == MB
        with pytest.raises(torch.OutOfMemoryError, match=r"tried to allocate 2\.1 MB.*needed 4194304 bytes"):
            torch.zeros(MB // 2)
        assert tracker.live == 2 * MB  # what did not fit is gone
        smaller = torch.zeros(MB // 4)  # and what fits still does
    assert left_under_limit() is None and kept is not smaller
    torch.zeros(MB)
    with memory_limit(100 * MB), memory_limit(MB):
        assert left_under_limit() == MB
        with pytest.raises(torch.OutOfMemoryError):
            torch.zeros(MB)


def test_memory_in_use():
    device.empty_cache("cpu")  # what earlier tests have freed would be used again
    usage = device.get_gpu_memory_usage("cpu")
    assert 2**20 < usage.allocated <= usage.peak < usage.total and 0 < usage.free <= usage.total
    assert "resident" in repr(usage) and "free" in repr(usage)
    kept = torch.ones(64 * MB)
    assert device.get_gpu_memory_usage("cpu").allocated - usage.allocated > 200 * MB and kept.numel()
    del [POOL.empty((8 * MB,), torch.float32).fill_(1)][0]
    assert POOL.free_bytes() >= 32 * MB
    assert "reserved for later calls" in repr(device.explain_memory(torch.nn.Linear(2, 2), torch.rand(1, 2)))
    device.empty_cache("cpu")
    assert POOL.free_bytes() == 0


def test_what_is_made_and_freed_is_seen_in_order():
    x = torch.ones(100)

    def work():
        a = x + 1
        b = a * 2
        del a
        return b.sum()

    # a; a and b; of them b, and a sum of one number.
    assert timeline(work) == [400, 800, 404]
