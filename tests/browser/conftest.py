"""One JupyterLab and one chromium for all tests here, and a screenshot of what a failing test saw."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..needed import needs

ROOT = Path(__file__).parents[2]
SHOTS = ROOT / "build" / "browser"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # A classroom may have no network: whatever the kit needs must come from the server.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


def chromium() -> str | None:
    """Where the browser is, or None."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


class Lab:
    """A browser in front of a JupyterLab. One notebook at a time is open, and run once, as the tests come sorted."""

    def __init__(self, browser: Any, server: Any) -> None:
        self.open: Any = None
        self._name: str | None = None
        self._browser = browser
        self._url = server.url()

    def notebook(self, name: str, *, run: bool = True) -> Any:
        """The page of a notebook ("00_preflight"); with ``run`` all cells were run on it, or as many as would."""
        from .notebook import Notebook

        if name != self._name:
            self.close()
            page = self._browser.new_page(viewport={"width": 1200, "height": 1000})
            page.set_default_timeout(180_000)
            self.open, self._name = Notebook(page), name
            self.open.open(f"{self._url}lab/workspaces/{name}/tree/{name}.ipynb")
            if run:
                self.open.run_all(seconds=900)
        return self.open

    def close(self) -> None:
        """End the open notebook, its kernel included: two cores are for one."""
        if self.open is not None:
            self.open.close()
        self.open = self._name = None


@pytest.fixture(scope="package")
def server(tmp_path_factory) -> Iterator[Any]:
    pytest.importorskip("jupyterlab", reason="JupyterLab is not installed: pip install -e '.[all]'")
    from .server import Server

    root = tmp_path_factory.mktemp("notebooks")
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        shutil.copy(path, root)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = Server(tmp_path_factory.mktemp("jupyter"), root, port)
    try:
        yield server
    finally:
        server.stop()


# Not for the session: as long as playwright lives, no other test can start an asyncio loop in this thread.
@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    needs(*BROWSERS)
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=180_000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=[*FLAGS])
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def lab(browser, server) -> Iterator[Lab]:
    lab = Lab(browser, server)
    yield lab
    lab.close()


@pytest.fixture
def page(browser) -> Iterator[Any]:
    """An empty page of its own, without JupyterLab; it must report no error."""
    page, errors = browser.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    yield page
    page.close()
    assert errors == []


@pytest.fixture
def notebook(lab, name) -> Iterator[Any]:
    """The notebook called ``name``, run; whatever a test does to it, the page must report no error."""
    notebook = lab.notebook(name)
    yield notebook
    errors, notebook.page_errors = notebook.page_errors, []
    assert errors == []


def pytest_collection_modifyitems(items) -> None:
    """All tests of a notebook one after the other, for each notebook is run once."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("browser")
    places = [i for i, item in enumerate(items) if Path(__file__).parent in item.path.parents]
    by_notebook = sorted((items[i] for i in places), key=_notebook_of)
    for place, item in zip(places, by_notebook, strict=True):
        items[place] = item


def _notebook_of(item: Any) -> str:
    """Of tests of pages without a notebook, which come first, an empty text."""
    return item.callspec.params.get("name", "") if hasattr(item, "callspec") else ""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    known = getattr(item, "funcargs", {})
    if report.failed and "lab" in known:
        seen = known["lab"].open
        shot = shoot(seen.page, f"{item.name}-{report.when}") if seen else "none"
        # "stdout", or --show-capture=stdout hides it.
        report.sections.append(("stdout of JupyterLab", f"{known['server'].tail()}\nscreenshot: {shot}"))
    return report


def shoot(page: Any, name: str) -> str:
    """Write what is on the page to build/browser/NAME.png; where that is, or why there is none."""
    from playwright.sync_api import Error

    path = SHOTS / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        page.screenshot(path=path)
    except Error as error:  # a dead page must not hide why the test failed
        return f"none, {error}"
    return str(path)
