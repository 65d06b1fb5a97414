"""What a rule finds wrong."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One mistake in a script.

    Attributes:
        line: its number, from 1 on; None: something is missing that is on no line.
        what: what is wrong, and what would happen.
        fix: what to write instead.
        rule: a short name of the rule that was broken, such as "port".
    """

    line: int | None
    what: str
    fix: str
    rule: str

    def __str__(self) -> str:
        where = "script" if self.line is None else f"line {self.line}"
        return f"{where}: {self.what} Fix: {self.fix}"
