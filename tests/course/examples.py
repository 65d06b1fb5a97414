"""An exercise of a notebook "trial" that does not exist, for tests of what the course does with answers."""

import sys
from types import ModuleType

import torch

from snnkit.lab.course import expect, question
from snnkit.lab.course.exercise import Check, Exercise


def leak(v, x, beta):
    return beta * v + x


def _leaks(candidate, reference):
    v, x = torch.tensor([0.5, 1.0]), torch.zeros(2)
    yours = candidate(v, x, 0.9)
    expect.tensor(yours, v, inputs={"v": v})
    expect.close(yours, reference(v, x, 0.9), "Without input the potential <b>decays</b>.", inputs={"v": v}, hint=0)


def _adds(candidate, reference):
    v, x = torch.zeros(2), torch.ones(2)
    expect.close(candidate(v, x, 0.9), reference(v, x, 0.9), "The input is added.", hint="Where is x?")


HINTS = ("v shrinks.", "by the factor `beta`.", "beta * v + x")
EXERCISE = Exercise(
    "trial.1",
    "One leaky step",
    leak,
    [Check("a silent neuron leaks", _leaks), Check("input charges", _adds)],
    hints=HINTS,
    seconds=1.0,  # far more than the checks take, also on a busy machine
)
ANSWER = Exercise(
    "trial.2", "A number", 42.0, [Check("the number", lambda a, b: expect.close(a, b, "It is not that."))]
)


QUIZ = """
quiz:
  - text: Which?
    choices: [{text: this, reply: No.}, {text: that, reply: Yes., right: true}]
    why: Because.
"""


def install(monkeypatch, *exercises, texts=QUIZ):
    """Make the notebook "trial" known, with these exercises and ``texts`` as its file of questions."""
    module = ModuleType("snnkit.lab.exercises.trial")
    module.EXERCISES = list(exercises)
    monkeypatch.setitem(sys.modules, "snnkit.lab.exercises.trial", module)
    monkeypatch.setattr(question, "read", lambda name: question.parse(texts if name == "trial" else "{}", name))
    return module
