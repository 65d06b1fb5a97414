"""Answers to the exercises of open_challenge."""

import torch

# Exercise 1


def scorer(score=None, error=None):
    """An answer to exercise 1 with one of its parts exchanged."""

    def answer(correct, spikes, price):
        each = correct.float() - price * spikes
        right = each.mean().item(), each.std().item() / len(each) ** 0.5
        found = {"each": each, "correct": correct.float(), "spikes": spikes, "price": price}
        return score(**found) if score else right[0], error(**found) if error else right[1]

    return answer


def added_up(correct, spikes, price, **_):
    return (correct.std() + price * spikes.std()).item() / len(correct) ** 0.5


SCORES = [
    (scorer(score=lambda each, **_: max(each.mean().item(), 0.0)), "the score", 1, "never below 0"),
    (scorer(error=lambda each, **_: each.std().item() / 8**0.5), "the error", 2, "eight samples"),
    (lambda correct, spikes, price: correct.float().mean().item(), "the score", None, "one number"),
    (scorer(score=lambda correct, **_: correct.sum().item()), "the score", 0),
    (scorer(score=lambda correct, **_: correct.mean().item()), "the score", 1),
    (scorer(score=lambda correct, spikes, price, **_: (correct.mean() + price * spikes.mean()).item()), "the score", 1),
    (scorer(score=lambda correct, spikes, price, **_: (correct.mean() - price * spikes.sum()).item()), "the score", 1),
    (scorer(error=lambda each, **_: each.std().item()), "the error", 2),
    (scorer(error=lambda each, **_: each.std().item() / len(each)), "the error", 2),
    (scorer(error=lambda each, **_: each.std(correction=0).item() / len(each) ** 0.5), "the error", "divides by N - 1"),
    (scorer(error=lambda each, **_: each.var().item() / len(each) ** 0.5), "the error", 2),
    (scorer(error=added_up), "sample by sample", 3, "errors added up"),
    (scorer(error=lambda correct, **_: correct.std().item() / len(correct) ** 0.5), "sample by sample", 3),
]


def in_two_parts(correct, spikes, price):
    each = torch.where(correct, 1.0, 0.0) - price * spikes
    mean = correct.float().mean() - price * spikes.mean()
    return mean, ((each - mean).square().sum() / (len(each) - 1) / len(each)).sqrt()


def by_variance_and_covariance(correct, spikes, price):
    both = torch.stack([correct.float(), spikes]).double()
    weights = torch.tensor([1.0, -price], dtype=torch.float64)
    return [(weights @ both.mean(1)).item(), ((weights @ torch.cov(both) @ weights) / both.shape[1]).sqrt().item()]


# Exercise 2

PENALTIES = [
    (lambda update, updates, penalty, warm_up: penalty, "the start", 0, "whole from the start"),
    (lambda update, updates, penalty, warm_up: penalty * (1 - update / updates), "the start", 0, "it falls"),
    (
        lambda update, updates, penalty, warm_up: penalty * update / (warm_up * updates),
        "after the warm-up",
        1,
        "beyond the penalty",
    ),
    (lambda update, updates, penalty, warm_up: penalty * update / updates, "on the way", 2, "no end"),
    (
        lambda update, updates, penalty, warm_up: penalty * min(1.0, update / (warm_up * updates)) / 2,
        "on the way",
        2,
        "half the penalty",
    ),
    (
        lambda update, updates, penalty, warm_up: min(1.0, update / (warm_up * updates)) if warm_up else 1.0,
        "on the way",
        2,
        "a share, not a penalty",
    ),
    (
        lambda update, updates, penalty, warm_up: penalty if update >= warm_up * updates else 0.0,
        "on the way",
        2,
        "all at once",
    ),
    (
        lambda update, updates, penalty, warm_up: penalty * min(1.0, 2 * update / updates),
        "on the way",
        2,
        "always half of the training",
    ),
    (
        lambda update, updates, penalty, warm_up: penalty * min(1.0, update / (warm_up * updates + 1e-9)),
        "no warm-up",
        3,
        "nothing at update 0",
    ),
    (
        lambda update, updates, penalty, warm_up: penalty * min(1.0, update / (warm_up * updates)),
        "no warm-up",
        "divided by 0. With",
        "divided by 0",
    ),
]


def by_cases(update, updates, penalty, warm_up):
    if update >= warm_up * updates:
        return penalty
    return penalty * update / (warm_up * updates)


def with_tensors(update, updates, penalty, warm_up):
    if not warm_up:
        return torch.tensor(penalty)
    return penalty * torch.tensor(update / updates / warm_up).clamp(0, 1)


WRONG = {1: SCORES, 2: PENALTIES}

RIGHT = {1: [in_two_parts, by_variance_and_covariance], 2: [by_cases, with_tensors]}

STUBS = {
    1: [lambda correct, spikes, price: (..., ...), lambda correct, spikes, price: (0.0, ...)],
    2: [lambda update, updates, penalty, warm_up: ...],
}
