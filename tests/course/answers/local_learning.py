"""Answers to the exercises of local_learning."""

import math

import torch
from torch.nn import functional as F

from snnkit.lab.exercises.local_learning import bounded, stdp

# Exercise 1


def stepper(
    trace_x=lambda keep, x, pre: keep * x + pre,
    trace_y=lambda keep, y, post: keep * y + post,
    increase=lambda pre, post, x, y: torch.outer(post, x),
    decrease=lambda pre, post, x, y: torch.outer(y, pre),
    old=False,
):
    """An answer to exercise 1 with some of its lines exchanged; ``old``: with the traces before the step."""

    def answer(pre, post, x, y, keep_x, keep_y):
        new = trace_x(keep_x, x, pre), trace_y(keep_y, y, post)
        seen = (x, y) if old else new
        return *new, increase(pre, post, *seen), decrease(pre, post, *seen)

    return answer


def the_other_factor(pre, post, x, y, keep_x, keep_y):
    x, y = keep_y * x + pre, keep_x * y + post
    return x, y, torch.outer(post, x), torch.outer(y, pre)


def leaky_traces_without_the_newest(pre, post, x, y, keep_x, keep_y):
    x, y = keep_x * x, keep_y * y
    return x + pre, y + post, torch.outer(post, x), torch.outer(y, pre)


def only_traces(pre, post, x, y, keep_x, keep_y):
    return keep_x * x + pre, keep_y * y + post


STEPS = [
    (stepper(trace_x=lambda keep, x, pre: x + pre), "the traces", 0),
    (stepper(trace_x=lambda keep, x, pre: keep * (x + pre)), "the traces", 0),
    (stepper(trace_y=lambda keep, y, post: torch.where(post > 0, post, keep * y)), "the traces", 0),
    (stepper(trace_y=lambda keep, y, post: post), "the traces", 0),
    (the_other_factor, "the traces", 0),
    (only_traces, "the traces", None, "two tensors"),
    (stepper(increase=lambda pre, post, x, y: post * x), "the traces", 1, "a product"),
    (stepper(increase=lambda pre, post, x, y: torch.outer(x, post)), "rows and columns", 1),
    (stepper(decrease=lambda pre, post, x, y: torch.outer(pre, y)), "rows and columns", 1),
    (stepper(increase=lambda pre, post, x, y: (post * x.sum()).sum()), "rows and columns", 1),
    (stepper(increase=lambda pre, post, x, y: torch.outer(y, pre)), "pre, then post", 2),
    (stepper(increase=lambda pre, post, x, y: torch.outer(post, pre)), "pre, then post", 2),
    (stepper(decrease=lambda pre, post, x, y: torch.outer(post, x)), "pre, then post", 2),
    (stepper(increase=lambda pre, post, x, y: torch.outer(post, x) + torch.outer(y, pre)), "post, then pre", 2),
    (stepper(decrease=lambda pre, post, x, y: -torch.outer(y, pre)), "post, then pre", 3),
    (stepper(decrease=lambda pre, post, x, y: torch.outer(post, pre)), "post, then pre", 3),
    (stepper(old=True), "pre, then post", 2),
    (leaky_traces_without_the_newest, "in one step", 4),
    (stepper(decrease=lambda pre, post, x, y: torch.outer(y - post, pre)), "in one step", 4),
    (stepper(increase=lambda pre, post, x, y: torch.outer(post, x.clamp(max=1))), "all pairs", 0),
]


def by_broadcasting(pre, post, x, y, keep_x, keep_y):
    x, y = torch.add(pre, x, alpha=keep_x), torch.add(post, y, alpha=keep_y)
    return [x, y, post[:, None] * x, y[:, None] * pre]


def neuron_by_neuron(pre, post, x, y, keep_x, keep_y):
    x, y = pre + x * keep_x, post + y * keep_y
    increase, decrease = pre.new_zeros(len(post), len(pre)), pre.new_zeros(len(post), len(pre))
    for i in range(len(post)):
        for j in range(len(pre)):
            increase[i, j] = x[j] * post[i]
            decrease[i, j] = pre[j] * y[i]
    return x, y, increase, decrease


# Exercise 2


def scaled(up, down, cut=lambda w: w.clamp(0, 1)):
    """An answer to exercise 2 with other factors, functions of (w, mu)."""

    def answer(w, increase, decrease, mu):
        return cut(w + up(w, mu) * increase - down(w, mu) * decrease)

    return answer


def above(w, mu):
    return (1 - w) ** mu


def below(w, mu):
    return w**mu


def one_after_the_other(w, increase, decrease, mu):
    w = w + (1 - w) ** mu * increase
    return (w - w.clamp(0, 1) ** mu * decrease).clamp(0, 1)


def cut_at_mu_0_only(w, increase, decrease, mu):
    new = w + (1 - w) ** mu * increase - w**mu * decrease
    return new.clamp(0, 1) if isinstance(mu, float) and mu == 0 else new


def the_whole_weight_shrinks(w, increase, decrease, mu):
    return ((w + increase) * (1 - w) ** mu - w**mu * decrease).clamp(0, 1)


def in_float64(w, increase, decrease, mu):
    return bounded(w.double(), increase, decrease, mu)


def clamped_twice(w, increase, decrease, mu):
    grown = (w + (1 - w) ** mu * increase).clamp(0, 1)
    return (grown - w**mu * decrease).clamp(0, 1)


BOUNDS = [
    (clamped_twice, "at once", 3),
    (
        lambda w, increase, decrease, mu: bounded(w, increase.mean(), decrease.mean(), mu),
        "at once",
        3,
        "the mean change",
    ),
    (lambda w, increase, decrease, mu: increase - decrease, "additive", 0),
    (lambda w, increase, decrease, mu: (w + increase + decrease).clamp(0, 1), "additive", 0),
    (scaled(lambda w, mu: mu * (1 - w), lambda w, mu: mu * w), "additive", 0),
    (in_float64, "additive", None, "another dtype"),
    (scaled(above, below, cut=lambda w: w), "held", 1),
    (scaled(above, below, cut=lambda w: w.clamp(max=1)), "held", 1),
    (scaled(above, below, cut=lambda w: w.clamp(min=0)), "held", 1),
    (scaled(below, above), "room", 2),
    (scaled(lambda w, mu: 1.0, below), "room", 2),
    (scaled(above, lambda w, mu: 1.0), "room", 2),
    (scaled(lambda w, mu: 1 - w**mu if mu else 1.0, above), "room", 2),
    (the_whole_weight_shrinks, "room", 2),
    (cut_at_mu_0_only, "overshoot", 1),
    (one_after_the_other, "at once", 3),
    (scaled(lambda w, mu: 1.0 if mu == 0 else 1 - w, lambda w, mu: 1.0 if mu == 0 else w), "in between", 4, "an if"),
    (scaled(lambda w, mu: 1 - mu * w, lambda w, mu: 1 - mu * (1 - w)), "in between", 4),
]


def by_where(w, increase, decrease, mu):
    new = w + torch.pow(1 - w, mu) * increase - torch.pow(w, mu) * decrease
    return torch.where(new > 1, 1.0, torch.where(new < 0, 0.0, new)).to(w.dtype)


def by_minimum(w, increase, decrease, mu):
    change = increase * (1 - w).pow(mu) - decrease * w.pow(mu)
    return torch.minimum(torch.maximum(w + change, torch.zeros_like(w)), torch.ones_like(w))


# Exercise 3


def by_class(counts, labels, classes, *, of=lambda some: some.mean(0), empty=0.0, silent=-1, out=torch.int64, dim=1):
    """An answer to exercise 3 with something wrong."""
    nothing = torch.full_like(counts[0], empty)
    rows = [of(counts[labels == c]) if bool((labels == c).any()) else nothing for c in range(classes)]
    table = torch.stack(rows, 1)  # [neurons, classes]
    best = table.argmax(dim)
    if dim == 1:
        best = torch.where(counts.sum(0) > 0, best, silent)
    return best.to(out)


def wrong(**changes):
    return lambda counts, labels, classes: by_class(counts, labels, classes, **changes)


def label_of_the_best_image(counts, labels, classes):
    return torch.where(counts.sum(0) > 0, labels[counts.argmax(0)], -1)


def mean_of_images_with_spikes(some):
    return some.sum(0) / (some > 0).sum(0).clamp(min=1)


LABELS = [
    (wrong(of=lambda some: some.median(0).values), "the mean", 1, "median"),
    (wrong(of=lambda some: some.mean(0).floor()), "the mean", 1, "whole means"),
    (wrong(of=lambda some: some.clamp(max=5).mean(0)), "most spikes", 0, "clamped"),
    (lambda counts, labels, classes: counts.argmax(1), "most spikes", 0, "of the images"),
    (wrong(dim=0), "most spikes", 0),
    (lambda counts, labels, classes: by_class(counts, labels, classes) + 1, "most spikes", 0),
    (lambda counts, labels, classes: F.one_hot(by_class(counts, labels, classes), classes), "most spikes", 0),
    (wrong(of=lambda some: some.sum(0)), "the mean", 1),
    (label_of_the_best_image, "all images", 2),
    (wrong(of=lambda some: some.max(0).values), "all images", 2),
    (wrong(of=mean_of_images_with_spikes), "all images", 2),
    (wrong(silent=0), "silence", 3),
    (wrong(silent=2), "silence", 3),
    (wrong(empty=float("nan")), "no images", 4),
    (wrong(out=torch.float32), "whole numbers", 5),
    (wrong(out=torch.int32), "whole numbers", 5),
]


def by_loop(counts, labels, classes):
    found = []
    for spikes in counts.T.tolist():
        means = []
        for c in range(classes):
            mine = [n for n, label in zip(spikes, labels.tolist(), strict=True) if label == c]
            means.append(sum(mine) / len(mine) if mine else 0.0)
        found.append(max(range(classes), key=means.__getitem__) if any(means) else -1)
    return torch.tensor(found)


def by_index_add(counts, labels, classes):
    total = counts.new_zeros(classes, counts.shape[1]).index_add(0, labels, counts)
    best = (total / labels.bincount(minlength=classes).clamp(min=1)[:, None]).argmax(0)
    best[counts.sum(0) == 0] = -1
    return best


# Exercise 4


def rule(
    keep=lambda tau: math.exp(-1 / tau),
    trace=lambda keep, x, spikes: keep * x + spikes,
    grow=lambda pre, post, x, y: torch.outer(post, x),
    shrink=lambda pre, post, x, y: torch.outer(y, pre),
    cut=lambda w: w.clamp(0, 1),
    at_the_end=False,
    early=False,
    forget=False,
):
    """An answer to exercise 4 with some of its lines exchanged; ``early``: with the traces before this step."""

    def answer(pre, post, w, tau, up, down, traces=None):
        zeros = torch.zeros_like(pre[0]), torch.zeros_like(post[0])
        x, y = zeros if traces is None or forget else traces
        for pre_t, post_t in zip(pre, post, strict=True):
            seen = keep(tau) * x, keep(tau) * y
            x, y = trace(keep(tau), x, pre_t), trace(keep(tau), y, post_t)
            now = seen if early else (x, y)
            w = w + up * grow(pre_t, post_t, *now) - down * shrink(pre_t, post_t, *now)
            w = w if at_the_end else cut(w)
        return cut(w), (x, y)

    return answer


def weights_first(pre, post, w, tau, up, down, traces=None):
    x, y = (torch.zeros_like(pre[0]), torch.zeros_like(post[0])) if traces is None else traces
    for pre_t, post_t in zip(pre, post, strict=True):
        w = (w + up * torch.outer(post_t, x) - down * torch.outer(y, pre_t)).clamp(0, 1)
        x, y = math.exp(-1 / tau) * x + pre_t, math.exp(-1 / tau) * y + post_t
    return w, (x, y)


def cut_after_each(pre, post, w, tau, up, down, traces=None):
    x, y = (torch.zeros_like(pre[0]), torch.zeros_like(post[0])) if traces is None else traces
    for pre_t, post_t in zip(pre, post, strict=True):
        x, y = math.exp(-1 / tau) * x + pre_t, math.exp(-1 / tau) * y + post_t
        w = (w + up * torch.outer(post_t, x)).clamp(0, 1)
        w = (w - down * torch.outer(y, pre_t)).clamp(0, 1)
    return w, (x, y)


RULES = [
    (rule(grow=lambda pre, post, x, y: torch.outer(x, post)), "weights like w", 1, "rows for inputs"),
    (cut_after_each, "between 0 and 1", 5),
    (rule(keep=lambda tau: math.exp(-1 / int(tau))), "pre, then post", 1, "whole tau"),
    (lambda *given, **named: [stdp(*given, **named)[0].float(), 0], "weights like w", 0, "float32 only"),
    (lambda pre, post, w, tau, up, down, traces=None: stdp(pre, post, w, tau, up, down)[0], "weights like w", 0),
    (lambda *a, traces=None, **k: (rule()(*a, **k)[0].double(), None), "weights like w", 0),
    (rule(cut=lambda w: 0.99 * w), "weights like w", 0),
    (rule(grow=lambda pre, post, x, y: torch.outer(post, pre)), "pre, then post", 1),
    (rule(grow=lambda pre, post, x, y: torch.outer(y, x)), "pre, then post", 1),
    (rule(keep=lambda tau: 1 - 1 / tau), "pre, then post", 1),
    (rule(keep=lambda tau: math.exp(-1 / 10)), "pre, then post", 1),
    (rule(shrink=lambda pre, post, x, y: torch.outer(post, pre)), "post, then pre", 2),
    (rule(shrink=lambda pre, post, x, y: -torch.outer(y, pre)), "post, then pre", 2),
    (rule(early=True), "in the same step", 3),
    (weights_first, "pre, then post", 1),
    (rule(trace=lambda keep, x, spikes: torch.maximum(keep * x, spikes)), "every pair counts", 4),
    (rule(trace=lambda keep, x, spikes: torch.where(spikes > 0, spikes, keep * x)), "every pair counts", 4),
    (rule(cut=lambda w: w), "between 0 and 1", 5),
    (rule(cut=lambda w: w.clamp(min=0)), "between 0 and 1", 5),
    (rule(at_the_end=True), "between 0 and 1", 5),
    (rule(forget=True), "in two pieces", 6),
]


def in_a_dictionary(pre, post, w, tau, up, down, traces=None):
    traces = traces or {"x": pre.new_zeros(pre.shape[1]), "y": post.new_zeros(post.shape[1])}
    x, y = traces["x"], traces["y"]
    for t in range(len(pre)):
        x, y = x * math.exp(-1 / tau) + pre[t], y * math.exp(-1 / tau) + post[t]
        w = w + up * post[t][:, None] * x[None] - down * y[:, None] * pre[t][None]
        w = torch.minimum(torch.maximum(w, torch.zeros(())), torch.ones(()))
    return w, {"x": x, "y": y}


WRONG = {1: STEPS, 2: BOUNDS, 3: LABELS, 4: RULES}

RIGHT = {
    1: [by_broadcasting, neuron_by_neuron],
    2: [by_where, by_minimum],
    3: [by_loop, by_index_add],
    4: [rule(), in_a_dictionary],
}

STUBS = {
    1: [
        lambda pre, post, x, y, keep_x, keep_y: (..., ..., ..., ...),
        lambda pre, post, x, y, keep_x, keep_y: (keep_x * x + pre, keep_y * y + post, ..., ...),
    ],
    2: [lambda w, increase, decrease, mu: ...],
    3: [lambda counts, labels, classes: ...],
    4: [..., lambda *args, **kwargs: ...],
}
