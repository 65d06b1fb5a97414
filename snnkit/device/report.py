"""What ``optimize_memory_usage`` did, as a table."""

from __future__ import annotations

from dataclasses import dataclass

from ..tables import html_table, size_of
from .measure import Taken

_HEAD = ("saves bytes", "held", "at the peak", "", "")


@dataclass(frozen=True)
class Item:
    """One way to save memory.

    Attributes:
        name: what it is.
        saved: bytes less that are held between forward and backward; None: not known without a sample.
        peak: bytes less at the peak of a training step; None where nothing was measured.
        source: of ``saved``: "measured", "predicted" from shapes, or "unknown".
        note: what it costs, or why it does nothing here.
    """

    name: str
    saved: int | None
    peak: int | None
    source: str
    note: str = ""

    def cells(self) -> tuple[str, ...]:
        sizes = ["?" if size is None else size_of(size) for size in (self.saved, self.peak)]
        return (self.name, *sizes, self.source, self.note)


@dataclass(frozen=True)
class MemoryReport:
    """What ``optimize_memory_usage`` did; prints as a table.

    Attributes:
        items: in the order in which they were switched on; each counts what it saves beyond those before it.
        before, after: bytes of a training step beyond weights and input, as measured; None without a sample.
    """

    items: tuple[Item, ...]
    before: Taken | None = None
    after: Taken | None = None

    @property
    def saved(self) -> int | None:
        """Bytes less that are held for backward, of all items where that is known; None if there is none."""
        known = [item.saved for item in self.items if item.saved is not None]
        return sum(known) if known else None

    def __repr__(self) -> str:
        rows = [_HEAD, *(item.cells() for item in self.items)]
        width = max(len(row[0]) for row in rows)
        lines = [f"{a.ljust(width)}  {b:>11}  {c:>11}  {d:9}  {e}".rstrip() for a, b, c, d, e in rows]
        return "\n".join([*lines, *self._totals()])

    def _totals(self) -> list[str]:
        if self.before is None or self.after is None:
            unknown = any(item.source == "unknown" for item in self.items)
            return ["give it an input, optimize_memory_usage(model, x), and each line is measured"] if unknown else []
        factor = self.before.peak / max(self.after.peak, 1)
        return [
            f"peak of a training step: {size_of(self.before.peak)} → {size_of(self.after.peak)} "
            f"({factor:.2f} times less); held for backward: {size_of(self.before.held)} → {size_of(self.after.held)}"
        ]

    def _repr_html_(self) -> str:
        return html_table(_HEAD, [item.cells() for item in self.items], self._totals())
