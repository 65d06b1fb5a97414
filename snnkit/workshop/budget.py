"""GPU hours of a room: what a schedule holds connected, times people."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .schedule import Schedule


@dataclass(frozen=True)
class Budget:
    """GPU hours for a room, and GPUs that a shared machine needs.

    Attributes:
        least: hours if GPUs are connected only where the schedule says "on".
        most: hours if they are connected wherever the schedule says "on" or "optional".
    """

    people: int
    least: float
    most: float


def of(schedule: Schedule, people: int) -> Budget:
    """The budget of ``people`` with a GPU each. A connected GPU counts, busy or not: that is how clouds bill."""
    if people < 1:
        raise ValueError(f"people must be at least 1, but it is {people}")
    on, both = schedule.gpu_minutes("on"), schedule.gpu_minutes("on", "optional")
    return Budget(people, people * on / 60, people * both / 60)


def gpus_to_share(people: int, busy: float, memory_gib: float, each_gib: float = 2.0) -> int:
    """GPUs that a room can share if each person computes a share ``busy`` of the time (0 to 1).

    Enough for the mean load at 70 % use, and for everybody's memory: a context and a notebook's tensors, ``each_gib``.
    """
    if people < 1:
        raise ValueError(f"people must be at least 1, but it is {people}")
    if not 0 < busy <= 1:
        raise ValueError(f"busy must be above 0 and at most 1, but it is {busy}")
    if memory_gib < each_gib:
        raise ValueError(f"memory_gib must be at least each_gib, {each_gib}, but it is {memory_gib}")
    load = math.ceil(people * busy / 0.7)
    room = math.ceil(people / math.floor(memory_gib / each_gib))
    return max(load, room)
