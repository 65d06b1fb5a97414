"""Answers to the exercises of scaling_out."""

import numpy as np
import torch

from snnkit.lab.exercises.scaling_out import REPAIRED

# Exercise 1


def sharing(part, weight=lambda mine, batch, ranks: len(mine) * ranks / len(batch)):
    """An answer to exercise 1."""

    def answer(batch, rank, ranks):
        mine = part(batch, rank, ranks)
        return mine, weight(mine, batch, ranks)

    return answer


def contiguous(batch, rank, ranks):
    return batch[len(batch) * rank // ranks : len(batch) * (rank + 1) // ranks]


def rounded_down(batch, rank, ranks):
    size = len(batch) // ranks
    return batch[rank * size : (rank + 1) * size]


def rounded_up(batch, rank, ranks):
    size = -(-len(batch) // ranks)
    return batch[rank * size : (rank + 1) * size]


def rest_to_the_last(batch, rank, ranks):
    size = len(batch) // ranks
    return batch[rank * size :] if rank == ranks - 1 else batch[rank * size : (rank + 1) * size]


def padded(batch, rank, ranks):
    return (batch + batch[: -len(batch) % ranks])[rank::ranks]


def dealt(batch, rank, ranks):
    return batch[rank::ranks]


SHARES = [
    (sharing(lambda batch, rank, ranks: list(range(rank, len(batch), ranks))), "each sample once", 0, "numbers"),
    (sharing(lambda batch, rank, ranks: batch), "each sample once", 1),
    (sharing(rounded_down), "each sample once", 2),
    (sharing(lambda batch, rank, ranks: batch[rank + 1 :: ranks]), "each sample once", 2, "from one"),
    (sharing(padded), "each sample once", 3),
    (sharing(rest_to_the_last), "fair", 4),
    (sharing(dealt, lambda mine, batch, ranks: len(mine)), "the mean of all", 5),
    (sharing(dealt, lambda mine, batch, ranks: 1.0), "the mean of all", 6),
    (sharing(dealt, lambda mine, batch, ranks: len(mine) / len(batch)), "the mean of all", 7),
    (sharing(dealt, lambda mine, batch, ranks: 1 / ranks), "the mean of all", 7),
    (sharing(lambda batch, rank, ranks: batch[rank % len(batch)], lambda *_: 1.0), "each sample once", 0),
    (dealt, "each sample once", None, "one value"),
]


# Exercise 2


def coming(epoch=lambda update, updates: update // updates, at=lambda update, updates: update % updates, part=dealt):
    """An answer to exercise 2 with one of its parts exchanged."""

    def answer(update, order, batch, rank, ranks):
        updates = -(-len(order(0)) // batch)
        start = at(update, updates) * batch
        return part(order(epoch(update, updates))[start : start + batch], rank, ranks)

    return answer


def rounded_down_updates(update, order, batch, rank, ranks):
    epoch, position = divmod(update, len(order(0)) // batch)
    return order(epoch)[position * batch : (position + 1) * batch][rank::ranks]


def by_splitting(update, order, batch, rank, ranks):
    batches, epoch = torch.tensor(order(0)).split(batch), 0
    while update >= len(batches):
        update, epoch = update - len(batches), epoch + 1
    return torch.tensor(order(epoch)).split(batch)[update][rank::ranks]


COMING = [
    (coming(at=lambda update, updates: update % updates + 1), "the first epoch", 1, "one too far"),
    (coming(at=lambda update, updates: 0), "the first epoch", 1, "always the first"),
    (lambda update, order, batch, rank, ranks: update, "the first epoch", 1, "a number"),
    (coming(epoch=lambda update, updates: 0), "the next epoch", 0, "always the first order"),
    (coming(epoch=lambda update, updates: 0, at=lambda update, updates: update), "the next epoch", 0, "no epochs"),
    (coming(epoch=lambda update, updates: update), "the first epoch", 1, "an epoch for each update"),
    (rounded_down_updates, "the first epoch", 1),
    (coming(part=lambda batch, rank, ranks: batch), "a part for each rank", 2, "the whole batch"),
    (coming(part=rest_to_the_last), "a part for each rank", 2),
    (coming(part=padded), "a part for each rank", 2),
]


# Exercise 3

BROKEN = (
    REPAIRED.replace("--ntasks-per-node=4", "--ntasks-per-node=1")
    .replace("--time=02:00:00", "--time=02:00")
    .replace("$((20000 + SLURM_JOB_ID % 10000))", "29500")
)


def repaired(*changes):
    text = REPAIRED
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


SCRIPTS = [
    (repaired(("--ntasks-per-node=4", "--ntasks-per-node=1")), "no mistakes left", 0),
    (repaired(("--ntasks-per-node=4", "--ntasks-per-node=8")), "no mistakes left", 0),
    (repaired(("=02:00:00", "=02:00")), "no mistakes left", 1),
    (repaired(("=02:00:00", "=2h")), "no mistakes left", 1),
    (repaired(("#SBATCH --signal=SIGUSR1@120\n", "")), "no mistakes left", 1),
    (repaired(("=02:00:00", "=02:00"), ("@120", "@30")), "two hours", 1),
    (repaired(("=02:00:00", "=60")), "two hours", 1),
    (repaired(("=02:00:00", "=20:00")), "two hours", 1),
    (repaired(("=02:00:00", "=2-00")), "two hours", 1),
    (repaired(("$((20000 + SLURM_JOB_ID % 10000))", "29501")), "no mistakes left", 2),
    (repaired(("$((20000 + SLURM_JOB_ID % 10000))", "$SLURM_JOB_ID")), "no mistakes left", 2),
    (repaired(("per-node=4", "per-node=1")), "the same job", 3),
    (repaired(("--nodes=2", "--nodes=1")), "the same job", 3),
    (repaired(("snnkit train workshop", "python train.py")), "the same job", 3),
    (repaired(("srun --kill-on-bad-exit=1", "srun")), "no mistakes left", 4),
    (repaired((" --resume", "")), "no mistakes left", 4),
]

# Exercise 4


def ring(factor=2, steps=lambda n: n - 1, piece=lambda size, n: size / n, speed=lambda b: 1 / b):
    """An answer to exercise 4 with something wrong."""

    def answer(ranks, size, latency, bandwidth):
        return factor * steps(ranks) * (latency + piece(size, ranks) * speed(bandwidth))

    return answer


RINGS = [
    (
        lambda ranks, size, latency, bandwidth: 2 * (ranks - 1) * max(latency, size / ranks / bandwidth),
        "both",
        0,
        "the larger",
    ),
    (
        lambda ranks, size, latency, bandwidth: 2 * (ranks - 1) * (latency + size / ranks / 1e9),
        "bandwidth",
        0,
        "1 GB/s",
    ),
    (
        lambda ranks, size, latency, bandwidth: 2 * (ranks - 1) * (latency and 1e-5 + size / ranks / bandwidth),
        "latency",
        0,
        "10 us",
    ),
    (ring(piece=lambda size, n: size // n), "bandwidth", 2),
    (ring(steps=lambda n: n), "alone", 0),
    (lambda ranks, size, latency, bandwidth: latency + size / bandwidth, "alone", 0),
    (ring(factor=1), "latency", 1),
    (lambda ranks, size, latency, bandwidth: 2 * (ranks - 1) * size / ranks / bandwidth, "latency", 0),
    (ring(piece=lambda size, n: size), "bandwidth", 2),
    (ring(speed=lambda b: b), "bandwidth", 3),
]


def step_by_step(ranks, size, latency, bandwidth):
    seconds = 0.0
    for _ in ("until the sums are there", "until everybody has them"):
        for _ in range(ranks - 1):
            seconds += latency
            seconds += size / (ranks * bandwidth)
    return seconds


def by_its_two_parts(ranks, size, latency, bandwidth):
    waiting = 2 * (ranks - 1) * latency
    moving = 2 * size / bandwidth * (1 - 1 / ranks)
    return waiting + moving


WRONG = {1: SHARES, 2: COMING, 3: SCRIPTS, 4: RINGS}

RIGHT = {
    1: [
        sharing(contiguous),
        sharing(rounded_up),
        sharing(dealt),
        sharing(lambda batch, rank, ranks: np.array_split(np.array(batch), ranks)[rank]),
    ],
    2: [coming(part=contiguous), by_splitting],
    3: [
        repaired(("@120", "@60")),
        repaired(("=02:00:00", "=120")),
        repaired(("$((20000 + SLURM_JOB_ID % 10000))", "$((30000 + SLURM_JOB_ID % 1000))")),
    ],
    4: [step_by_step, by_its_two_parts, lambda n, s, t, b: 2 * (n - 1) * (t + s / n / b)],
}

STUBS = {
    1: [lambda batch, rank, ranks: (..., ...)],
    2: [lambda update, order, batch, rank, ranks: ...],
    3: [BROKEN],
    4: [lambda ranks, size, latency, bandwidth: ...],
}
