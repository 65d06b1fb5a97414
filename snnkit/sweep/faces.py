"""How a sweep is shown while it goes on: a live table in a terminal, a line for each run elsewhere, or nothing."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .folder import Ended
from .manifest import Manifest
from .plan import Run
from .problems import ManifestError
from .recording import show as told

if TYPE_CHECKING:
    from rich.table import Table

FACES = ("auto", "table", "lines", "none")
_LAST = 12  # runs that have ended in the live table
_EVERY = 4.0  # times a second that it is drawn


class Face:
    """Shows nothing. `started` is called in the threads of the workers, the rest where the sweep was called."""

    def __init__(self, manifest: Manifest, workers: int) -> None:
        self.manifest, self.workers = manifest, workers
        self.todo, self.done, self.failed = 0, 0, 0
        self.spent = 0.0  # seconds of runs

    @contextlib.contextmanager
    def shown(self, todo: Sequence[Run], skipped: Sequence[Ended]) -> Iterator[None]:
        """While the block runs. `skipped`: runs that have ended before."""
        self.todo = len(todo)
        yield

    def started(self, run: Run) -> None:
        """A worker has taken the run."""

    def ended(self, run: Ended) -> None:
        """It has ended, and is on disk."""
        self.done += 1
        self.failed += run.status != "ok"
        self.spent += run.seconds

    def given(self, parameters: Mapping[str, Any]) -> str:
        """The parameters in which runs differ."""
        names = self.manifest.varied or tuple(parameters)
        return "  ".join(f"{name}={told(parameters[name])}" for name in names)

    def left(self) -> str:
        """Time that is left, by the runs so far."""
        if not 0 < self.done < self.todo:
            return ""
        seconds = self.spent / self.done * (self.todo - self.done) / self.workers
        return f"about {seconds:.0f} s left" if seconds < 120 else f"about {seconds / 60:.0f} min left"


def outcome(run: Ended) -> str:
    """What became of a run: its results, or its error."""
    if run.status != "ok":
        return run.error or "failed"
    return "  ".join(f"{name} {told(value)}" for name, value in run.metrics.items())


class Lines(Face):
    """A line for each run that ends, for logs and notebooks. `echo`: takes a line."""

    def __init__(self, manifest: Manifest, workers: int, echo: Callable[[str], object] = print) -> None:
        super().__init__(manifest, workers)
        self.echo = echo

    @contextlib.contextmanager
    def shown(self, todo: Sequence[Run], skipped: Sequence[Ended]) -> Iterator[None]:
        with super().shown(todo, skipped):
            failed = sum(run.status != "ok" for run in skipped)
            before = f", {len(skipped)} done before" if skipped else ""
            before += f" ({failed} of them failed, and are done again only with retry)" if failed else ""
            at_once = f"; {min(self.workers, len(todo))} at a time" if len(todo) > 1 else ""
            self.echo(f"{len(todo)} runs to do{before}{at_once}")
            yield

    def ended(self, run: Ended) -> None:
        super().ended(run)
        place = f"{self.done:>{len(str(self.todo))}}/{self.todo}"
        self.echo(f"{place}  {run.status:<6}  {run.seconds:6.1f} s  {self.given(run.parameters)}  {outcome(run)}")


class Live(Face):
    """A table that is drawn anew: what runs, what has ended last, how much is left."""

    def __init__(self, manifest: Manifest, workers: int) -> None:
        super().__init__(manifest, workers)
        self._running: dict[str, tuple[Run, float]] = {}
        self._last: deque[Ended] = deque(maxlen=_LAST)
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def shown(self, todo: Sequence[Run], skipped: Sequence[Ended]) -> Iterator[None]:
        import rich.live

        self._skipped = len(skipped)
        with super().shown(todo, skipped):
            self._last.extend(skipped)
            with rich.live.Live(get_renderable=self.table, refresh_per_second=_EVERY):
                yield

    def started(self, run: Run) -> None:
        with self._lock:
            self._running[run.id] = (run, time.monotonic())

    def ended(self, run: Ended) -> None:
        with self._lock:
            super().ended(run)
            self._running.pop(run.run, None)
            self._last.append(run)

    def table(self) -> Table:
        """As it stands now."""
        from rich import box
        from rich.markup import escape
        from rich.table import Table

        with self._lock:
            last, running = list(self._last), list(self._running.values())
        names = self.manifest.varied or tuple(self.manifest.parameters)
        metrics = list(dict.fromkeys(name for run in last for name in run.metrics))
        title = f"{self.manifest.notebook.name}: {self.done} of {self.todo} runs"
        title += f", {self.failed} failed" if self.failed else ""
        title += f", {self._skipped} done before" if self._skipped else ""
        made = Table(title=escape(title), caption=escape(self.left()), box=box.SIMPLE_HEAD, title_justify="left")
        for name in ("status", *names, *metrics, "s"):
            made.add_column(escape(name), no_wrap=True, justify="left" if name == "status" else "right")
        made.add_column("", overflow="ellipsis", no_wrap=True)
        for run in last:
            failed = run.status != "ok"
            cells = [told(run.parameters.get(n, "")) for n in names] + [told(run.metrics.get(n, "")) for n in metrics]
            row = [run.status, *cells, f"{run.seconds:.1f}", (run.error or "") if failed else ""]
            made.add_row(*map(escape, row), style="red" if failed else None)
        now = time.monotonic()
        for one, since in running:
            cells = [told(one.parameters.get(n, "")) for n in names] + [""] * len(metrics)
            made.add_row(*map(escape, ["running", *cells, f"{now - since:.0f}", ""]), style="bold")
        return made


def choose(show: str, manifest: Manifest, workers: int) -> Face:
    """The face that `show` means; for "auto" the live table where the output is a terminal. Raises ManifestError."""
    if show not in FACES:
        raise ManifestError(f"show must be one of {', '.join(FACES)}, was {show!r}")
    if show == "table" or (show == "auto" and sys.stdout.isatty()):
        return Live(manifest, workers)
    return Face(manifest, workers) if show == "none" else Lines(manifest, workers)
