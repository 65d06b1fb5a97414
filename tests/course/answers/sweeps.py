"""Answers to the exercises of sweeps."""

import torch

from snnkit.lab.exercises.sweeps import front, honest_winner, paired

# Exercise 1


def beating(test, last=None):
    """An answer to exercise 1 in which k beats i if `test(...)`."""

    def answer(accuracy, spikes):
        n = range(len(spikes))
        kept = [i for i in n if not any(test(accuracy[k], spikes[k], accuracy[i], spikes[i]) for k in n)]
        return sorted(kept, key=last(accuracy, spikes)) if last else sorted(kept, key=lambda i: spikes[i])

    return answer


def beats(a, s, b, t):
    return a >= b and s <= t and (a > b or s < t)


def the_best_by_score(accuracy, spikes):
    return [max(range(len(spikes)), key=lambda i: accuracy[i] - 0.01 * spikes[i])]


def some_of(kept):
    """The right answer to exercise 1 without those for which `kept(accuracy, spikes)` does not hold."""
    return lambda accuracy, spikes: [i for i in front(accuracy, spikes) if kept(accuracy[i], spikes[i])]


def only_one_of_equals(accuracy, spikes):
    best, kept = -1.0, []
    for i in sorted(range(len(spikes)), key=lambda i: (spikes[i], -accuracy[i])):
        if accuracy[i] > best:
            best = accuracy[i]
            kept.append(i)
    return kept


def one_sweep(accuracy, spikes):
    """Of two networks with equal spikes, it meets the worse one first, and keeps it."""
    best, last, kept = -1.0, None, []
    for i in sorted(range(len(spikes)), key=lambda i: spikes[i]):
        if accuracy[i] > best or (accuracy[i] == best and spikes[i] == last):
            best, last = accuracy[i], spikes[i]
            kept.append(i)
    return kept


FRONTS = [
    (lambda accuracy, spikes: [True, False], "who is beaten", 0, "flags"),
    (lambda accuracy, spikes: 3, "who is beaten", None, "a number"),
    (lambda accuracy, spikes: sorted(range(len(spikes)), key=lambda i: spikes[i]), "who is beaten", 0, "everybody"),
    (the_best_by_score, "who is beaten", 0),
    (beating(lambda a, s, b, t: a >= b and s <= t), "who is beaten", 0, "everybody beats himself"),
    (beating(lambda a, s, b, t: a > b or s < t), "who is beaten", 0),
    (some_of(lambda accuracy, spikes: spikes > 0), "both ends", 1, "without the silent"),
    (some_of(lambda accuracy, spikes: accuracy > 0.5), "both ends", 1, "better than chance"),
    (beating(beats, last=lambda accuracy, spikes: lambda i: -accuracy[i]), "the order", 2),
    (lambda accuracy, spikes: sorted(front(accuracy, spikes)), "the order", 2, "by number"),
    (beating(lambda a, s, b, t: a > b and s < t), "draws", 3, "strictly better in both"),
    (only_one_of_equals, "draws", 3),
    (one_sweep, "draws", 3),
]


def in_one_pass(accuracy, spikes):
    kept = []
    for i in sorted(range(len(spikes)), key=lambda i: (spikes[i], -accuracy[i])):
        last = (accuracy[kept[-1]], spikes[kept[-1]]) if kept else (-1.0, 0.0)
        if accuracy[i] > last[0] or (accuracy[i], spikes[i]) == last:
            kept.append(i)
    return kept


def with_tensors(accuracy, spikes):
    a, s = torch.tensor(accuracy), torch.tensor(spikes)
    no_worse = (a[:, None] >= a) & (s[:, None] <= s)
    better = (a[:, None] > a) | (s[:, None] < s)
    kept = (~(no_worse & better).any(0)).nonzero().flatten()
    return kept[s[kept].argsort()]


# Exercise 2


def with_error(of):
    return lambda a, b: ((a - b).mean().item(), of(a - b))


PAIRS = [
    (with_error(lambda d: d.abs().std().item() / len(d) ** 0.5), "its error", 2, "without signs"),
    (with_error(lambda d: d.std().item() / 6**0.5), "its error", 2, "six seeds"),
    (lambda a, b: (a - b).mean().item(), "the difference", None, "one number"),
    (lambda a, b: (b.mean().item() - a.mean().item(), paired(a, b)[1]), "the difference", 0),
    (lambda a, b: ((a - b).abs().mean().item(), paired(a, b)[1]), "the difference", 0),
    (lambda a, b: ((a - b).sum().item(), paired(a, b)[1]), "the difference", 0),
    (lambda a, b: ((a - b).mean().item(), ((a.var() + b.var()) / len(a)).sqrt().item()), "its error", 1, "apart"),
    (lambda a, b: ((a - b).mean().item(), paired(a, 0 * a)[1] + paired(b, 0 * b)[1]), "its error", 1, "added up"),
    (with_error(lambda d: d.std().item()), "its error", 2),
    (with_error(lambda d: d.std(correction=0).item() / len(d) ** 0.5), "its error", 2, "by n, not by n - 1"),
    (with_error(lambda d: d.std().item() / len(d)), "its error", 2),
    (lambda a, b: (paired(a, b)[0], paired(a, b)[1] + 0.01 * float(len(a) == 4)), "a mere shift", 1, "never certain"),
]


def by_covariance(a, b):
    both = torch.stack([a, b]).double()
    c = torch.cov(both)
    left = (c[0, 0] + c[1, 1] - 2 * c[0, 1]).clamp(min=0)
    return a.mean() - b.mean(), (left / len(a)).sqrt()


def in_python(a, b):
    differences = [float(x) - float(y) for x, y in zip(a, b, strict=True)]
    mean = sum(differences) / len(differences)
    squares = sum((d - mean) ** 2 for d in differences)
    return mean, (squares / (len(differences) - 1) / len(differences)) ** 0.5


# Exercise 3

WINNERS = [
    (lambda valid, test: (int(valid.argmax()), test.min().item()), "what to report", 1, "the worst"),
    (
        lambda valid, test: (int(valid[:3].argmax()), test[int(valid[:3].argmax())].item()),
        "anyone may win",
        2,
        "of the first three",
    ),
    (lambda valid, test: test.max().item(), "who wins", None, "one number"),
    (lambda valid, test: (int(test.argmax()), test.max().item()), "who wins", 0),
    (lambda valid, test: (int((valid + test).argmax()), test[int((valid + test).argmax())].item()), "who wins", 0),
    (lambda valid, test: (int(valid.argmax()) + 1, test[int(valid.argmax())].item()), "who wins", 0),
    (lambda valid, test: (int(valid.argmax()), valid.max().item()), "what to report", 1),
    (lambda valid, test: (int(valid.argmax()), test.max().item()), "what to report", 1),
    (lambda v, test: (int(v.argmax()), (v.max() + test[int(v.argmax())]).item() / 2), "what to report", 1),
    (lambda valid, test: (1, test[1].item()), "anyone may win", 2, "always the same"),
]


def by_sorting(valid, test):
    chosen = sorted(range(len(valid)), key=lambda i: float(valid[i]))[-1]
    return [chosen, float(test[chosen])]


def as_tensors(valid, test):
    _, chosen = valid.max(0)
    return chosen, test[chosen]


WRONG = {1: FRONTS, 2: PAIRS, 3: WINNERS}

RIGHT = {
    1: [in_one_pass, with_tensors, lambda accuracy, spikes: with_tensors(accuracy, spikes).numpy()],
    2: [by_covariance, in_python],
    3: [by_sorting, as_tensors],
}

STUBS = {
    1: [lambda accuracy, spikes: ...],
    2: [lambda a, b: (..., ...)],
    3: [lambda valid, test: (..., ...), lambda valid, test: (honest_winner(valid, test)[0], ...)],
}
