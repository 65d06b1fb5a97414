"""The sandbox of a check: prints are bounded, changes in place are seen, and time limits leave timers as they were."""

import hashlib
import signal
import time

import numpy as np
import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from snnkit.course.sandbox import BYTES, OutOfTime, Prints, fingerprint, run

posix = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="signals with a timer are POSIX's")

# --- time -------------------------------------------------------------------------------------------------------------


def _spin():
    while True:
        pass


def _swallow():
    while True:
        try:  # noqa: SIM105
            time.sleep(600)
        except Exception:
            pass


def _cleans_up():
    try:
        time.sleep(600)
    finally:
        time.sleep(600)


@posix
@pytest.mark.parametrize("work", [_spin, _swallow, _cleans_up, lambda: time.sleep(600)])
def test_code_ends_when_its_time_is_over_and_timers_are_as_before(work):
    handler = signal.getsignal(signal.SIGALRM)
    trial = run(work, 0.1, Prints())
    assert isinstance(trial.error, OutOfTime) and 0.1 <= trial.seconds < 5
    assert signal.getsignal(signal.SIGALRM) is handler and signal.getitimer(signal.ITIMER_REAL) == (0, 0)


@posix
def test_one_long_operation_ends_late_and_says_how_late():
    trial = run(lambda: hashlib.pbkdf2_hmac("sha256", b"", b"", 3_000_000), 0.05, Prints())
    assert isinstance(trial.error, OutOfTime) and trial.seconds > 0.3


@posix
def test_a_timer_of_others_goes_on():
    heard = []
    before = signal.signal(signal.SIGALRM, lambda *_: heard.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        assert run(lambda: time.sleep(0.05), 10, Prints()).error is None
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 0.3
        time.sleep(0.4)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert heard == [1]


def test_without_a_limit_it_takes_what_it_takes():
    assert run(lambda: time.sleep(0.01), None, Prints()).error is None


# --- prints -----------------------------------------------------------------------------------------------------------


def test_what_fits_is_shown_as_it_is():
    prints = Prints()
    assert prints.text() == ""
    print("a", 1, file=prints)
    print("b", end="", file=prints)
    assert prints.text() == "a 1\nb"


def test_lines_beyond_the_first_are_counted():
    prints = Prints()
    for n in range(Prints.LINES + 1234):
        print(n, file=prints)
    assert prints.text().splitlines() == [*map(str, range(Prints.LINES)), "… and 1,234 more lines"]
    one = Prints()
    one.write("x\n" * (Prints.LINES + 1))
    assert one.text().endswith("… and 1 more line")


def test_one_line_without_end_is_cut():
    prints = Prints()
    for _ in range(10_000):
        prints.write("x" * 100)
    assert prints.text() == "x" * Prints.CHARACTERS + "\n…"


def test_it_is_a_stream_of_text():
    prints = Prints()
    assert prints.writable() and not prints.isatty()
    with pytest.raises(TypeError, match="must be str"):
        prints.write(b"bytes")


# --- changes in place -------------------------------------------------------------------------------------------------


def _set_item(x):
    x[0] = 5


def _behind(x):
    x.numpy()[0] = 5


CHANGES = {
    "in place": (lambda: torch.zeros(3), lambda x: x.add_(1)),
    "in place, to the same value": (lambda: torch.zeros(3), lambda x: x.mul_(1)),
    "an element": (lambda: torch.zeros(3), _set_item),
    "through numpy": (lambda: torch.zeros(3), _behind),
    "through data": (lambda: torch.zeros(3), lambda x: x.data.fill_(2)),
    "in inference mode": (lambda: torch.inference_mode()(torch.zeros)(3), lambda x: torch.inference_mode()(x.fill_)(2)),
    "a parameter": (lambda: torch.nn.Parameter(torch.zeros(3)), lambda x: torch.no_grad()(x.fill_)(2)),
    "an expanded tensor": (lambda: torch.zeros(3, 1).expand(3, 4), lambda x: x.data[0, 0:1].numpy().fill(1)),
    "a large tensor": (lambda: torch.zeros(BYTES), lambda x: x.add_(1)),
    "an array": (lambda: np.zeros(3), _set_item),
    "a list": (lambda: [1, 2], _set_item),
    "a list's order": (lambda: [2, 1], lambda x: x.sort()),
    "a dict": (lambda: {"a": 1}, lambda x: x.update(b=2)),
    "a set": (lambda: {1}, lambda x: x.add(2)),
    "a tensor in a list in a dict": (lambda: {"a": [torch.zeros(2)]}, lambda x: x["a"][0].add_(1)),
    "an object replaced": (lambda: [object()], lambda x: x.__setitem__(0, object())),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_seen(name):
    make, change = CHANGES[name]
    value = make()
    before = fingerprint(value)
    assert fingerprint(value) == before
    change(value)
    assert fingerprint(value) != before


def test_reading_changes_nothing():
    x = torch.rand(4, requires_grad=True)
    values = [x, float("nan"), "text", {"m": torch.nn.Linear(2, 2)}, torch.zeros(2).to_sparse(), torch.zeros(0)]
    before = fingerprint(values)
    (x * 2).sum().backward()
    values[3]["m"](torch.zeros(2)).sum().backward()
    assert fingerprint(values) == before


def test_a_list_that_holds_itself():
    value: list = [1]
    value.append(value)
    assert fingerprint(value) == fingerprint(value)


def test_a_trace_of_what_is_computed_stays_as_it_was():
    def plain(x):
        return x * 2 + 1

    def watched(x):
        before = fingerprint(x)
        result = plain(x)
        assert fingerprint(x) == before
        return result

    for mode in ("real", "fake"):
        traces = [make_fx(function, tracing_mode=mode)(torch.rand(3)).code for function in (plain, watched)]
        assert traces[0] == traces[1]
    assert torch.equal(torch.func.vmap(watched)(torch.ones(2, 3)), torch.full((2, 3), 3.0))
    assert torch.equal(torch.func.grad(lambda x: watched(x).sum())(torch.ones(3)), torch.full((3,), 2.0))
