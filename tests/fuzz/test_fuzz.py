"""Bad arguments are answered by errors that say so: every public callable, one argument bad at a time."""

import json
import pkgutil
import subprocess
import sys

import pytest

import snnkit

from . import fuzzer, valid_calls

SEED = 17
OBSCURE = 0.01  # of all calls, at most


def fuzzed(calls: int, processes: int) -> dict[str, int]:
    """How many answers were of each kind; what is not fine is printed with the seed."""
    command = [sys.executable, "-m", "tests.fuzz.fuzzer", "--seed", str(SEED), "--calls", str(calls), "--share"]
    shares = [
        subprocess.Popen([*command, f"{rank}/{processes}"], stdout=subprocess.PIPE, text=True)
        for rank in range(processes)
    ]
    total: dict[str, int] = {}
    for share in shares:
        text = share.communicate()[0]
        print(text)
        assert share.returncode == 0
        for kind, count in json.loads(text.splitlines()[-1]).items():
            total[kind] = total.get(kind, 0) + count
    return total


def test_every_public_callable_has_a_valid_call():
    names = dict(valid_calls.callables())
    scopes = {*valid_calls.ROOMS, "*", *(f"{name.rpartition('.')[0]}.*" for name in names)}
    assert len(names) > 400 and not set(valid_calls.table()) - set(names) - scopes
    for name, function in names.items():
        figure = name.rpartition(".")[2] in valid_calls.every_figure.EXAMPLES and name.startswith("viz.figures")
        missing = set(valid_calls.needed(function, name)) - set(valid_calls.sources(name))
        assert figure or not valid_calls.called(name) or not missing, (
            f"{name} has no valid {missing}: see tests/fuzz/valid_calls.py"
        )


def test_every_room_is_fuzzed():
    # Of use to others; the command line has texts of its own.
    inner = {
        "checks",
        "convolution",
        "event_lists",
        "event_products",
        "files",
        "lazy",
        "lab",
        "linear",
        "pooling",
        "tables",
    }
    inner |= {"cli", "web"}
    rooms = {room.name for room in pkgutil.iter_modules([*snnkit.__path__, *snnkit.lab.__path__])}
    assert rooms - inner == {room.partition(".")[0] for room in valid_calls.ROOMS}


def test_some_bad_calls():
    total = fuzzed(40, 1)
    assert not set(total) & {*fuzzer.NEVER, "invalid"}, total
    assert total["clear"] > 15


@pytest.mark.slow
def test_two_thousand_bad_calls():
    total = fuzzed(2000, 2)
    assert not set(total) & {*fuzzer.NEVER, "invalid"}, total
    assert sum(total.values()) > 1960 and total["obscure"] < OBSCURE * sum(total.values()), total
