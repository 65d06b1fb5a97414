"""A JupyterLab of one's own: its folders, its port and its end are under control, and nothing of the user's is read."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy knows nothing of this machine's ports

# An orphan (the tests were killed outright) ends itself after this many seconds without activity.
ORPHAN = 600
OPTIONS = [
    "--no-browser",
    "--allow-root",
    "--expose-app-in-browser",
    "--IdentityProvider.token=",
    "--ServerApp.ip=127.0.0.1",
    "--ServerApp.port_retries=20",
    "--ServerApp.terminals_enabled=False",
    f"--ServerApp.shutdown_no_activity_timeout={ORPHAN}",
    f"--MappingKernelManager.cull_idle_timeout={ORPHAN}",
    "--LabApp.extension_manager=readonly",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
]


class Server:
    """``jupyter lab`` on the folder ``root``. Call ``stop()`` in the end.

    Args:
        folder: for its settings, its runtime files and its log; must be empty.
        port: where to listen, or on the next free one.
        python: what runs it and its kernels.
        code: folder of the kit.
        caches: environment variables that lead caches elsewhere; with them no setting of this process is inherited.
    """

    def __init__(
        self,
        folder: Path,
        root: Path,
        port: int,
        python: Path = Path(sys.executable),
        code: Path = ROOT,
        caches: Mapping[str, str] | None = None,
    ) -> None:
        self._log = folder / "jupyter.log"
        self._runtime = folder / "runtime"
        _kernel(folder / "data", str(python))
        _no_news(folder / "config")
        command = [str(python), "-m", "jupyterlab", *OPTIONS, f"--ServerApp.port={port}"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, f"--ServerApp.root_dir={root}"],
                cwd=root,
                env=_environment(folder, code, caches or {}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def url(self, seconds: float = 300) -> str:
        """The server's address (another port than asked for, if that was taken), once it answers."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                told = json.loads((self._runtime / f"jpserver-{self._process.pid}.json").read_text("utf-8"))
                with DIRECT.open(f"{told['url']}api", timeout=5):
                    return str(told["url"])
            except (OSError, ValueError):  # not written yet, half written, or not listening yet
                time.sleep(0.1)
        raise RuntimeError(f"jupyter lab did not answer (exit status {self._process.poll()}):\n{self.tail()}")

    def tail(self, lines: int = 30) -> str:
        return "\n".join(self._log.read_text("utf-8", errors="replace").splitlines()[-lines:])

    def stop(self) -> None:
        """End the server and all that it has started. Kernels are sessions of their own, so its group isn't enough."""
        if self._process.poll() is not None:
            return
        family = [*psutil.Process(self._process.pid).children(recursive=True), psutil.Process(self._process.pid)]
        os.killpg(self._process.pid, signal.SIGTERM)
        _, left = psutil.wait_procs(family, timeout=10)
        for process in left:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        self._process.wait(timeout=10)


def _environment(folder: Path, code: Path, caches: Mapping[str, str]) -> dict[str, str]:
    unwanted = ("SNNKIT_", "TORCHINDUCTOR_", "PYTHON", "MPL") if caches else ("SNNKIT_HEADLESS",)
    env = {name: value for name, value in os.environ.items() if not name.startswith((*unwanted, "COLAB_RELEASE_TAG"))}
    env.update(caches)
    own = {
        "JUPYTER_CONFIG_DIR": folder / "config",
        "JUPYTER_DATA_DIR": folder / "data",
        "JUPYTER_PATH": folder / "data",
        "JUPYTER_RUNTIME_DIR": folder / "runtime",
        "IPYTHONDIR": folder / "ipython",
        "SNNKIT_PROGRESS": folder / "progress.json",
    }
    env.update({name: str(path) for name, path in own.items()})
    env["PYTHONPATH"] = os.pathsep.join([str(code), *filter(None, [env.get("PYTHONPATH")])])
    return env


def _kernel(data: Path, python: str) -> None:
    """A kernel "python3" that is this interpreter. It comes first, because JUPYTER_PATH does."""
    spec = data / "kernels" / "python3" / "kernel.json"
    spec.parent.mkdir(parents=True)
    argv = [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec.write_text(json.dumps({"argv": argv, "display_name": "Python 3", "language": "python"}), encoding="utf-8")


def _no_news(config: Path) -> None:
    """The question whether to fetch Jupyter's news would lie over the page."""
    settings = config / "lab" / "user-settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}', encoding="utf-8")
