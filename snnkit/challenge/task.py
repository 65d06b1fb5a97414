"""The task: two bits as spikes, one after the other; which samples, and those that stay hidden until the score."""

from __future__ import annotations

import hashlib

from torch import Tensor

from snnkit.data import xor_in_time

STEPS = 24
CHANNELS = 8
CLASSES = 2

# What a network can rely on: a cue lasts 3 steps, its 4 units fire in each with a probability of 0.8 (9.6 spikes on
# average), the second begins 11 steps after the first, either up to 2 late, and noise adds about 2 spikes.
SETTINGS = {"delay": 8, "units": 4, "cue_steps": 3, "rate": 0.8, "noise": 0.01, "jitter": 2}

SALT = "two bits, one after the other"
HIDDEN_SETS = 4
HIDDEN_SAMPLES = 500  # of each set


def samples(n: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Samples of the challenge: spikes float32 [24, n, 8] (T, B, C) of 0 and 1, and labels int64 [n], 0 or 1.

    Channels 0 … 3 fire for a cue that says 0, channels 4 … 7 for one that says 1; the label is the XOR of both cues.
    The same for the same seed. See ``data.xor_in_time``, which makes them.
    """
    return xor_in_time(n, STEPS, seed=seed, **SETTINGS)


def hidden(salt: str = SALT) -> list[tuple[Tensor, Tensor]]:
    """The samples of the score, made from ``salt``: nobody types these seeds by chance.

    They keep you from fooling yourself, not from cheating: whoever reads this line can make them. An instructor who
    wants more gives a salt of his own when the work is handed in.

    Raises:
        TypeError: ``salt`` is no text.
    """
    if not isinstance(salt, str):
        raise TypeError(f"salt must be a text, but it is {salt!r}")
    return [samples(HIDDEN_SAMPLES, seed=_seed(f"{salt} #{i}")) for i in range(HIDDEN_SETS)]


def mark(salt: str = SALT) -> str:
    """Six letters that tell salts apart and do not give them away: scores with different marks don't compare."""
    return hashlib.sha256(f"mark of {salt}".encode()).hexdigest()[:6]


def _seed(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")
