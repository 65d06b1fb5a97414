"""A step that can't be traced runs in the eager engine, and only the engine says why."""

from __future__ import annotations

import logging

import pytest
import torch

from snnkit import neuron
from snnkit.engine import NotElementwise, equation_of

NEURONS = 7
LOGGER = logging.getLogger("torch._subclasses.fake_tensor")


@pytest.fixture
def logged():
    """Texts that PyTorch's fake tensors log."""
    texts = []

    class Listener(logging.Handler):
        def emit(self, record):
            texts.append(record.getMessage())

    listener = Listener()
    LOGGER.addHandler(listener)
    yield texts
    LOGGER.removeHandler(listener)


def of_one_width():
    """A neuron whose surrogate holds a tensor, so that it knows how many neurons there are."""
    slopes = torch.linspace(1, 2, NEURONS)
    return neuron.LIF(surrogate=lambda u: torch.sigmoid(slopes * u))


def test_pytorch_logs_no_traceback_of_an_error_that_is_caught(logged):
    cell = of_one_width()
    state = cell.initial_state(torch.zeros(1, NEURONS))
    with pytest.raises(NotElementwise, match="can't be traced"):
        equation_of(cell, state, torch.float32, torch.device("cpu"))
    assert logged == []


def test_what_is_logged_later_is_heard(logged):
    cell = of_one_width()
    with pytest.raises(NotElementwise):
        equation_of(cell, cell.initial_state(torch.zeros(1, NEURONS)), torch.float32, torch.device("cpu"))
    LOGGER.error("another's")
    assert logged == ["another's"]
    assert LOGGER.filters == []
