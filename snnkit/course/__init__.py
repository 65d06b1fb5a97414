"""Attempt-or-fall-back exercises, hints, quizzes and scorecards for the notebooks.

In a notebook:

    from snnkit import course
    from snnkit.course import attempt, hint, solution, quiz, scorecard

    course.start("01", solve=SOLVE)
    lif_step = attempt("01.1", lif_step)     # the learner's function if it passes, else the reference

The exercises of notebook "01" are data in ``snnkit/course/nb01.py``:

    from snnkit.course.exercise import Check, Exercise, Question, Violation
    from snnkit.course import expect

    def lif_step(v, x, beta):
        return beta * v + x

    def leaks(candidate, reference):
        v, x = torch.tensor([0.5]), torch.zeros(1)
        expect.close(candidate(v, x, 0.9), reference(v, x, 0.9), "Without input the potential decays.", hint=0)

    EXERCISES = [Exercise("01.1", "One step of a LIF neuron", lif_step, [Check("a silent neuron leaks", leaks)],
                          minutes=6, hints=("What happens to v without input?", "v shrinks by the factor beta."))]
    QUIZ = [Question("Which …?", ("this", "that"), answer=1, why="Because …")]

Whoever runs a room:

    course.export("ada.json")                # a learner's whole progress, to be handed in
    course.room("room/")                     # everybody's: who is where, who is stuck, what fails most

Checks get tests with ``grade("01.1", candidate)``, which returns an ``Outcome`` and shows nothing.
"""

from . import expect as expect
from .answers import attempt as attempt
from .answers import hint as hint
from .answers import solution as solution
from .exercise import Check as Check
from .exercise import Exercise as Exercise
from .exercise import Question as Question
from .exercise import Violation as Violation
from .exports import export as export
from .grading import Outcome as Outcome
from .grading import grade as grade
from .quizzes import QuizResult as QuizResult
from .quizzes import quiz as quiz
from .registry import exercises as exercises
from .registry import notebooks as notebooks
from .registry import questions as questions
from .rooms import Room as Room
from .rooms import room as room
from .scores import Scorecard as Scorecard
from .scores import scorecard as scorecard
from .session import solve as solve
from .session import start as start
