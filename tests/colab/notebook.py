"""A notebook executed by Colab's kernel, with nbclient in the place of Colab's page; its widgets can be played with."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionComplete
from nbclient.util import run_sync

from snnkit.lab.tools.notebook_client import Problem, errors_in, problem_of

STUB = Path(__file__).parent / "stub"
# Colab's kernel has its own package loaded before the first cell.
LAUNCH = "import google.colab, ipykernel.kernelapp as app; app.launch_new_instance()"
VIEW = "application/vnd.jupyter.widget-view+json"
NOT_ON_COLAB = ("SNNKIT_HEADLESS", "MPLBACKEND", "VIRTUAL_ENV", "PYTHONHOME")


class Colab(NotebookClient):
    """Runs the cells of one notebook and knows its widgets; use it within ``with colab.kernel():``.

    Args:
        path: the notebook; it is not changed.
        python: interpreter of the kernel.
        folder: an empty one, where the kernel works.
    """

    def __init__(self, path: Path, python: Path, folder: Path, **options: Any) -> None:
        argv = [str(python), "-c", LAUNCH, "-f", "{connection_file}"]
        spec = {"argv": argv, "display_name": "", "language": "python"}
        (folder / "kernels" / "colab").mkdir(parents=True)
        (folder / "kernels" / "colab" / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
        (folder / "content").mkdir()
        specs = KernelSpecManager(kernel_dirs=[str(folder / "kernels")], ensure_native_kernel=False)
        self._sockets = tempfile.TemporaryDirectory()  # a port may be taken by another kernel that starts
        sockets = {"transport": "ipc", "ip": f"{self._sockets.name}/kernel"}
        manager = AsyncKernelManager(kernel_name="colab", kernel_spec_manager=specs, **sockets)
        super().__init__(nbformat.read(path, as_version=4), km=manager, kernel_name="colab", **options)
        self.errors: list[Problem] = []
        self._folder = folder

    @contextmanager
    def kernel(self) -> Iterator[None]:
        env = {name: value for name, value in os.environ.items() if name not in NOT_ON_COLAB}
        env |= {
            "COLAB_RELEASE_TAG": "release-colab_20260819-060057_RC00",
            "PYTHONPATH": str(STUB),
            "SNNKIT_PROGRESS": str(self._folder / "progress.json"),
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        }
        content = str(self._folder / "content")
        with (
            (self._folder / "log").open("wb") as log,
            self.setup_kernel(env=env, cwd=content, stdout=log, stderr=log),
        ):
            yield

    def run_all(self) -> None:
        """Every cell in turn. An exception in one ends it, as Colab's Run all does."""
        for index, cell in enumerate(self.nb.cells):
            self.execute_cell(cell, index)

    def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
        if msg["msg_type"] == "error":
            self.errors.append(problem_of(cell_index, msg["content"]))
        return super().process_message(msg, cell, cell_index)

    def problems(self) -> list[Problem]:
        """Errors anywhere: raised in cells and callbacks, written by threads, swallowed by Output widgets."""
        return [*self.errors, *errors_in(self.nb, self.widget_state.values())]

    def models(self, cell: int) -> dict[str, dict[str, Any]]:
        """The widgets that cell ``cell`` displays, with all that is inside them: their states by model."""
        bundles = [output.get("data", {}) for output in self.nb.cells[cell].outputs]
        views = [bundle[VIEW]["model_id"] for bundle in bundles if VIEW in bundle]
        found: dict[str, dict[str, Any]] = {}
        while views:
            model = views.pop()
            if model not in found:
                found[model] = self.widget_state[model]
                views += _references(found[model])
        return found

    def value(self, model: str) -> Any:
        """What a widget shows now."""
        return self.widget_state[model]["value"]

    def move(self, model: str, state: dict[str, Any]) -> None:
        """Set a control as a person does, who needs no cell for it: ``state`` is what the page then sends."""
        data = {"method": "update", "state": state, "buffer_paths": []}
        self.kc.shell_channel.send(self.kc.session.msg("comm_msg", {"comm_id": model, "data": data}))

    def wait(self, condition: Callable[[], bool], cell: int, seconds: float) -> bool:
        """Take the kernel's messages, as outputs of cell ``cell``, until ``condition()``; False if that never came."""
        deadline = time.monotonic() + seconds
        while not condition() and time.monotonic() < deadline:
            try:
                message = run_sync(self.kc.iopub_channel.get_msg)(timeout=0.2)
                self.process_message(message, self.nb.cells[cell], cell)
            except (Empty, CellExecutionComplete):
                continue
        return condition()


def _references(state: Any) -> list[str]:
    if isinstance(state, str):
        return [state.removeprefix("IPY_MODEL_")] if state.startswith("IPY_MODEL_") else []
    inside = state.values() if isinstance(state, dict) else state if isinstance(state, list) else ()
    return [model for one in inside for model in _references(one)]
