"""What quantizing did, layer by layer."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["QuantizedLayer", "Report"]


@dataclass(frozen=True)
class QuantizedLayer:
    """What became of one layer with weights.

    Attributes:
        name, kind: as in ``model.named_modules()``, and its class.
        done: whether its weight is int8 now.
        note: what was done, or why not.
        bytes_before, bytes_after: of its own parameters and buffers.
    """

    name: str
    kind: str
    done: bool
    note: str
    bytes_before: int
    bytes_after: int


@dataclass(frozen=True)
class Report:
    """What ``quantize`` did; printed, it is a table.

    Attributes:
        layers: every layer that holds parameters or buffers, in order.
    """

    layers: tuple[QuantizedLayer, ...]

    @property
    def bytes_before(self) -> int:
        return sum(layer.bytes_before for layer in self.layers)

    @property
    def bytes_after(self) -> int:
        return sum(layer.bytes_after for layer in self.layers)

    def __str__(self) -> str:
        rows = [("layer", "kind", "bytes before", "after", "")]
        for one in self.layers:
            rows.append((one.name, one.kind, f"{one.bytes_before:,}", f"{one.bytes_after:,}", one.note))
        rows.append(("", "all", f"{self.bytes_before:,}", f"{self.bytes_after:,}", self._ratio()))
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        return "\n".join(
            f"{name:<{widths[0]}}  {kind:<{widths[1]}}  {before:>{widths[2]}}  {after:>{widths[3]}}  {note}".rstrip()
            for name, kind, before, after, note in rows
        )

    def _ratio(self) -> str:
        return f"{self.bytes_before / max(self.bytes_after, 1):.2f} times smaller"
