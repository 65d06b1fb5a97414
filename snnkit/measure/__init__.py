"""Time, memory, traffic, and the machine that a number comes from: what benchmarks and cost models share."""

from snnkit import lazy
from snnkit.measure.machine import commit as commit, cores as cores, processor as processor, provenance as provenance
from snnkit.measure.timing import (
    Clock as Clock,
    DeviceClock as DeviceClock,
    HostClock as HostClock,
    ThroughputClock as ThroughputClock,
    Timing as Timing,
    clock_for as clock_for,
    first_call as first_call,
    race as race,
)
from snnkit.measure.tracker import MemoryTracker as MemoryTracker, memory_limit as memory_limit, peak_of as peak_of
from snnkit.measure.traffic import Kernel as Kernel, Traffic as Traffic, Transfers as Transfers

__getattr__, __dir__, __all__ = lazy.attach(__name__)
