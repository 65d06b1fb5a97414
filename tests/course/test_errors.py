"""The hints for errors: what PyTorch and Python really say leads to the right one."""

import pytest
import torch

from snnkit.lab.course import errors, exercises, grade

V, W = torch.tensor([0.5, 1.5]), torch.ones(2, requires_grad=True)
LABELS = torch.tensor([0, 1])


def _in_place():
    u = (W * 1.0).exp()
    u += 1
    u.sum().backward()


def _twice():
    loss = (W**2).sum()
    loss.backward()
    loss.backward()


def _add_to_leaf():
    leaf = torch.ones(2, requires_grad=True)
    leaf += 1


MISTAKES = {
    "if on a tensor": (lambda: 1 if V >= 1 else 0, "torch.where"),
    "where without a condition": (lambda: torch.where(V, 0.0, V), "a comparison"),
    "torch.exp of a number": (lambda: torch.exp(-1 / 20), "`math`"),
    "torch.max of two numbers": (lambda: torch.max(1.5, 2.5), "`max`"),
    "an unknown name": (lambda: dt * V, "spelled"),  # noqa: F821
    "the state forgotten": (lambda: torch.nn.functional.mse_loss((V, V), V), "two things"),
    "arithmetic with both": (lambda: (V, V) * V, "two things"),
    "a method of both": (lambda: (V, V).sum(), "two things"),
    "too few names": (lambda: [a + b for a, b in [(1, 2, 3)]], "How many things"),
    "values and indices in one": (lambda: V.max(0) < 0, "`.amax(0)`"),
    "two axes": (lambda: torch.ones(2, 3).all(0, 1), "dim=(0, 1)"),
    "None times a tensor": (lambda: None * V, "is None"),
    "a method of None": (lambda: None.sum(), "is None"),
    "backward of a tensor": (lambda: (W * 1).backward(), "one number"),
    "a cut graph": (lambda: V.sum().backward(), "cut the graph"),
    "a leaf changed": (_add_to_leaf, "no_grad"),
    "in place": (_in_place, "v = v + x"),
    "time is still there": (lambda: torch.nn.functional.cross_entropy(torch.ones(5, 2, 3), LABELS), "[B, C]"),
    "no classes are left": (lambda: torch.nn.functional.cross_entropy(V, LABELS), "[B, C]"),
    "backward twice": (_twice, "forward pass of its own"),
    "two shapes": (lambda: torch.ones(3) + torch.ones(4), "Print both"),
    "a product of two shapes": (lambda: torch.ones(2, 3) @ torch.ones(2, 3), "Print both"),
    "divided by 0": (lambda: 1 / 0, "divided by 0"),
    "a difference of booleans": (lambda: (V > 1) - V, "`.float()`"),
    "a mean of booleans": (lambda: (V > 1).mean(), "`.float()`"),
    "an index too large": (lambda: V[2], "n - 1"),
    "an item too many": (lambda: [1, 2][2], "n - 1"),
    "whole numbers wanted": (lambda: torch.bincount(V), "`//`"),
    "a slice with a fraction": (lambda: V[: len(V) / 2], "`//`"),
    "a range with a fraction": (lambda: range(len(V) / 2), "`//`"),
    "an index with a fraction": (lambda: V[torch.tensor([0.5])], "`.long()`"),
}


@pytest.mark.parametrize(("mistake", "hint"), MISTAKES.values(), ids=MISTAKES)
def test_an_error_has_its_hint(mistake, hint):
    with pytest.raises(Exception) as raised:
        mistake()
    assert hint in errors.hint(type(raised.value).__name__, str(raised.value)), str(raised.value)


def test_an_error_that_says_it_all_has_none():
    assert errors.hint("AssertionError", "T must be at least 2") == ""


def test_the_card_has_the_hint():
    (charge,) = (one for one in exercises("first_spiking_neuron") if one.key == "first_spiking_neuron.1")

    def exact(x, v, tau):
        return x + (v - x) * torch.exp(-1 / tau)

    outcome = grade(charge, exact)
    assert outcome.status == "failed" and "math.exp" in outcome.hint


def test_the_line_of_a_static_method_is_shown():
    class Slip(torch.autograd.Function):
        @staticmethod
        def forward(ctx, u, alpha):
            return (u >= 0).to(u.dtype)

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * alpha, None  # noqa: F821

    outcome = grade("surrogate_gradients.1", Slip)
    assert "return grad_output * alpha" in outcome.where and "spelled" in outcome.hint
