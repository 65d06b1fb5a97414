"""A form that writes a batch script: fields on top, the explained script below, anew with each change."""

from __future__ import annotations

import html
from typing import Any

from snnkit.train import slurm

from . import theme
from .environment import live
from .slurm_table import sbatch_table

COMMAND = "snnkit train workshop --checkpoint workshop.pt --every 100"

# The fields of the form: attribute of the request, label, and what it takes.
_NUMBERS = (
    ("nodes", "nodes", 1),
    ("gpus_per_node", "GPUs per node", 0),
    ("cpus_per_task", "cores per process", 1),
    ("signal_seconds", "seconds to save in", 1),
)
_TEXTS = (
    ("time", "time limit"),
    ("partition", "partition"),
    ("account", "account"),
    ("memory", "memory per node"),
    ("venv", "virtual environment"),
    ("container", "container"),
)
_MOST = 100_000


class SbatchForm:
    """What ``sbatch_form`` gives: a form in a live notebook, else the script with its explanation.

    Attributes:
        request: what the fields say, the last time that it made sense.
        table: its script, explained.
        text: the script.
    """

    def __init__(self, request: slurm.Request) -> None:
        self.request = request
        self.table = sbatch_table(request)
        self.fields: dict[str, Any] = {}

    @property
    def text(self) -> str:
        return self.table.text

    def __repr__(self) -> str:
        return repr(self.table)

    def _ipython_display_(self) -> None:
        from IPython.display import display

        display(self.widget() if live() else self.table)

    def widget(self) -> Any:
        """The form, as an ipywidgets box."""
        import ipywidgets

        wide = {"description_width": "initial"}
        self.fields = {
            "command": ipywidgets.Text(
                value=str(self.request.command), layout=ipywidgets.Layout(width="98%"), continuous_update=False
            )
        }
        for name, _, least in _NUMBERS:
            self.fields[name] = ipywidgets.BoundedIntText(value=getattr(self.request, name), min=least, max=_MOST)
        for name, _ in _TEXTS:
            self.fields[name] = ipywidgets.Text(value=str(getattr(self.request, name) or ""), continuous_update=False)
        self.fields["requeue"] = ipywidgets.Checkbox(value=self.request.requeue, indent=False)
        labels = {name: label for name, label, *_ in (*_NUMBERS, *_TEXTS)}
        for name, field in self.fields.items():
            field.description = labels.get(name, name)
            field.style = wide
            field.observe(self._changed, names="value")
        self.told = ipywidgets.HTML()
        self.view = ipywidgets.HTML(value=self.table._repr_html_())
        rows = ipywidgets.Layout(display="flex", flex_flow="row wrap")
        rest = [field for name, field in self.fields.items() if name != "command"]
        return ipywidgets.VBox([self.fields["command"], ipywidgets.Box(rest, layout=rows), self.told, self.view])

    def _changed(self, _: Any) -> None:
        """Write the script anew; where the values are refused, say why and leave the last one."""
        values = {name: field.value for name, field in self.fields.items()}
        values |= {name: values[name].strip() or None for name, _ in _TEXTS if name != "time"}
        try:
            self.request = _request({**_others(self.request), **values})
        except (ValueError, TypeError) as error:
            said = html.escape(str(error))
            self.told.value = f'<div style="color:{theme.VERMILION}" role="alert"><b>✗</b> {said}</div>'
            return
        self.told.value = ""
        self.table = sbatch_table(self.request, before=self.text)
        self.view.value = self.table._repr_html_()


def sbatch_form(command: str = COMMAND, **values: Any) -> SbatchForm:
    """A form for a batch script that explains each line, and marks those that a change has changed.

    Without a person in front of it (SNNKIT_HEADLESS=1, or no ipywidgets) the explained script is shown instead.
    ``form.text`` is the script as it stands.

    Args:
        command: what each process runs, as typed in a shell.
        values: of ``slurm.Request``, to begin with.

    Raises:
        ValueError, TypeError: as ``slurm.Request``.
    """
    if not isinstance(command, str):
        raise TypeError(f"command must be a text, as typed in a shell; got {command!r}")
    return SbatchForm(_request({"command": command, **values}))


def _request(values: dict[str, Any]) -> slurm.Request:
    return slurm.Request(**values)


def _others(request: slurm.Request) -> dict[str, Any]:
    """What the form has no fields for."""
    names = ("tasks_per_node", "signal", "name", "output", "workdir", "modules", "address_suffix", "environment")
    return {name: getattr(request, name) for name in names}
