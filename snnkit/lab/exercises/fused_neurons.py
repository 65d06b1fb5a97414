"""Exercises of "Fused multi-step neurons"."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from snnkit.lab.course import expect
from snnkit.lab.course.exercise import Check, Exercise
from snnkit.surrogate import ATan

THRESHOLD, DECAY, REST = 1.0, 0.9, 2.0


def bytes_moved(ops, x=4, spike=4):
    """Bytes per neuron and step: (every operation by itself, all fused: inference, all fused: training)."""
    alone = sum(sum(reads) + sum(writes) for _, reads, writes in ops)
    inference = x + spike
    training = (x + spike) + (x + spike + x)  # forward; backward: x and d_spike in, d_x out
    return alone, inference, training


def resting_step(x, v, rest, fire):
    """One step of neurons [...] that rest for two steps after a spike: (spike, v, rest)."""
    awake = rest <= 0
    v = torch.where(awake, DECAY * v + x, v)
    spike = torch.where(awake, fire(v - THRESHOLD), 0.0)
    return spike, v * (1 - spike), torch.where(awake, REST * spike, rest - 1)


def one_resting_neuron(x, v, rest):
    """The same for one neuron and plain numbers; ``resting_step`` must agree with it."""
    if rest > 0:
        return 0.0, v, rest - 1
    v = DECAY * v + x
    if v >= THRESHOLD:
        return 1.0, 0.0, REST
    return 0.0, v, 0.0


def least_seconds(operations, bytes, rate, bandwidth):
    """The least time of a program that computes and moves memory at the same time."""
    return max(operations / rate, bytes / bandwidth)


_THREE = "The answer is three numbers: alone, inference, training."
_OPS = [("sub", (4, 4), (4,)), ("mul", (4,), (4,)), ("add", (4, 4), (4,)), ("ge", (4,), (1,)), ("_to_copy", (1,), (4,))]


def _every_operation_by_itself(candidate: Any, reference: Any) -> None:
    for ops in (_OPS, [("add", (4, 4), (4,))], [("zeros", (), (4,))]):
        message = "The bytes that an operation reads are a tuple of numbers, and so are those that it writes."
        with expect.explained(TypeError, "'tuple'", message, inputs={"ops": ops}, hint=0):
            result = expect.parts(candidate(ops), 3, _THREE)[0]
        message = "Each operation alone reads all its tensors and writes its result."
        reads, writes = sum(sum(op[1]) for op in ops), sum(sum(op[2]) for op in ops)
        hint = 1 if writes and result in (reads, writes) else 0
        expect.close(result, reads + writes, message, inputs={"ops": ops}, hint=hint)


def _fused_inference(candidate: Any, reference: Any) -> None:
    message = "All steps in one kernel: what it must read and write for each neuron and step."
    result = expect.parts(candidate(_OPS), 3, _THREE)[1]
    expect.close(result, 8, message, inputs={"x": 4, "spike": 4}, hint=2 if result in (12, 16) else 3)
    for x, spike in ((2, 2), (4, 1)):
        result = expect.parts(candidate(_OPS, x, spike), 3, _THREE)[1]
        message = "Narrower numbers are fewer bytes. x and the spikes may differ in width."
        expect.close(result, x + spike, message, inputs={"x": x, "spike": spike}, hint=3)


def _fused_training(candidate: Any, reference: Any) -> None:
    for x, spike in ((4, 4), (2, 2), (4, 1)):
        inference, training = expect.parts(candidate(_OPS, x, spike), 3, _THREE)[1:]
        message = "Training is forward and backward: count both."
        hint = {2 * inference: 5, 3 * inference: 6}.get(training, 4) if isinstance(training, (int, float)) else 4
        expect.close(training, reference(_OPS, x, spike)[2], message, inputs={"x": x, "spike": spike}, hint=hint)


_FIRE = ATan()
_FIRED = "`fire(v - 1.0)` gives spikes of the dtype of v, with a gradient."


def _run(candidate: Any, x: Tensor) -> Tensor:
    """[spike v rest, T, N] of the learner's step, from zero."""
    v = rest = torch.zeros_like(x[0])
    rows = []
    for x_t in x:
        spike, v, rest = _step(candidate, x_t, v, rest)
        rows.append(torch.stack([torch.as_tensor(part).float() for part in (spike, v, rest)]))
    return torch.stack(rows, 1)


def _step(candidate: Any, x: Tensor, v: Tensor, rest: Tensor) -> Sequence[Any]:
    message = "`if` asks for one True or False, but each neuron has its own."
    with expect.explained(RuntimeError, "Boolean value of Tensor", message, inputs={"rest": rest}, hint=0):
        result = candidate(x, v, rest, _FIRE)
    return expect.parts(result, 3, "A step returns three tensors: spike, v, rest.")


def _many_neurons(candidate: Any, reference: Any) -> None:
    for dtype in (torch.float32, torch.float64):
        x = torch.tensor([1.5, 0.2, 1.5], dtype=dtype)
        v, rest = torch.tensor([0.0, 0.5, 0.0], dtype=dtype), torch.tensor([0.0, 0.0, 2.0], dtype=dtype)
        result = _step(candidate, x, v, rest)
        for name, part in zip(("spike", "v", "rest"), result, strict=True):
            message = f"`{name}` is a tensor with a number for each neuron, of the dtype of x."
            compared = name == "spike" and isinstance(part, Tensor) and part.dtype != x.dtype  # (v >= 1.0).float()
            expect.tensor(part, x, message, hint=_FIRED if compared else 1)


def _two_steps_of_rest(candidate: Any, reference: Any) -> None:
    x = torch.full((4, 1), 5.0)
    spikes, vs, rests = (part[:, 0].tolist() for part in _run(candidate, x))
    inputs = {"x": "5.0 at each of 4 steps"}
    expect.close(spikes, [1, 0, 0, 1], "A spike, two steps of rest, a spike.", inputs=inputs, hint=3)
    expect.close(rests, [2, 1, 0, 2], "`rest` counts down, once a step.", inputs=inputs, hint=3)
    message = "A resting neuron ignores its input: its membrane stays as it was."
    expect.close(vs, [0, 0, 0, 0], message, inputs=inputs, hint=4)
    _, v, _ = _step(candidate, torch.tensor([0.5]), torch.tensor([0.3]), torch.tensor([1.0]))
    expect.close(v, torch.tensor([0.3]), message, inputs={"x": 0.5, "v": 0.3, "rest": 1.0}, hint=4)


def _as_one_neuron_does(candidate: Any, reference: Any) -> None:
    generator = torch.Generator().manual_seed(2)
    x = torch.rand(40, 6, generator=generator) * 1.2 - 0.1
    x[20:, 5], x[:, 4] = -9.0, 3 * x[:, 4]  # far below rest
    rows = [[(0.0, 0.0, 0.0)] * 6]  # spike, v and rest of each neuron, before the first step
    for x_t in x.tolist():
        rows.append([one_resting_neuron(one, v, rest) for one, (_, v, rest) in zip(x_t, rows[-1], strict=True)])
    want = torch.tensor(rows[1:]).permute(2, 0, 1)
    message = "Six neurons at once do what each does alone."
    expect.close(_run(candidate, x), want, message, inputs={"x": "[40, 6]"}, hint=1, atol=1e-5)


def _elementwise(candidate: Any, reference: Any) -> None:
    alone = inspect.unwrap(candidate)  # no engine can compile what watches its arguments

    def step(x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        spike, v, rest = alone(x, *state, _FIRE)
        return spike, (v, rest)

    message = "The step is elementwise, so that it can be traced and fused."
    expect.elementwise(step, (torch.zeros(1), torch.zeros(1)), message, hint=2)


def _learns(candidate: Any, reference: Any) -> None:
    x = torch.tensor([0.8, 0.8, 0.8], requires_grad=True)
    v, rest = torch.tensor([0.1, 0.6, 0.0]), torch.tensor([0.0, 0.0, 1.0])
    spike = _step(candidate, x, v, rest)[0]
    message = "The gradient of a spike reaches the input of neurons that are awake."
    expect.true(spike.requires_grad, message, yours="no gradient", hint=5)
    (result,) = torch.autograd.grad(spike.sum(), x)
    (want,) = torch.autograd.grad(reference(x, v, rest, _FIRE)[0].sum(), x)
    expect.close(result, want, message, inputs={"v": v, "rest": rest}, hint=5)
    earlier = torch.full((3,), 0.2, requires_grad=True)
    _, v, rest = _step(candidate, earlier, torch.zeros(3), torch.zeros(3))
    spike = _step(candidate, x.detach(), v, rest)[0]
    (result,) = torch.autograd.grad(spike.sum(), earlier, allow_unused=True) if spike.requires_grad else (None,)
    message = "The gradient reaches the input of the step before, through the membrane."
    reached = result is not None and bool((result > 0.01).all())
    expect.true(reached, message, yours=result, hint="No `.detach()` of v: a membrane passes its gradient on.")


def _memory_is_slow(candidate: Any, reference: Any) -> None:
    inputs = {"operations": 1e6, "bytes": 8.5e9, "rate": 1e12, "bandwidth": 1e9}
    result = expect.written(candidate(*inputs.values()))
    message = "8.5 GB at 1 GB/s and next to nothing to compute: 8.5 seconds."
    hint = 1 if isinstance(result, (int, float)) and 0 < result < 1e-3 else 0
    expect.close(result, 8.5, message, inputs=inputs, hint=hint)
    inputs = {"operations": 10.0, "bytes": 1e9, "rate": 1e12, "bandwidth": 3e9}
    message = "1 GB at 3 GB/s and next to nothing to compute: a third of a second."
    expect.close(candidate(*inputs.values()), 1 / 3, message, inputs=inputs, hint=0)


EXERCISES = [
    Exercise(
        "fused_neurons.1",
        "Count the bytes",
        bytes_moved,
        [
            _every_operation_by_itself,
            Check("fused, inference", _fused_inference),
            Check("fused, training", _fused_training),
        ],
        minutes=7,
        difficulty=2,
        hints=(
            "For one operation: `sum(reads) + sum(writes)`. For all: the sum over `for name, reads, writes in ops`.",
            "Reading and writing both cost. Did you count both?",
            "The state is in a register from the first step to the last. So it costs no memory traffic per step.",
            "Only x comes in and only the spike goes out: `x + spike`. Both sizes are arguments.",
            "Backward reads the gradient of the spikes (as wide as they are) and writes that of x. What else is read?",
            "v was not stored. So backward runs forward again, from x: count x twice in all.",
            "Intermediate values (v, v - 1) cost nothing: they are not stored. Forward: 2 streams. Backward: 3.",
        ),
    ),
    Exercise(
        "fused_neurons.2",
        "A step that fuses",
        resting_step,
        [_many_neurons, _two_steps_of_rest, _as_one_neuron_does, _elementwise, _learns],
        minutes=8,
        difficulty=3,
        hints=(
            "`torch.where(condition, this, that)` chooses for each neuron. `rest <= 0` is such a condition.",
            "Each neuron alone (no `.any()`, `.mean()`, …), line by line as in `one_resting_neuron`.",
            "Indexing by a mask selects some neurons, so neighbours matter. Compute both cases for all, then choose.",
            "Three cases for `rest`: resting `rest - 1`, fired 2, else 0: `torch.where(awake, 2 * spike, rest - 1)`.",
            "First `v = torch.where(awake, 0.9 * v + x, v)`, then the reset: `v * (1 - spike)`.",
            "`v >= 1` has no gradient. `fire(v - 1.0)` has the same value and the surrogate's gradient.",
        ),
    ),
    Exercise(
        "fused_neurons.3",
        "The roofline",
        least_seconds,
        [
            _memory_is_slow,
            expect.same(
                "arithmetic is slow",
                2,
                "5.5·10¹² operations at 10¹² per second and next to nothing to move: 5.5 seconds.",
                {"operations": 5.5e12, "bytes": 1e3, "rate": 1e12, "bandwidth": 1e9},
            ),
            expect.same(
                "at the same time",
                3,
                "3 s of arithmetic while 4 s of memory traffic goes on: both are done after 4 s.",
                {"operations": 3e9, "bytes": 4e9, "rate": 1e9, "bandwidth": 1e9},
            ),
        ],
        minutes=4,
        hints=(
            "Bytes over bytes per second are seconds: `bytes / bandwidth`. The same with `operations / rate`.",
            "The slower of the two decides. Here nearly all the time is for moving bytes.",
            "There are two limits. Here almost nothing is moved, so the other limit counts: `operations / rate`.",
            "They overlap: the next numbers arrive while these are computed. So do not add: `max(…, …)`.",
        ),
    ),
]
