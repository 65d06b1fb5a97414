"""How long a newcomer waits for the first plot: ``python -m tests.browser.first_plot``.

In a clone of the last commit that is set up by its own Makefile in a temporary folder, which takes minutes and a
package index, with nothing in any cache: from the start of JupyterLab until the slider of the first figure of notebook
01 can be dragged, and until the first explorer with a live figure is drawn.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Locator, sync_playwright

from snnkit.measure import machine

from .conftest import FLAGS, ROOT, chromium
from .notebook import Notebook
from .server import Server

NAME = "01_first_spiking_neuron"


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clone, own, home, temporary = (folder / part for part in ("snnkit", "jupyter", "home", "tmp"))
        for part in (own, home, temporary):
            part.mkdir()
        set_up(clone)
        load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
        print(f"{machine.cores()} cores of {machine.processor()}, load {load}", flush=True)
        # The home holds snnkit's kernels and matplotlib's caches, the folder for temporary files those of Inductor.
        empty = {"HOME": str(home), "TMPDIR": str(temporary), "XDG_CACHE_HOME": str(home / ".cache")}
        began = time.perf_counter()
        server = Server(own, clone / "notebooks", 8890, clone / ".venv" / "bin" / "python", clone, empty)
        try:
            measure(server.url(), began)
        finally:
            server.stop()


def set_up(clone: Path) -> None:
    """Clone the last commit, and ``make setup`` there."""
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    clean = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    subprocess.run(["make", "--silent", "setup", f"PYTHON={base}"], cwd=clone, env=clean, check=True)


def measure(url: str, began: float) -> None:
    """Run All; print the seconds until each plot is there, from ``began`` on."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=[*FLAGS])
        notebook = Notebook(browser.new_page(viewport={"width": 1200, "height": 1000}))
        notebook.open(f"{url}lab/workspaces/{NAME}/tree/{NAME}.ipynb")
        print(f"JupyterLab with notebook 01: {time.perf_counter() - began:.1f} s")
        notebook.start_from(0)
        seen(notebook, "viz.frames(", ".slider-rail-touch-rect")
        print(f"first slider: {time.perf_counter() - began:.1f} s")
        seen(notebook, "viz.explorers.population(", ".headline")
        print(f"first live figure: {time.perf_counter() - began:.1f} s")
        notebook.close()
        browser.close()


def seen(notebook: Notebook, text: str, selector: str) -> Locator:
    """What the cell with ``text`` shows, once it does. JupyterLab scrolls while cells run, so we have to insist."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        found = notebook.outputs(text).locator(selector).first
        if found.is_visible():
            return found
        time.sleep(0.05)
    raise RuntimeError(f"{selector} did not appear in the outputs of {text!r}")


if __name__ == "__main__":
    main()
