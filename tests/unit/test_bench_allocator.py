"""The switch that keeps freed memory: asks for what glibc understands, and is harmless elsewhere."""

import ctypes
import platform
import subprocess
import sys

import pytest

from snnkit.measure.memory import MMAP_THRESHOLD, TOP_PAD, TRIM_THRESHOLD, keep_freed_memory


class Library:
    """A C library whose mallopt refuses some parameters."""

    def __init__(self, refused=()):
        self.refused, self.asked = refused, {}

    def mallopt(self, parameter, value):
        self.asked[parameter] = value
        return int(parameter not in self.refused)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt(3) is glibc's")
def test_glibc_takes_the_settings():
    # In a process of its own, as they can't be taken back.
    program = "from snnkit.measure.memory import keep_freed_memory; assert keep_freed_memory()"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(("refused", "expected"), [((), True), ((MMAP_THRESHOLD,), False), ((TOP_PAD,), False)])
def test_all_three_are_asked_for_and_a_refusal_is_told(monkeypatch, refused, expected):
    library = Library(refused)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    assert keep_freed_memory() is expected
    assert set(library.asked) == {MMAP_THRESHOLD, TRIM_THRESHOLD, TOP_PAD}
    assert all(0 < value < 2**31 for value in library.asked.values())


@pytest.mark.parametrize("error", [TypeError, OSError, AttributeError])
def test_a_machine_without_it(monkeypatch, error):
    def none(name):
        raise error("no such library")

    monkeypatch.setattr(ctypes, "CDLL", none)
    assert keep_freed_memory() is False
