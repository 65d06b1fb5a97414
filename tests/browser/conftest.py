"""One JupyterLab and one chromium for all tests here, and a screenshot of what a failing test saw."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SHOTS = ROOT / "build" / "browser"
NAMES = ("chromium", "chromium-browser", "google-chrome")
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
    return next(filter(None, map(shutil.which, NAMES)), None)


class Lab:
    """A browser in front of a JupyterLab. Each notebook is opened and run once, by the first test that asks for it."""

    def __init__(self, browser: Any, server: Any) -> None:
        self.notebooks: dict[str, Any] = {}
        self._browser = browser
        self._url = server.url()

    def notebook(self, name: str) -> Any:
        """The page of a notebook ("00_preflight") on which all cells were run, or as many as would."""
        from .notebook import Notebook

        if name not in self.notebooks:
            page = self._browser.new_page(viewport={"width": 1200, "height": 1000})
            page.set_default_timeout(30_000)
            self.notebooks[name] = Notebook(page)
            self.notebooks[name].open(f"{self._url}lab/workspaces/{name}/tree/{name}.ipynb")
            self.notebooks[name].run_all(seconds=120)
        return self.notebooks[name]


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Any]:
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
@pytest.fixture(scope="module")
def lab(server) -> Iterator[Lab]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=[*FLAGS])
        yield Lab(browser, server)
        browser.close()


@pytest.fixture
def notebook(lab, name) -> Iterator[Any]:
    """The notebook called ``name``, run; whatever a test does to it, the page must report no error."""
    notebook = lab.notebook(name)
    yield notebook
    errors, notebook.page_errors = notebook.page_errors, []
    assert errors == []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    known = getattr(item, "funcargs", {})
    if report.failed and "lab" in known:
        seen = known["lab"].notebooks.get(known.get("name"))
        shot = _shot(seen.page, SHOTS / f"{item.name}-{report.when}.png") if seen else "none"
        # "stdout", or --show-capture=stdout hides it.
        report.sections.append(("stdout of JupyterLab", f"{known['server'].tail()}\nscreenshot: {shot}"))
    return report


def _shot(page: Any, path: Path) -> str:
    from playwright.sync_api import Error

    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        page.screenshot(path=path)
    except Error as error:  # a dead page must not hide why the test failed
        return f"none, {error}"
    return str(path)
