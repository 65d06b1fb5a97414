"""Shared set-up: on-disk caches for all workers, so that each kernel is compiled once a machine."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(ROOT / ".cache" / "inductor"))
os.environ.setdefault("SNNKIT_KERNELS", str(ROOT / ".cache" / "kernels"))
os.environ.setdefault("MPLBACKEND", "Agg")
# Two workers on two cores: one thread each, in kernels of notebooks, too, or they fight for the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest  # noqa: E402
import torch  # noqa: E402

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def seeded():
    """Each test starts from the same random state, whatever ran before it."""
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def no_kernel_is_refused(request, monkeypatch):
    """A kernel that its compiler refuses leaves the work to another engine. Results are right then, and a test of the
    kernel would test nothing. Marked ``refused`` are tests in which it happens on purpose."""
    if "snnkit.engine.autograd" not in sys.modules or request.node.get_closest_marker("refused"):
        yield
        return
    if plan := sys.modules.get("snnkit.engine.plan"):
        plan._warn_once.cache_clear()  # a warning that an earlier test has seen comes again
    refusals = []
    failed = sys.modules["snnkit.engine.autograd"].CompilationFailed
    monkeypatch.setattr(failed, "__init__", lambda error, *reasons: refusals.append(reasons))
    yield
    assert not refusals


def pytest_collection_modifyitems(items):
    """Folders that start browsers, environments and clusters run in `make test-all` as a whole."""
    for item in items:
        if item.path.relative_to(ROOT).parts[1] in ("browser", "colab"):
            item.add_marker(pytest.mark.slow)
