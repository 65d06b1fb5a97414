"""Watch a training run: a panel of curves that grows while the network learns."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from snnkit.train.history import History

from ..environment import headless, in_notebook, live
from .curves import COLUMNS, Curves, panel_curves
from .pace import Pace
from .probe import followed, layer_rates
from .standing import Standing, Stopwatch, duration
from .stop import StopRequest
from .trail import Trail

if TYPE_CHECKING:
    from .faces import Face

# Seconds from one to the next at least, and share of the time; a fiftieth in all. A look at the loss waits for an
# accelerator. Longer lines cost an eighth of a new figure, so that curves keep up with the text on slow machines, too.
LOOKS = (0.5, 0.003)
EXTENSIONS = (0.5, 0.007)
DRAWINGS = (1.0, 0.01)
FIRST = 8  # times as long until the first drawing where each is a picture of its own: a short run needs none
_SERIES = tuple(name for names in COLUMNS.values() for name in names if name != "rates")


class LivePanel:
    """Loss, accuracy, firing rates, speed and time left while ``train.fit`` runs, and a button that stops it:

        panel = LivePanel(10)
        train.fit(…, epochs=10, on_epoch=panel, on_batch=panel.on_batch)

    In JupyterLab and on Colab the panel is updated in place, in a terminal it is a table (with rich installed), where
    output goes to a file a line for each epoch. A headless run (SNNKIT_HEADLESS=1) shows one figure, at the end.
    Drawing takes at most a fiftieth of the time, so that large figures and slow machines get fewer of them.

    The button ends the training after the update under way, as Ctrl-C and the notebook's own stop button (■) do:
    ``fit`` returns the history with ``interrupted`` set. Without ``on_batch`` the panel is drawn after each epoch only,
    and the button acts there.

    Args:
        total_epochs: how many there will be. If there are more, the panel learns it when they come.
        layers: name to index of the modules of an ``nn.Sequential`` whose firing rates to follow, e.g.
            {"hidden": 1, "output": 3}. Without it the history's output rate is shown.
        probe: [T, B, …], the encoded input on which the layers' rates are measured after each epoch: a run of the
            network on B samples, which is not counted in the fiftieth. About a hundred are enough.

    Attributes:
        rates: layer name to one rate per epoch, None for epochs that the panel has not seen.
        stopped: whether the button ended the run.

    Raises:
        TypeError: layers is no dict of names to indices, or probe no tensor.
        ValueError: total_epochs is not a positive whole number, only one of ``layers`` and ``probe`` is given, or probe
            is on the device meta or has an empty axis.
    """

    def __init__(self, total_epochs: int, layers: Mapping[str, int] | None = None, probe: Any = None) -> None:
        if not isinstance(total_epochs, int) or isinstance(total_epochs, bool) or total_epochs < 1:
            raise ValueError(f"total_epochs must be a whole number above 0, not {total_epochs!r}")
        if (layers is None) != (probe is None):
            raise ValueError("layers and probe belong together: give both or neither")
        self.total_epochs = total_epochs
        self.layers = {} if layers is None else followed(layers, probe)
        self.probe = probe
        self.rates: dict[str, list[float | None]] = {name: [] for name in self.layers}
        self.stopped = False
        self._series: dict[str, Any] = {}
        self._trail = Trail(tuple(COLUMNS))
        self._stopwatch = Stopwatch(total_epochs)
        self._pace()
        self._stop = StopRequest()
        self._face: Face | None = None  # while a run is under way
        self._began = 0.0
        self._longer = False  # whether this run has gone beyond the epochs that it was said to have

    @property
    def figure(self) -> Any:
        """The curves so far, a plotly Figure; None before there is anything to draw."""
        curves = self._curves()
        return None if curves is None else curves.figure()

    def on_batch(self, update: Any) -> None:
        """After an update: what ``train.fit`` hands to ``on_batch``.

        Raises:
            KeyboardInterrupt: somebody has pressed the button. ``fit`` takes it as the end of the training.
        """
        self.follow(update)
        self._obey()

    on_batch.shows_progress = True  # type: ignore[attr-defined]  # so that fit leaves out its own bar

    def __call__(self, history: Any, model: Any = None) -> None:
        """After an epoch: what ``train.fit`` hands to ``on_epoch``.

        Raises:
            ValueError: as ``record``.
            KeyboardInterrupt: as ``on_batch``, unless this was the last epoch.
        """
        self.record(history, model)
        self._obey()

    def record(self, history: Any, model: Any = None) -> None:
        """After an epoch, for trainers that stop in another way.

        Args:
            history: ``train.History``, or a dict of its series; it may also hold "rates" (see ``training_curves``).
            model: the ``nn.Sequential`` whose layers' rates are followed, if any.

        Raises:
            TypeError: history is neither, or the model can't record its layers.
            ValueError: the history has no epoch, or an index in ``layers`` is none of the model's.
        """
        series = _series(history)
        done = len(series.get("train_loss", ()))
        if not done:
            raise ValueError("history must have a train_loss with at least one epoch")
        if self.layers:
            self._measure(model, done)
            series = {key: value for key, value in series.items() if key != "output_rate"} | {"rates": self.rates}
        self._series = series
        self._reach(done)
        face = self._face or self._begin(each_update=False)
        face.epoch(series)
        if done >= self.total_epochs and not self._longer:
            self.finish()
        else:
            self._draw(face)

    def follow(self, update: Any) -> None:
        """After an update, for trainers that stop in another way: they ask ``stop_asked()``."""
        if self._stopwatch.note(update, begins=self._face is None):
            self.finish()  # the run before this one, if nobody said that it was over
            self._trail.clear()
            self._series = {}
        self._reach(update.epoch + 1)
        if self._face is None:
            standing = self._look(update)
            self._begin(each_update=True).moved(standing)
        elif self._looks.due():
            with self._looks.timed():
                self._face.moved(self._look(update))
            self._draw(self._face)

    def stop_asked(self) -> bool:
        """Whether somebody has pressed the button in this run."""
        return self._stop.asked()

    def finish(self) -> None:
        """The run is over: say so, with the final figure. ``train.fit`` calls it however it ends; twice is no harm."""
        if self._face is None:
            return
        face, self._face = self._face, None
        at = self._stopwatch.standing()
        whole = len(self._series.get("train_loss", ())) >= self.total_epochs and at.update == at.updates
        self.stopped = not whole and self._stop.asked()
        self._stop.end()
        curves = self._curves(over=True)
        face.end(self._ending(whole), None if curves is None else curves.figure())

    def _begin(self, *, each_update: bool) -> Face:
        if not self._longer:
            self._began = time.perf_counter()
        self._stop.begin()
        face = self._face = self._open(each_update)
        self._pace()
        self._drawn = self._curves()
        self._drawings.wait(DRAWINGS[0] * (1 if face.extends else FIRST))  # it has just been drawn
        return face

    def _pace(self) -> None:
        self._looks, self._extensions, self._drawings = Pace(*LOOKS), Pace(*EXTENSIONS), Pace(*DRAWINGS)
        self._drawn: Curves | None = None

    def _open(self, each_update: bool) -> Face:
        if live():
            from .notebook import NotebookFace

            return NotebookFace(self.figure, self._stop, each_update=each_update)
        from .lines import Lines
        from .still import Still
        from .terminal import TerminalTable, interactive

        if headless() or in_notebook():
            return Still()
        return TerminalTable(self.total_epochs) if each_update and interactive() else Lines(self.total_epochs)

    def _reach(self, epoch: int) -> None:
        """A run that is longer than was said ends when its trainer says so: nobody knows which epoch is the last."""
        self._longer = epoch > self.total_epochs or (self._longer and epoch == self.total_epochs)
        self.total_epochs = self._stopwatch.epochs = max(epoch, self.total_epochs)

    def _look(self, update: Any) -> Standing:
        loss, accuracy, rate = (
            None if math.isnan(figure) else figure for figure in (update.loss, update.accuracy, update.output_rate)
        )
        known = {"loss": loss, "accuracy": accuracy, "output rate": rate}
        self._trail.add(update.epoch + (update.batch + 1) / update.batches, known)
        return self._stopwatch.standing(loss, accuracy)

    def _curves(self, *, over: bool = False) -> Curves | None:
        return panel_curves(self._series, self._trail, self.total_epochs, over=over)

    def _draw(self, face: Face) -> None:
        """A new figure where it has other lines or axes, or where lines can't grow; else longer lines."""
        longer, anew = face.extends and self._extensions.due(), face.draws and self._drawings.due()
        if not (longer or anew) or (curves := self._curves()) is None:
            return
        if anew and not (face.extends and curves.extends(self._drawn)):
            with self._drawings.timed():
                face.draw(curves.figure())
            self._drawn = curves
        elif longer:
            with self._extensions.timed():
                face.extend(curves)

    def _obey(self) -> None:
        if self._face is not None and self._stop.asked():
            self.finish()
            raise KeyboardInterrupt("stopped by the button of the panel")

    def _ending(self, whole: bool) -> str:
        done = len(self._series.get("train_loss", ()))
        if whole:
            seconds = duration(time.perf_counter() - self._began)
            return f"Done: {done} epoch{'s' * (done > 1)} in {seconds}."
        at = self._stopwatch.standing()
        where = f"after epoch {done} of {self.total_epochs}"
        if at.update < at.updates:
            where = f"in epoch {at.epoch} of {at.epochs}, after update {at.update} of {at.updates}"
        return f"{'Stopped' if self.stopped else 'Ended early'} {where}. The network keeps what it has learned so far."

    def _measure(self, model: Any, done: int) -> None:
        measured = layer_rates(model, self.layers, self.probe)
        for name, values in self.rates.items():
            del values[done - 1 :]  # of a run before this one
            values.extend([None] * (done - 1 - len(values)))  # epochs before a checkpoint
            values.append(measured[name])


def _series(history: Any) -> dict[str, Any]:
    """The series of a history; TypeError where it is none."""
    # Not History.to_dict, which copies each number of each epoch so far.
    series = vars(history) if isinstance(history, History) else history
    if not isinstance(series, Mapping):
        raise TypeError(f"history must be a train.History or a dict of its series, not {type(history).__name__}")
    for name in _SERIES:
        if not isinstance(values := series.get(name, []), (list, tuple)):
            raise TypeError(f"history[{name!r}] must be a list with a number for each epoch, not {values!r}")
    return {name: list(values) if isinstance(values, list) else values for name, values in series.items()}
