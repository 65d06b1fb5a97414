"""What train.fit passes to a panel, made by hand."""

from __future__ import annotations

import torch

from snnkit.train import BatchInfo
from snnkit.train.history import History


class Clock:
    """Moves only when set."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def update(epoch, batch, batches=4, samples=10, figures=(0.5, 0.25, 0.125)):
    return BatchInfo(epoch, batch, batches, samples, torch.tensor(figures), torch.zeros(1))


def history(epochs):
    done = [1.0 / (i + 1) for i in range(epochs)]
    return History(train_loss=done, train_accuracy=[0.5] * epochs, output_rate=[0.1] * epochs)


def run(panel, epochs=2, batches=4):
    """What fit does with a panel whose button is not pressed."""
    try:
        for epoch in range(epochs):
            for batch in range(batches):
                panel.on_batch(update(epoch, batch, batches))
            panel(history(epoch + 1))
    except KeyboardInterrupt as stop:  # which would end pytest
        raise AssertionError("the panel stops a run without a press") from stop
    panel.finish()
