"""A notebook open in JupyterLab: run it, ask for its errors, find the outputs of a cell. All waits are bounded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from playwright.sync_api import Error, Locator, Page, TimeoutError as TooLate

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
# Of cells whose outputs hold more than text: pictures, figures, widgets, pages.
SHOWING = """() => window.jupyterapp.shell.currentWidget.content.widgets
    .map((cell, index) => [index, cell.model.type === 'code' ? cell.model.outputs.toJSON() : []])
    .filter(([, outputs]) => outputs.some(({data}) => Object.keys(data ?? {}).some(kind => kind !== 'text/plain')))
    .map(([index]) => index)"""
COUNT = "() => window.jupyterapp.shell.currentWidget.content.widgets.length"
WRITE = """([index, source]) =>
    window.jupyterapp.shell.currentWidget.content.widgets[index].model.sharedModel.setSource(source)"""
RUN_FROM = """index => {
    const notebook = window.jupyterapp.shell.currentWidget.content;
    for (const cell of notebook.widgets.slice(index)) if (cell.model.type === 'code') cell.model.clearExecution();
    notebook.deselectAll();
    notebook.activeCellIndex = index;
    window.jupyterapp.commands.execute('notebook:run-all-below');
}"""
THEME = "theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme}).then(() => true)"
SAVE = "() => window.jupyterapp.commands.execute('docmanager:save').then(() => true)"
SETTING = """([plugin, values]) =>
    window.jupyterapp.serviceManager.settings.save(plugin, JSON.stringify(values)).then(() => true)"""
# Figures that plotly draws, less tall than any of ours, or not filled by what was drawn.
EMPTY = """cell => [...cell.querySelectorAll('.jp-RenderedPlotly, .js-plotly-plot')]
    .map(one => [one, ...one.querySelectorAll('.plot-img[src], .main-svg')].map(shown => shown.clientHeight))
    .filter(([high, ...shown]) => high < 100 || Math.abs(Math.max(0, ...shown) - high) > 10)"""
# A model took longer to load than anywidget waits: two busy cores, not a fault. Lines to the kernel are opened again.
LATE = "[anywidget] Failed to initialize model"
SHUT_DOWN = "() => window.jupyterapp.serviceManager.sessions.shutdownAll().then(() => true)"
# What plotly holds as data, typed arrays included.
DATA = "figure => JSON.stringify(figure.data, (_, value) => ArrayBuffer.isView(value) ? Array.from(value) : value)"


class Notebook:
    """One notebook on one page."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.page_errors: list[str] = []
        page.on("pageerror", lambda error: self._note(str(error)))
        page.on("console", lambda line: self._note(line.text) if line.type == "error" else None)

    def _note(self, error: str) -> None:
        if LATE not in error:
            self.page_errors.append(error)

    def open(self, url: str) -> None:
        """Load the page, and wait until its kernel is ready."""
        self.page.goto(url)
        self.page.wait_for_function(READY)

    def close(self) -> None:
        """End the kernel and the page."""
        try:
            self.page.wait_for_function(SHUT_DOWN)
        except Error as error:  # what ends must not fail a test; the server ends its kernels, too
            print(f"the kernel did not end: {error}")
        self.page.close()

    def start(self) -> None:
        """Run All Cells, and don't wait."""
        self.page.evaluate(RUN)

    def run_all(self, seconds: int) -> None:
        """Run All Cells, and wait for the last or for an error.

        Raises:
            RuntimeError: after ``seconds`` neither had come.
        """
        self.start()
        self.wait_until_done(seconds)

    def wait_until_done(self, seconds: int) -> None:
        """Until the last cell has run, or one raised. Raises RuntimeError as ``run_all`` does."""
        try:
            self.page.wait_for_function(DONE, timeout=1000 * seconds, polling=200)
        except TooLate:
            waiting = [cell["source"] for cell in self.code() if not cell["count"]]
            raise RuntimeError(f"{len(waiting)} cells without a count after {seconds} s, first {waiting[:1]}") from None

    def code(self) -> list[dict[str, Any]]:
        """Every code cell that isn't empty: its index, source, execution count (None: not run) and errors."""
        return self.page.evaluate(CODE)

    def find(self, text: str) -> tuple[int, str]:
        """Index and source of the first code cell whose source holds ``text``. Raises ValueError: there is none."""
        for cell in self.code():
            if text in cell["source"]:
                return cell["index"], cell["source"]
        raise ValueError(f"text must occur in a code cell, {text!r} does not")

    def outputs(self, text: str) -> Locator:
        """The outputs of the first code cell whose source holds ``text``, in view; if they wait for a prediction, it is
        skipped."""
        return self._opened(self.as_found(text))

    def as_found(self, text: str) -> Locator:
        """The outputs of the first code cell whose source holds ``text``, in view."""
        return self._show(self.find(text)[0]).locator(".jp-Cell-outputArea")

    def cells(self) -> Iterator[tuple[int, Locator]]:
        """Every cell that holds anything, one after the other in view."""
        for index in range(self.page.evaluate(COUNT)):
            yield index, self._show(index)

    def showing(self) -> Iterator[tuple[int, Locator]]:
        """As ``cells``, but those only whose outputs hold more than text."""
        for index in self.page.evaluate(SHOWING):
            yield index, self._show(index)

    def write(self, index: int, source: str) -> None:
        """Put ``source`` into a cell."""
        self.page.evaluate(WRITE, [index, source])

    def start_from(self, index: int) -> None:
        """Forget what a cell and those below have shown, run them, and don't wait."""
        self.page.evaluate(RUN_FROM, index)

    def themes(self) -> Iterator[str]:
        """Change to the dark theme, then back to the light one; the name of each, once figures had time to follow."""
        for theme in ("JupyterLab Dark", "JupyterLab Light"):
            assert self.page.evaluate(THEME, theme)
            self.page.wait_for_timeout(1500)  # plotly resizes 0.1 s after it was told
            yield theme

    def empty_figures(self) -> dict[int, Any]:
        """Heights of the figures that show nothing, and of what they hold, by the index of their cell. Predictions that
        hide figures are skipped."""
        return {index: found for index, cell in self.showing() if (found := self._opened(cell).evaluate(EMPTY))}

    def reopen(self, setting: tuple[str, dict[str, Any]]) -> None:
        """Save the notebook and a setting of JupyterLab (its plugin and values), and load the page anew."""
        for script, argument in ((SAVE, None), (SETTING, [*setting])):
            assert self.page.evaluate(script, argument)
        self.page.goto(self.page.url)
        self.page.wait_for_function(f"() => ({COUNT.removeprefix('() => ').replace('.', '?.')}) > 5")

    def _show(self, index: int) -> Locator:
        self.page.evaluate(SHOW, index)
        cell = self.page.locator(f'.jp-Notebook [data-windowed-list-index="{index}"]')
        cell.wait_for()
        return cell

    def _opened(self, place: Locator) -> Locator:
        skip = place.get_by_role("button", name="and show what is hidden")
        if skip.is_visible():
            skip.click()
        return place

    def drag(self, handle: Locator, share: float) -> None:
        """Take a slider's handle by the mouse to ``share`` (0 to 1) of its length, in small steps as a hand does."""
        handle.scroll_into_view_if_needed()
        track = handle.locator("xpath=ancestor::*[contains(@class, 'noUi-target')]").bounding_box()
        start = handle.bounding_box()
        assert track is not None and start is not None, "a slider that is not on the page"
        mouse = self.page.mouse
        mouse.move(start["x"] + start["width"] / 2, start["y"] + start["height"] / 2)
        mouse.down()
        mouse.move(track["x"] + share * track["width"], track["y"] + track["height"] / 2, steps=12)
        mouse.up()

    def wait_for_other_data(self, outputs: Locator, old: str, seconds: int = 180) -> None:
        """Until a figure in ``outputs`` holds other data than ``old``. Raises playwright's TimeoutError."""
        script = f"""([outputs, old]) => [...outputs.querySelectorAll('.js-plotly-plot')]
            .some(figure => figure.data && ({DATA})(figure) !== old)"""
        self.page.wait_for_function(script, arg=[outputs.element_handle(), old], timeout=1000 * seconds)
