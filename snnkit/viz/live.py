"""Watch a training run: a panel of curves that grows with every epoch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .display import show
from .environment import live
from .learning import training_curves


class LivePanel:
    """Loss, accuracy and firing rates while ``train.fit`` runs: ``train.fit(…, on_epoch=LivePanel(10))``.

    In JupyterLab and on Colab the panel is updated in place. A headless run draws nothing until the last epoch, and
    then one figure. Call ``finish()`` after a run that may have been stopped early; it does no harm otherwise.

    Args:
        total_epochs: how many there will be; the axes run to the end from the start.
        layers: name to index of the modules of an ``nn.Sequential`` whose firing rates to follow, e.g.
            {"hidden": 1, "output": 3}. Without it the history's output rate is shown.
        probe: [T, B, …], the encoded input on which the layers' rates are measured after each epoch.

    Raises:
        ValueError: total_epochs is not a positive whole number, or only one of ``layers`` and ``probe`` is given.
    """

    def __init__(self, total_epochs: int, layers: Mapping[str, int] | None = None, probe: Any = None) -> None:
        if not isinstance(total_epochs, int) or isinstance(total_epochs, bool) or total_epochs < 1:
            raise ValueError(f"total_epochs must be a whole number above 0, not {total_epochs!r}")
        if (layers is None) != (probe is None):
            raise ValueError("layers and probe belong together: give both or neither")
        self.total_epochs = total_epochs
        self.layers = dict(layers or {})
        self.probe = probe
        self.rates: dict[str, list[float]] = {name: [] for name in self.layers}
        self.figure: Any = None
        self._view: Any = None
        self._shown = False

    def __call__(self, history: Any, model: Any = None) -> None:
        """After an epoch: what ``train.fit`` hands to ``on_epoch``."""
        if self.layers:
            self._measure(model)
        series = history.to_dict() if hasattr(history, "to_dict") else dict(history)
        done = len(series.get("train_loss", ()))
        title = f"Training: epoch {done} of {self.total_epochs}"
        if self.layers:
            series = {key: value for key, value in series.items() if key != "output_rate"} | {"rates": self.rates}
        self.figure = training_curves(series, epochs=self.total_epochs, title=title)
        if live():
            self._update()
        elif done >= self.total_epochs:
            self.finish()

    def finish(self) -> None:
        """Show the final figure, unless it stands there already."""
        if self._shown or self.figure is None:
            return
        self._shown = True
        show(self.figure)

    def _update(self) -> None:
        from IPython.display import display

        from .views import view_of

        if self._view is None:
            self._view = view_of(self.figure)
            self._shown = True
            display(self._view.widget)
        else:
            self._view.update(self.figure)

    def _measure(self, model: Any) -> None:
        import torch

        modules = len(list(model.children()))
        for name, index in self.layers.items():
            if not -modules <= index < modules:
                raise ValueError(f"layers[{name!r}] must be an index into the model's {modules} modules, not {index!r}")
        training = model.training
        model.eval()
        try:
            with torch.no_grad():
                device = next((p.device for p in model.parameters()), self.probe.device)
                outputs = model.record(self.probe.to(device)).layers
        finally:
            model.train(training)
        for name, index in self.layers.items():
            self.rates[name].append(float(outputs[index].float().mean()))
