"""What Lightning's counters must say in a checkpoint, for a run to go on at the next batch."""

from __future__ import annotations

from typing import Any

# Lightning counts a thing (a batch, an epoch) as ready, started, processed and completed, and writes a checkpoint when
# its callbacks run: after the last batch was processed and before it is completed. What to make of such a thing at a
# restart is guessed, and the guess differs: 2.4 takes the batch for undone and numbers the next one like it, so that an
# epoch gets one batch too many and accumulated gradients are one batch out of step; 2.6 guesses right for a batch and,
# at the end of an epoch, depends on whether there is validation. Counters that say of what is done that it is done
# leave nothing to guess, on both.


def settle(loops: dict[str, Any], *, epoch_ended: bool) -> None:
    """Change the counters in ``checkpoint["loops"]``: the batch just trained on is done, and the epoch if it has ended.

    To be called for a checkpoint that is written in ``on_train_batch_end``, between updates, or in
    ``on_train_epoch_end``.
    """
    fit = loops["fit_loop"]
    batches, epochs = fit["epoch_loop.batch_progress"], fit["epoch_progress"]
    for part in ("total", "current"):
        _complete(batches[part], "processed")
        if epoch_ended:
            _complete(epochs[part], "processed")
    # For the steps of loggers only; Lightning adds to it once the callbacks have run.
    if not epoch_ended:
        fit["epoch_loop.state_dict"]["_batches_that_stepped"] += 1


def within_epoch(loops: dict[str, Any]) -> bool:
    """Whether an epoch was under way when ``checkpoint["loops"]`` were written."""
    epochs = loops["fit_loop"]["epoch_progress"]["current"]
    return epochs["ready"] != epochs["processed"]


def _complete(counter: dict[str, int], last: str) -> None:
    done = counter[last]
    for name in counter:
        counter[name] = done
