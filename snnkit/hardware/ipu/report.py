"""What the check of a model found: what is wrong, where, and how to mend it."""

from __future__ import annotations

import html
from dataclasses import dataclass, field

from .places import Place

# The ten rules, in the order in which they are checked, and what each asks.
RULES = {
    "batch": "every input's first dimension is the batch, fixed, and divides into the micro-batches of one call",
    "static graph": "the forward pass runs without reading a value: it is recorded once, on tensors without values",
    "state in place": "parameters and buffers stay the tensors they were; what is carried on is copied into them",
    "supported operations": "every operation of the forward pass is one that PopTorch 3.4 documents",
    "no autograd.Function": "no backward pass of one's own lies between the loss and the parameters",
    "gradients": "differentiating the recorded forward pass gives each parameter the gradient it has here",
    "one loss": "the model holds exactly one loss, a scalar, and nothing trained on comes after it",
    "dtypes": "nothing rests on float64, on integers beyond 32 bits, or on types that an IPU has not",
    "same trace": "every call runs the same operations, whatever comes in and however often it was called",
    "memory": "weights, optimiser and saved activations fit into the memory of the tiles",
}


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        rule: a key of ``RULES``.
        severity: "error" (PopTorch would refuse it, or train something else) or "warning".
        what: what is wrong.
        mend: how to mend it.
        module: the module's path and class, as in "net.1 (Leaky)"; empty if it is no single module.
        where: "file.py:12: the line itself"; empty if it is no single line.
    """

    rule: str
    severity: str
    what: str
    mend: str
    module: str = ""
    where: str = ""

    def __str__(self) -> str:
        lines = [f"{self.severity}: {self.rule}: {self.what}"]
        place = "  ".join(part for part in (self.module, self.where) if part)
        if place:
            lines.append(f"    where: {place}")
        lines.append(f"    mend:  {self.mend}")
        return "\n".join(lines)


def at(place: Place, rule: str, what: str, mend: str, severity: str = "error") -> Finding:
    """A finding at a line of the model."""
    return Finding(rule, severity, what, mend, place.module, place.where)


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes on the chip in a training step, estimated: what is certain to be there, evenly spread over the tiles.

    Not in it, as it isn't known without the compiler: code, buffers of the exchange, temporaries of an operation.

    Attributes:
        weights, gradients, optimizer, accumulation, activations, transfer: bytes. The activations are those that
            autograd saves for the backward pass of one micro-batch; transfer is what comes in and goes out of it.
        tiles, tile_memory: the chip's number of tiles, and the bytes of each.
    """

    weights: int
    gradients: int
    optimizer: int
    accumulation: int
    activations: int
    transfer: int
    tiles: int
    tile_memory: int

    @property
    def total(self) -> int:
        """Bytes in all."""
        parts = (self.weights, self.gradients, self.optimizer, self.accumulation, self.activations, self.transfer)
        return sum(parts)

    @property
    def per_tile(self) -> float:
        """Bytes per tile, if evenly spread."""
        return self.total / self.tiles

    @property
    def share(self) -> float:
        """Of the chip's memory."""
        return self.per_tile / self.tile_memory

    def __str__(self) -> str:
        parts = ("weights", "gradients", "optimizer", "accumulation", "activations", "transfer")
        shares = ", ".join(f"{part} {_megabytes(getattr(self, part))}" for part in parts)
        return (
            f"{_megabytes(self.total)} of {_megabytes(self.tiles * self.tile_memory)} (estimated, {self.share:.1%}), "
            f"{self.per_tile / 1024:.1f} of {self.tile_memory / 1024:.0f} KiB per tile: {shares}"
        )


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.3g} MB"


class NotReady(ValueError):
    """A model breaks rules of an IPU; the message lists them."""


@dataclass
class Report:
    """Whether a model is fit for an IPU, as far as that can be known without one.

    Attributes:
        findings: errors first.
        rules: of each rule "ok", "warning", "error", or "not reached" where an error before it was in the way.
        memory: the estimate; None if it was not reached.
    """

    findings: list[Finding]
    rules: dict[str, str]
    memory: MemoryEstimate | None = field(default=None)

    @property
    def ready(self) -> bool:
        """Whether no rule is broken and all were reached."""
        return all(verdict in ("ok", "warning") for verdict in self.rules.values())

    @property
    def errors(self) -> list[Finding]:
        """What must be mended."""
        return [finding for finding in self.findings if finding.severity == "error"]

    @property
    def warnings(self) -> list[Finding]:
        """What should be looked at."""
        return [finding for finding in self.findings if finding.severity == "warning"]

    def raise_for_errors(self) -> None:
        """ValueError with all errors, if there are any."""
        if not self.ready:
            raise NotReady(str(self))

    def __str__(self) -> str:
        count = f"{len(self.errors)} error{'s' * (len(self.errors) != 1)}"
        lines = ["IPU-ready, by the rules of PopTorch 3.4" if self.ready else f"not IPU-ready: {count}"]
        lines += [str(finding) for finding in self.findings]
        lines.append("rules: " + ", ".join(f"{rule}: {verdict}" for rule, verdict in self.rules.items()))
        if self.memory is not None:
            lines.append(f"memory: {self.memory}")
        lines.append("(checked without an IPU and without PopTorch; never run on one)")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        marks = {"ok": "✓", "warning": "!", "error": "✗", "not reached": "–"}
        rows = []
        for rule, verdict in self.rules.items():
            found = [finding for finding in self.findings if finding.rule == rule]
            texts = [_cell(finding) for finding in found] or [html.escape(RULES[rule])]
            rows.append(
                f"<tr><td>{marks[verdict]}</td><td style='white-space:nowrap;text-align:left'>{rule}</td>"
                f"<td>{verdict}</td><td style='text-align:left'>{'<br>'.join(texts)}</td></tr>"
            )
        title = "IPU-ready, by the rules of PopTorch 3.4" if self.ready else "Not IPU-ready"
        memory = "" if self.memory is None else f"<p>Memory: {html.escape(str(self.memory))}</p>"
        note = "<p><small>Checked without an IPU and without PopTorch; never run on one.</small></p>"
        return f"<b>{title}</b><table>{''.join(rows)}</table>{memory}{note}"


def _cell(finding: Finding) -> str:
    place = "  ".join(part for part in (finding.module, finding.where) if part)
    where = f"<br><code>{html.escape(place)}</code>" if place else ""
    return f"{html.escape(finding.what)}{where}<br><i>{html.escape(finding.mend)}</i>"
