"""How long a learner waits for the first plot: ``python -m tests.browser.first_plot [RUNS]``.

From Run All of notebook 01 in a fresh kernel until the first figure's slider can be dragged, and until the first
explorer with a live figure is drawn. The first run only warms up: the caches of files, of kernels, of the browser.

With ``--fresh``, in a clone of the last commit that is set up in a temporary folder, which takes minutes and a
package index: the first run there, caches empty, from the start of JupyterLab.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Locator, Page, sync_playwright

from snnkit.measure import machine
from snnkit.measure.machine import processor

from .conftest import FLAGS, ROOT, chromium
from .fresh_clone import FreshClone
from .notebook import READY, Notebook
from .server import Server

NAME = "01_first_spiking_neuron"
RESTART = "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart().then(() => true)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=int, nargs="?", default=5, help="measured runs after the one that warms up")
    parser.add_argument("--fresh", action="store_true", help="one run, in a fresh clone with empty caches")
    given = parser.parse_args()
    if given.runs < 1:
        parser.error(f"runs must be at least 1, was {given.runs}")
    if given.fresh:
        first_of_all()
    else:
        again_and_again(given.runs)


def first_of_all() -> None:
    """In a fresh clone."""
    with tempfile.TemporaryDirectory() as folder:
        clone = FreshClone(Path(folder))
        print(f"cloned and set up in {clone.seconds:.0f} s, which do not count; {_machine()}", flush=True)
        own = Path(folder) / "jupyter"
        own.mkdir()
        began = time.perf_counter()
        server = Server(own, clone.root / "notebooks", 8890, clone)
        try:
            with _page() as page:
                notebook = _opened(page, server.url())
                opened = time.perf_counter() - began
                slider, figure = plots(notebook)
                notebook.close()
        finally:
            server.stop()
    print(f"JupyterLab with notebook 01: {opened:.1f} s; then from Run All")
    for label, seconds in (("first slider", slider), ("first live figure", figure)):
        print(f"{label:18s} {seconds:.1f} s, {opened + seconds:.1f} s from the start of JupyterLab")


def again_and_again(runs: int) -> None:
    """In this working tree."""
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
    print(_machine())
    for label, column in zip(("first slider", "first live figure"), zip(*times, strict=True), strict=True):
        told = ", ".join(f"{seconds:.1f}" for seconds in column)
        print(f"{label:18s} median {statistics.median(column):.1f} s, worst {max(column):.1f} s ({told})")


def measure(url: str, runs: int) -> list[tuple[float, float]]:
    """Seconds to both plots, for each run."""
    times = []
    with _page() as page:
        notebook = _opened(page, url)
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


@contextlib.contextmanager
def _page() -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=[*FLAGS])
        yield browser.new_page(viewport={"width": 1200, "height": 1000})
        browser.close()


def _opened(page: Page, url: str) -> Notebook:
    notebook = Notebook(page)
    notebook.open(f"{url}lab/workspaces/{NAME}/tree/{NAME}.ipynb")
    return notebook


def _machine() -> str:
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    return f"{machine.cores()} cores of {processor()}, load {load}"


if __name__ == "__main__":
    main()
