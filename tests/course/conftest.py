"""Every course test keeps its progress in a folder of its own, never in the user's home."""

import pytest

from snnkit.lab.course import progress


@pytest.fixture(autouse=True)
def progress_file(tmp_path, monkeypatch):
    path = tmp_path / "progress.json"
    monkeypatch.setenv("SNNKIT_PROGRESS", str(path))
    monkeypatch.delenv("SNNKIT_HEADLESS", raising=False)
    monkeypatch.setattr(progress, "_session", None)
    return path
