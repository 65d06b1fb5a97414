"""Tests of what only a CUDA device shows. Without one they are skipped.

``SNNKIT_GPU_REHEARSAL=1`` runs them on the CPU, kernels in Triton's interpreter, to try the tests themselves.
"""

import os

import pytest
import torch

REHEARSAL = os.environ.get("SNNKIT_GPU_REHEARSAL") == "1"

if REHEARSAL:
    os.environ["TRITON_INTERPRET"] = "1"


def pytest_collection_modifyitems(items):
    here = os.path.dirname(__file__)
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.gpu)
            # A fallback would compare another engine with itself.
            item.add_marker(pytest.mark.filterwarnings("error:.*runs in the .* engine:UserWarning"))
            item.add_marker(pytest.mark.filterwarnings("error:.*are left to PyTorch's operations:UserWarning"))
            if not (torch.cuda.is_available() or REHEARSAL):
                item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


def pytest_runtest_logreport(report):
    """Write a failure when it happens, in the process that has all reports: a run that is stopped may say nothing."""
    file = os.environ.get("SNNKIT_GPU_FAILURES")
    if file and report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        with open(file, "a") as text:
            text.write(f"== {report.nodeid} ({report.when})\n{report.longreprtext}\n\n")


@pytest.fixture
def device():
    return torch.device("cpu" if REHEARSAL and not torch.cuda.is_available() else "cuda")


@pytest.fixture
def cuda(device):
    """For what has no meaning on another device."""
    if device.type != "cuda":
        pytest.skip("needs a CUDA device")
    return device
