"""How SLURM writes times and signals."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass

MINUTE, HOUR, DAY = 60, 3600, 86400

TIMES = "minutes, M:SS, H:MM:SS, D-H, D-H:MM or D-H:MM:SS"

# sbatch's own formats: https://slurm.schedmd.com/sbatch.html#OPT_time
_TIME = (
    (re.compile(r"(\d+)"), (MINUTE,)),
    (re.compile(r"(\d+):(\d+)"), (MINUTE, 1)),
    (re.compile(r"(\d+):(\d+):(\d+)"), (HOUR, MINUTE, 1)),
    (re.compile(r"(\d+)-(\d+)"), (DAY, HOUR)),
    (re.compile(r"(\d+)-(\d+):(\d+)"), (DAY, HOUR, MINUTE)),
    (re.compile(r"(\d+)-(\d+):(\d+):(\d+)"), (DAY, HOUR, MINUTE, 1)),
)


def seconds(text: str) -> int:
    """The seconds of a time as sbatch reads it; beware that "01:00" is one minute.

    Raises:
        ValueError: the text is in none of sbatch's formats.
    """
    for form, units in _TIME:
        if found := form.fullmatch(text.strip()):
            return sum(int(number) * unit for number, unit in zip(found.groups(), units, strict=True))
    raise ValueError(f"time must be written as {TIMES}; got {text!r}")


def clock(duration: int) -> str:
    """Seconds as H:MM:SS with two digits for the hours, or D-HH:MM:SS from a day on."""
    days, rest = divmod(duration, DAY)
    text = f"{rest // HOUR:02}:{rest % HOUR // MINUTE:02}:{rest % MINUTE:02}"
    return f"{days}-{text}" if days else text


def words(duration: int) -> str:
    """Seconds in words for a message: "90 seconds", "5 minutes", "1 hour 30 minutes"."""
    if duration < 2 * MINUTE and duration != MINUTE:
        return many(duration, "second")
    parts = [
        many(duration // DAY, "day"),
        many(duration % DAY // HOUR, "hour"),
        many(duration % HOUR // MINUTE, "minute"),
        many(duration % MINUTE, "second"),
    ]
    return " ".join(part for part in parts if not part.startswith("0 "))


def many(count: int, unit: str) -> str:
    """A number with its noun: "1 process", "2 processes"."""
    plural = f"{unit}es" if unit.endswith("s") else f"{unit}s"
    return f"{count} {unit if count == 1 else plural}"


@dataclass(frozen=True)
class EarlySignal:
    """The signal that ``--signal`` asks for.

    Attributes:
        name: with its SIG, as "SIGUSR1".
        seconds: how long before the time limit.
        batch: whether only the shell of the script gets it ("B:"), and not the tasks of srun.
    """

    name: str
    seconds: int
    batch: bool = False


def early_signal(text: str) -> EarlySignal:
    """Read ``[B:|R:]SIGNAL[@SECONDS]``; without seconds sbatch takes 60.

    Raises:
        ValueError: it is not of that form, or there is no such signal.
    """
    found = re.fullmatch(r"(?:([BR]{1,2}):)?([A-Za-z0-9]+)(?:@(\d+))?", text.strip())
    if found is None:
        raise ValueError(f"signal must be written as SIGUSR1@90: a signal and seconds; got {text!r}")
    return EarlySignal(signal_name(found[2]), int(found[3] or 60), "B" in (found[1] or ""))


def signal_name(text: str) -> str:
    """The full name of a signal: "USR1", "SIGUSR1" and "10" (on Linux) are all "SIGUSR1".

    Raises:
        ValueError: there is no such signal.
    """
    try:
        if text.isdigit():
            return signal.Signals(int(text)).name
        name = text.upper()
        return signal.Signals[name if name.startswith("SIG") else f"SIG{name}"].name
    except (KeyError, ValueError):
        raise ValueError(f"signal must be the name of a signal, such as 'SIGUSR1'; got {text!r}") from None
