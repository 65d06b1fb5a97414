"""Time, memory, traffic, and the machine that a number comes from: what benchmarks and cost models share."""

from snnkit import lazy

from .machine import commit as commit
from .machine import cores as cores
from .machine import processor as processor
from .machine import provenance as provenance
from .timing import Clock as Clock
from .timing import DeviceClock as DeviceClock
from .timing import HostClock as HostClock
from .timing import ThroughputClock as ThroughputClock
from .timing import Timing as Timing
from .timing import clock_for as clock_for
from .timing import first_call as first_call
from .timing import race as race
from .tracker import MemoryTracker as MemoryTracker
from .tracker import memory_limit as memory_limit
from .tracker import peak_of as peak_of
from .traffic import Kernel as Kernel
from .traffic import Traffic as Traffic
from .traffic import Transfers as Transfers

__getattr__, __dir__, __all__ = lazy.attach(__name__)
