"""Ends the ranks of a launch whose launcher was killed. A program of its own, run by its path; imports nothing of ours.

Its standard input is a pipe that only the launcher holds. Each line is the process group of a rank that has begun, or
with a minus before it, one that has ended. The end of the input means that the launcher is gone, however it went: what
is left is asked to end, and after the seconds given as the first argument it is killed.
"""

import contextlib
import os
import signal
import sys
import time


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        group = int(line)
        if group > 0:
            groups.add(group)
        else:
            groups.discard(-group)
    if not groups:
        return
    end(groups, signal.SIGTERM)
    until = time.monotonic() + float(sys.argv[1])
    while groups and time.monotonic() < until:
        time.sleep(0.05)
        groups = {group for group in groups if runs(group)}
    end(groups, signal.SIGKILL)


def runs(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except OSError:
        return False
    return True


def end(groups: set[int], number: int) -> None:
    for group in groups:
        with contextlib.suppress(OSError):
            os.killpg(group, number)


if __name__ == "__main__":
    main()
