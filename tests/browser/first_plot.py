"""How long a learner waits for the first plot: ``python -m tests.browser.first_plot [RUNS]``.

From Run All of notebook 01 in a fresh kernel until the first figure's slider can be dragged, and until the first
explorer with a live figure is drawn. The first run only warms up: the caches of files, of kernels, of the browser.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Locator, sync_playwright

from snnkit.bench.provenance import processor
from snnkit.tools import machine

from .conftest import FLAGS, ROOT, chromium
from .notebook import READY, Notebook
from .server import Server

NAME = "01_first_spiking_neuron"
RESTART = "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart().then(() => true)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=int, nargs="?", default=5, help="measured runs after the one that warms up")
    runs = parser.parse_args().runs
    if runs < 1:
        parser.error(f"runs must be at least 1, was {runs}")
    with tempfile.TemporaryDirectory() as folder:
        own, root = Path(folder) / "jupyter", Path(folder) / "notebooks"
        own.mkdir()
        root.mkdir()
        shutil.copy(ROOT / "notebooks" / f"{NAME}.ipynb", root)
        server = Server(own, root, port=8890)
        try:
            times = measure(server.url(), runs)
        finally:
            server.stop()
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    print(f"{machine.cores()} cores of {processor()}, load {load}")
    for label, column in zip(("first slider", "first live figure"), zip(*times, strict=True), strict=True):
        told = ", ".join(f"{seconds:.1f}" for seconds in column)
        print(f"{label:18s} median {statistics.median(column):.1f} s, worst {max(column):.1f} s ({told})")


def measure(url: str, runs: int) -> list[tuple[float, float]]:
    """Seconds to both plots, for each run."""
    times = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=[*FLAGS])
        page = browser.new_page(viewport={"width": 1200, "height": 1000})
        notebook = Notebook(page)
        notebook.open(f"{url}lab/workspaces/{NAME}/tree/{NAME}.ipynb")
        for run in range(runs + 1):
            if run:
                page.wait_for_function(RESTART)
                page.wait_for_function(READY)
            seconds = plots(notebook)
            notebook.wait_until_done(seconds=180)
            print("warm-up" if run == 0 else f"run {run}", *(f"{one:.1f} s" for one in seconds), flush=True)
            if run:
                times.append(seconds)
        notebook.close()
        browser.close()
    return times


def plots(notebook: Notebook) -> tuple[float, float]:
    """Run All; seconds until the slider of the first figure is there, and until the first explorer's figure is."""
    notebook.start_from(0)
    began = time.perf_counter()
    seen(notebook, "viz.frames(", ".jp-RenderedPlotly").hover(force=True)  # until then JupyterLab shows the PNG
    seen(notebook, "viz.frames(", ".slider-rail-touch-rect")
    slider = time.perf_counter() - began
    seen(notebook, "viz.explore(", ".js-plotly-plot .main-svg")
    return slider, time.perf_counter() - began


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
