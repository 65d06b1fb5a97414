"""A form that writes a batch script: fields on top, the explained script below, updated with each change."""

from __future__ import annotations

import dataclasses
import html
from typing import Any

from snnkit import checks
from snnkit.train import slurm

from . import theme
from .frontend import live
from .listings import sbatch_table

COMMAND = "snnkit train workshop --checkpoint workshop.pt --every 100"

# Fields: attribute of the request to its label.
_NUMBERS = {
    "nodes": "nodes",
    "gpus_per_node": "GPUs per node",
    "cpus_per_task": "cores per process",
    "signal_seconds": "seconds to save in",
}
_TEXTS = {
    "time": "time limit",
    "partition": "partition",
    "account": "account",
    "memory": "memory per node",
    "venv": "virtual environment",
}


class SbatchForm:
    """The result of ``sbatch_form``: a form in a live notebook, else the script with its explanation.

    Attributes:
        request: the latest valid values of the fields.
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

        value = vars(self.request)
        command = ipywidgets.Text(value=str(value["command"]), layout={"width": "98%"}, continuous_update=False)
        numbers = {
            name: ipywidgets.BoundedIntText(value=value[name], min=name != "gpus_per_node", max=100_000)
            for name in _NUMBERS
        }
        texts = {name: ipywidgets.Text(value=str(value[name] or ""), continuous_update=False) for name in _TEXTS}
        requeue = ipywidgets.Checkbox(value=value["requeue"], indent=False)
        self.fields = {"command": command, **numbers, **texts, "requeue": requeue}
        for name, field in self.fields.items():
            field.description = (_NUMBERS | _TEXTS).get(name, name)
            field.style = {"description_width": "initial"}
            field.observe(self._changed, names="value")
        self.message = ipywidgets.HTML()
        self.view = ipywidgets.HTML(value=self.table._repr_html_())
        rest = ipywidgets.Box([*numbers.values(), *texts.values(), requeue], layout={"flex_flow": "row wrap"})
        return ipywidgets.VBox([command, rest, self.message, self.view])

    def _changed(self, _: Any) -> None:
        """Write the script again; where the values are refused, say why and leave the last one."""
        values = {name: field.value for name, field in self.fields.items()}
        values |= {name: values[name].strip() or None for name in _TEXTS if name != "time"}
        try:
            self.request = dataclasses.replace(self.request, **values)
        except (ValueError, TypeError) as error:
            text = html.escape(str(error))
            self.message.value = f'<div style="color:{theme.VERMILION}" role="alert"><b>✗</b> {text}</div>'
            return
        self.message.value = ""
        self.table = sbatch_table(self.request, before=self.text)
        self.view.value = self.table._repr_html_()


def sbatch_form(command: str = COMMAND, **values: Any) -> SbatchForm:
    """A form for a batch script that explains each line, and marks those that a change has changed.

    Without a viewer (SNNKIT_HEADLESS=1, or no ipywidgets) the explained script is shown instead. ``form.text`` is the
    current script.

    Args:
        command: what each process runs, as typed in a shell.
        values: of ``slurm.Request``, to begin with.

    Raises:
        ValueError, TypeError: as ``slurm.Request``.
    """
    checks.instance("command", command, str, "a text, as typed in a shell")
    return SbatchForm(slurm.Request(command=command, **values))
