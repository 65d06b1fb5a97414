"""A notebook open in JupyterLab: run it, ask for its errors, find the outputs of a cell. All waits are bounded."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Locator, Page
from playwright.sync_api import TimeoutError as TooLate

READY = """() => {
    const app = window.jupyterapp;
    const kernel = app?.shell.currentWidget?.sessionContext?.session?.kernel;
    return kernel?.status === 'idle' && app.commands.isEnabled('notebook:run-all-cells');
}"""
# Not awaited: evaluate knows no limit.
RUN = "() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }"
CODE = """() => window.jupyterapp.shell.currentWidget.content.widgets
    .map((cell, index) => ({index, model: cell.model, source: cell.model.sharedModel.getSource()}))
    .filter(({model, source}) => model.type === 'code' && source.trim())
    .map(({index, model, source}) => ({
        index, source, count: model.executionCount,
        errors: model.outputs.toJSON().filter(o => o.output_type === 'error').map(o => `${o.ename}: ${o.evalue}`),
    }))"""
# Jupyter doesn't run what follows an error, so an error ends the wait, too.
DONE = f"""() => {{
    const code = ({CODE})();
    const idle = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status === 'idle';
    return idle && (code.every(cell => cell.count) || code.some(cell => cell.errors.length));
}}"""
# Cells outside the window have no output in the page.
SHOW = """async index => {
    const notebook = window.jupyterapp.shell.currentWidget.content;
    notebook.activeCellIndex = index;
    await notebook.scrollToItem(index, 'start');
}"""


class Notebook:
    """One notebook on one page."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.page_errors: list[str] = []
        page.on("pageerror", lambda error: self.page_errors.append(str(error)))

    def open(self, url: str) -> None:
        """Load the page, and wait until its kernel is ready."""
        self.page.goto(url)
        self.page.wait_for_function(READY)

    def run_all(self, seconds: int) -> None:
        """Run All Cells, and wait for the last or for an error.

        Raises:
            RuntimeError: after ``seconds`` neither had come.
        """
        self.page.evaluate(RUN)
        try:
            self.page.wait_for_function(DONE, timeout=1000 * seconds, polling=200)
        except TooLate:
            waiting = [cell["source"] for cell in self.code() if not cell["count"]]
            raise RuntimeError(f"{len(waiting)} cells without a count after {seconds} s, first {waiting[:1]}") from None

    def code(self) -> list[dict[str, Any]]:
        """Every code cell that isn't empty: its index, source, execution count (None: not run) and errors."""
        return self.page.evaluate(CODE)

    def outputs(self, source: str) -> Locator:
        """The outputs of the first code cell whose source holds ``source``, scrolled into view.

        Raises:
            ValueError: no such cell.
        """
        index = next((cell["index"] for cell in self.code() if source in cell["source"]), None)
        if index is None:
            raise ValueError(f"source must occur in a code cell, {source!r} does not")
        self.page.evaluate(SHOW, index)
        found = self.page.locator(f'.jp-Notebook [data-windowed-list-index="{index}"] .jp-Cell-outputArea')
        found.wait_for()
        return found
