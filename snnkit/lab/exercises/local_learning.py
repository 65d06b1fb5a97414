"""Exercises of "Local learning"."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from snnkit.lab.course import expect
from snnkit.lab.course.exercise import Check, Exercise

NAMES = ("x", "y", "increase", "decrease")


def stdp_step(pre, post, x, y, keep_x, keep_y):
    """One step of pair STDP: the traces, and the increase and decrease of each weight."""
    x = keep_x * x + pre
    y = keep_y * y + post
    increase = torch.outer(post, x)  # a postsynaptic spike meets the trace of earlier presynaptic ones
    decrease = torch.outer(y, pre)  # and the other way round
    return x, y, increase, decrease


def bounded(w, increase, decrease, mu):
    """The weights after one step, in [0, 1]: each change is scaled by the remaining room to the power mu."""
    return (w + (1 - w) ** mu * increase - w**mu * decrease).clamp(0, 1)


def assign_labels(counts, labels, classes):
    """The class that makes each neuron fire most, -1 for a silent neuron."""
    member = F.one_hot(labels, classes).to(counts.dtype)  # [N, classes]: 1 where an image is of a class
    mean = counts.T @ member / member.sum(0).clamp(min=1)
    return torch.where(mean.sum(1) > 0, mean.argmax(1), -1)


def stdp(pre, post, w, tau, up, down, traces=None):
    """Pair STDP over time: pre [T, M], post [T, N], w [N, M] -> the weights after it [N, M], and the two traces."""
    x, y = (torch.zeros_like(pre[0]), torch.zeros_like(post[0])) if traces is None else traces
    keep = math.exp(-1 / tau)
    for pre_t, post_t in zip(pre, post, strict=True):
        x, y = keep * x + pre_t, keep * y + post_t
        w = (w + up * torch.outer(post_t, x) - down * torch.outer(y, pre_t)).clamp(0, 1)
    return w, (x, y)


def _step(candidate: Any, pre: Any, post: Any, x: Any, y: Any) -> tuple:
    """The four tensors of an answer, and the arguments as a learner should see them."""
    pre, post, x, y = (torch.tensor(values, dtype=torch.float64) for values in (pre, post, x, y))
    shown = {"pre": pre, "post": post, "x": x, "y": y, "keep_x": 0.5, "keep_y": 0.8}
    message = "The answer is four tensors: x, y, increase, decrease."
    return (*expect.parts(candidate(*shown.values()), 4, message), shown)


def _the_traces(candidate: Any, reference: Any) -> None:
    message = "Each of the three neurons meets each of the two inputs: the changes are [3, 2]."
    for pre, post in (([0, 0], [0, 0, 0]), ([1, 0], [0, 1, 0])):
        with expect.explained(RuntimeError, "size of tensor", message, hint=1):
            *result, shown = _step(candidate, pre, post, [0.4, 1.5], [0.2, 1.0, 0.6])
        want = reference(*shown.values())
        message = "A trace shrinks by its factor in each step, and each spike adds 1 to it."
        for name, one, right in zip(NAMES, result[:2], want[:2], strict=False):
            expect.close(one, right, message.replace("A trace", f"The trace `{name}`", 1), inputs=shown, hint=0)


def _rows_and_columns(candidate: Any, reference: Any) -> None:
    *result, shown = _step(candidate, [1, 0], [0, 1, 0], [0.4, 1.5], [0.2, 1.0, 0.6])
    for name, change in zip(NAMES[2:], result[2:], strict=True):
        message = f"`{name}` has a row for each postsynaptic neuron and a column for each presynaptic one."
        expect.tensor(change, torch.zeros(3, 2, dtype=torch.float64), message, inputs=shown, hint=1)


def _pre_then_post(candidate: Any, reference: Any) -> None:
    *_, increase, decrease, shown = _step(candidate, [0, 0], [0, 1, 0], [1.0, 0.0], [0.0, 0.0, 0.0])
    want = reference(*shown.values())
    message = "Post fires some time after pre: the weight between the two becomes stronger, and no other."
    expect.close(increase, want[2], message, inputs=shown, hint=2)
    expect.close(decrease, want[3], "If pre is silent in this step, there is no decrease.", inputs=shown, hint=2)


def _post_then_pre(candidate: Any, reference: Any) -> None:
    *_, increase, decrease, shown = _step(candidate, [0, 1], [0, 0, 0], [0.0, 0.0], [0.0, 1.0, 0.0])
    want = reference(*shown.values())
    message = "Pre fires some time after post: `decrease` is the amount, 0 or more, by which their weight shrinks."
    expect.close(decrease, want[3], message, inputs=shown, hint=3)
    expect.close(increase, want[2], "If post is silent in this step, there is no increase.", inputs=shown, hint=2)


def all_pairs(first: Tensor, then: Tensor, keep: float) -> Tensor:
    """The sum [n, m] over pairs of a spike in ``first`` [T, m] and a later or equal one in ``then`` [T, n]."""
    total = torch.zeros(then.shape[1], first.shape[1], dtype=first.dtype)
    for early, late in torch.triu_indices(len(first), len(first)).T.tolist():
        total += keep ** (late - early) * torch.outer(then[late], first[early])
    return total


def _all_pairs(candidate: Any, reference: Any) -> None:
    generator = torch.Generator().manual_seed(3)
    pre, post = ((torch.rand(20, n, generator=generator) < 0.4).double() for n in (4, 3))
    x, y, keep = torch.zeros(4).double(), torch.zeros(3).double(), (math.exp(-1 / 5), math.exp(-1 / 8))
    more, less = torch.zeros(3, 4).double(), torch.zeros(3, 4).double()
    for pre_t, post_t in zip(pre, post, strict=True):
        x, y, increase, decrease = candidate(pre_t, post_t, x, y, *keep)
        more, less = more + increase, less + decrease
    message = "Added up over 20 steps, it is the sum over all pairs of spikes."
    shown = "random spikes of 4 presynaptic and 3 postsynaptic neurons"
    expect.close(more, all_pairs(pre, post, keep[0]), message, inputs=shown, hint=0)
    expect.close(less, all_pairs(post, pre, keep[1]).T, message, inputs=shown, hint=0)


_ONE = torch.ones(1)
W = torch.tensor([[0.2, 0.5, 0.9], [0.0, 0.6, 1.0]], dtype=torch.float64)

_OWN = torch.tensor([[1.0, 0.8, 0.5], [0.4, 0.9, 1.0]], dtype=torch.float64)


def _change(up: Any = 0.0, down: Any = 0.0, mu: Any = 1.0) -> dict[str, Any]:
    return {"w": W, "increase": up * torch.ones_like(W), "decrease": down * torch.ones_like(W), "mu": mu}


def _additive(candidate: Any, reference: Any) -> None:
    w, none = torch.full((2, 2), 0.5), torch.zeros(2, 2)
    shown = {"w": w, "increase": none + 0.2, "decrease": none + 0.05, "mu": 0.0}
    message = "With mu = 0 both factors are 1 for any weight: 0.5 + 0.2 - 0.05."
    expect.tensor(candidate(*shown.values()), w, inputs=shown)
    expect.close(candidate(*shown.values()), w + 0.15, message, inputs=shown, hint=0)


def _counts(counts: Sequence, labels: Sequence, classes: int) -> dict[str, Any]:
    return {"counts": torch.tensor(counts, dtype=torch.float32), "labels": torch.tensor(labels), "classes": classes}


def _whole_numbers(candidate: Any, reference: Any) -> None:
    result = candidate(torch.tensor([[5.0], [1.0]]), torch.tensor([0, 1]), 2)
    like = torch.zeros(1, dtype=torch.int64)
    expect.tensor(result, like, "Labels are whole numbers (int64), as those of images are.", hint=5)


# --- the build --------------------------------------------------------------------------------------------------------


def _seeded(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def _stdp(candidate: Any, pre: Tensor, post: Tensor, w: Tensor, **changes: Any) -> Any:
    given = {"tau": 10.0, "up": 0.1, "down": 0.05} | changes
    message = "w is [N, M], as in torch.outer: a row for each neuron, a column for each input."
    with expect.explained(RuntimeError, "size of tensor", message, hint=1):
        answer = candidate(pre, post, w, **given)
    return expect.parts(answer, 2, "It returns two things: w, traces.", hint=0)


_START = torch.tensor([[0.5, 0.4], [0.3, 0.6], [0.5, 0.5]])  # from 2 inputs to 3 neurons


def _weights_like_w(candidate: Any, reference: Any) -> None:
    for given in (_START, _START.double()):
        pre, post = given.new_zeros(20, 2), given.new_zeros(20, 3)
        w = _stdp(candidate, pre, post, given)[0]
        expect.tensor(w, given, "The weights have the shape and dtype of w, [N, M].", hint=0)
        expect.close(w, given, "Without spikes no weight changes.", hint=0)


def _pair(candidate: Any, reference: Any, first: int, then: int, message: str, hint: int) -> None:
    """One spike of input 1 and one of neuron 2."""
    pre, post = torch.zeros(20, 2), torch.zeros(20, 3)
    pre[first, 1] = post[then, 2] = 1.0
    inputs = {"input 1 fires at": first, "neuron 2 fires at": then, "w": _START, "tau": 10, "up": 0.1, "down": 0.05}
    for tau in (10.0, 4.5):
        yours, want = (_stdp(one, pre, post, _START, tau=tau)[0] for one in (candidate, reference))
        expect.close(yours, want, message, inputs=inputs | {"tau": tau}, hint=hint)


def _w_pre_then_post(candidate: Any, reference: Any) -> None:
    message = "Input 1 fires, neuron 2 five steps later: w[2, 1] grows by up * exp(-5 / tau), nothing else changes."
    _pair(candidate, reference, 3, 8, message, 1)


def _w_post_then_pre(candidate: Any, reference: Any) -> None:
    message = "Neuron 2 fires, input 1 five steps later: w[2, 1] shrinks by down * exp(-5 / tau)."
    _pair(candidate, reference, 8, 3, message, 2)


def _in_the_same_step(candidate: Any, reference: Any) -> None:
    message = "Two spikes in one step are a pair on both sides: w[2, 1] changes by up - down."
    _pair(candidate, reference, 5, 5, message, 3)


def _every_pair_counts(candidate: Any, reference: Any) -> None:
    pre, post = (_seeded(40, n, seed=5) < 0.2 for n in (2, 3))
    yours, want = (_stdp(f, pre.float(), post.float(), _START, up=0.01, down=0.008)[0] for f in (candidate, reference))
    message = "Each spike forms a pair with every earlier spike of the other side."
    expect.close(yours, want, message, inputs="random spikes over 40 steps", hint=4)


def _between_0_and_1(candidate: Any, reference: Any) -> None:
    pre, post = torch.zeros(20, 2), torch.zeros(20, 3)
    pre[2], post[3], pre[9] = 1.0, 1.0, 1.0
    post[9, 1:] = 1.0  # both at once: the sum of both changes is clamped, once
    for change in ({"up": 2.0, "down": 0.4}, {"up": 0.0, "down": 2.0}, {"up": 0.6, "down": 2.0}):
        yours, want = (_stdp(one, pre, post, _START, **change)[0] for one in (candidate, reference))
        message = (
            "After each step, growth and shrinkage together, the weights are in [0, 1]. The next starts from these."
        )
        expect.close(yours, want, message, inputs=change, hint=5)


def _it_goes_on(candidate: Any, reference: Any) -> None:
    pre, post = (_seeded(40, n, seed=6) < 0.2 for n in (2, 3))
    pre, post, small = pre.float(), post.float(), {"up": 0.01, "down": 0.008}
    whole, _ = _stdp(candidate, pre, post, _START, **small)
    w, traces = _stdp(candidate, pre[:15], post[:15], _START, **small)
    w, _ = _stdp(candidate, pre[15:], post[15:], w, **small, traces=traces)
    message = "15 steps, then 25 that start from the traces returned, are the same as 40 at once."
    expect.close(w, whole, message, hint=6)


EXERCISES = [
    Exercise(
        "local_learning.1",
        "One step of STDP",
        stdp_step,
        [
            _the_traces,
            _rows_and_columns,
            Check("pre, then post", _pre_then_post),
            Check("post, then pre", _post_then_pre),
            expect.same(
                "in one step",
                4,
                "Two spikes in one step are a pair on both sides: each meets a trace that already includes the other.",
                {"pre": _ONE, "post": _ONE, "x": 0 * _ONE, "y": 0 * _ONE, "keep_x": 0.5, "keep_y": 0.8},
            ),
            _all_pairs,
        ],
        minutes=7,
        difficulty=2,
        hints=(
            "First the old trace shrinks, `keep_x * x`, then new spikes add, `+ pre`. Nothing else changes a trace.",
            "`torch.outer(a, b)` has rows for the elements of `a` and columns for those of `b`. Rows are postsynaptic.",
            "`increase` happens when post fires. Its size is the trace of presynaptic spikes: `post` and `x`.",
            "`decrease` happens when pre fires. Its size is the trace of postsynaptic spikes: `y` and `pre`. "
            "It is a size: the minus sign comes later.",
            "Use the new traces, after the spikes of this step were added.",
        ),
    ),
    Exercise(
        "local_learning.2",
        "Bounds, hard and soft",
        bounded,
        [
            _additive,
            expect.same(
                "held",
                1,
                "No weight gets above 1, however large the increase.",
                _change(up=0.7, mu=0.0),
                "No weight gets below 0, however large the decrease.",
                _change(down=0.7, mu=0.0),
            ),
            expect.same(
                "room",
                2,
                "With mu = 1 an increase is scaled by the room left above, 1 - w.",
                _change(up=0.1),
                "With mu = 1 a decrease is scaled by the room left below, w.",
                _change(down=0.1),
            ),
            expect.same(
                "overshoot",
                1,
                "With mu = 1 and many pairs at once, a weight could still leave [0, 1]: it is clamped.",
                _change(up=1.5),
            ),
            expect.same(
                "at once",
                3,
                "Both factors see the weight as it was before the step.",
                _change(up=0.4, down=0.3),
                "Each weight has its own changes.",
                _change(up=0.4 * _OWN, down=0.3 * _OWN.flip(1)),
                "The sum of both changes is clamped, once.",
                _change(up=0.7, down=0.4, mu=0.0),
            ),
            expect.same(
                "in between",
                4,
                "Between additive and multiplicative, the factor is the room to the power mu.",
                _change(up=0.1, down=0.1, mu=0.5),
                "mu may be a column: one exponent for each postsynaptic neuron.",
                _change(up=0.1, down=0.1, mu=torch.tensor([[0.0], [1.0]], dtype=torch.float64)),
                "mu may be above 1.",
                _change(up=0.1, down=0.1, mu=2.0),
            ),
        ],
        hints=(
            "`w + … * increase - … * decrease`. Anything to the power 0 is 1, 0 included.",
            "`.clamp(0, 1)`, at the very end and for every mu.",
            "The room is `1 - w` upwards and `w` downwards.",
            "Use one expression, with the same old `w` in both factors.",
            "`(1 - w) ** mu` and `w ** mu`: a power, not a product.",
        ),
    ),
    Exercise(
        "local_learning.3",
        "Which class does a neuron represent?",
        assign_labels,
        [
            expect.same(
                "most spikes",
                0,
                "A neuron represents the class whose images make it fire most.",
                _counts([[5, 0, 1], [0, 4, 1], [1, 0, 9]], [0, 1, 2], 3),
                _counts([[5, 0], [0, 4], [1, 3], [0, 1]], [2, 0, 2, 1], 3),
                _counts([[30], [20]], [1, 0], 2),
            ),
            expect.same(
                "the mean",
                1,
                "Means count: three images of class 0 with 2 spikes each are less than one of class 1 with 5.",
                _counts([[2], [2], [2], [5]], [0, 0, 0, 1], 2),
                "Means need not be whole numbers: 2 spikes are less than 2.5.",
                _counts([[2], [2], [2], [3]], [0, 0, 1, 1], 2),
            ),
            expect.same(
                "all images",
                2,
                "Images of class 1 with 9, 0 and 0 spikes, 3 on average, are less than one of class 0 with 4.",
                _counts([[4], [9], [0], [0]], [0, 1, 1, 1], 2),
                "Images of class 1 with 9, 0 and 0 spikes are more than one of class 0 with 2.",
                _counts([[2], [9], [0], [0]], [0, 1, 1, 1], 2),
            ),
            expect.same(
                "silence", 3, "A neuron that never fires represents nothing: -1.", _counts([[0, 3], [0, 1]], [1, 0], 2)
            ),
            expect.same(
                "no images",
                4,
                "A class without images gets no neuron and causes no NaN.",
                _counts([[1, 0, 4], [3, 0, 2]], [0, 3], 4),
            ),
            _whole_numbers,
        ],
        minutes=6,
        difficulty=2,
        hints=(
            "With `member = F.one_hot(labels, classes).float()`, `counts.T @ member` is [neurons, classes]: a neuron's "
            "spikes for a class. Then its `argmax(1)`.",
            "Divide by the number of images of each class, `F.one_hot(labels, classes).sum(0)`. Else frequent classes "
            "win.",
            "All images of a class count, also those without a spike: divide by `F.one_hot(labels, classes).sum(0)`.",
            "Let `mean` be [neurons, classes] and `best` its `argmax(1)`. `torch.where(mean.sum(1) > 0, best, -1)`: a "
            "neuron without spikes must not get the first class.",
            "0 / 0 is NaN, and NaN wins every argmax. Divide by the number of images, `.clamp(min=1)`.",
            "`argmax` gives int64; leave it so.",
        ),
    ),
    Exercise(
        "local_learning.4",
        "STDP with traces",
        stdp,
        [
            _weights_like_w,
            Check("pre, then post", _w_pre_then_post),
            Check("post, then pre", _w_post_then_pre),
            _in_the_same_step,
            _every_pair_counts,
            _between_0_and_1,
            Check("in two pieces", _it_goes_on),
        ],
        minutes=20,
        difficulty=3,
        list_all=True,
        hints=(
            "Two traces: x with one number per input, y with one per neuron, zeros at first. Return `w, (x, y)`.",
            "In each step `x = keep * x + pre_t` with `keep = math.exp(-1 / tau)`. Where post fires, w grows: "
            "`up * torch.outer(post_t, x)`.",
            "The mirror: `y = keep * y + post_t`. Where pre fires, w shrinks: `down * torch.outer(y, pre_t)`.",
            "Update both traces first, then the weights. Then a spike also meets the other side's spike of this step.",
            "A trace adds up: `+ pre_t`, not a maximum or a restart at 1.",
            "`.clamp(0, 1)` inside the loop, once in a step: after both changes.",
            "If traces are given, start from them in place of zeros.",
        ),
    ),
]
