"""Predictions, attempt-or-fall-back exercises, hints, quizzes and scorecards for the notebooks.

    course.start("01", solve=SOLVE)
    predict("01.b")                          # asks, locks, explains
    outcome("01.b", rates[1] / rates[0])     # what the notebook finds, beside the prediction
    lif_step = attempt("01.1", lif_step)     # the learner's function if it passes, else the reference
    course.export("ada.json")                # a learner's whole progress, to be handed in
    course.room("room/")                     # all learners: who is where, who is stuck, what fails most

The exercises of notebook "01" are in ``snnkit/course/nb01.py``, its predictions and quiz in ``questions/01.yaml``.
Tests of the checks call ``grade("01.1", candidate)``.
"""

from snnkit import lazy

from . import expect as expect
from .attempts import Outcome as Outcome
from .attempts import attempt as attempt
from .attempts import grade as grade
from .attempts import hint as hint
from .attempts import solution as solution
from .class_report import Room as Room
from .class_report import room as room
from .exercise import Check as Check
from .exercise import Exercise as Exercise
from .exercise import Violation as Violation
from .exercise import exercises as exercises
from .exercise import notebooks as notebooks
from .exercise import questions as questions
from .predictions import outcome as outcome
from .predictions import predict as predict
from .predictions import quiz as quiz
from .progress import Scorecard as Scorecard
from .progress import export as export
from .progress import scorecard as scorecard
from .progress import start as start

__getattr__, __dir__, __all__ = lazy.attach(__name__, "expect", "nb09:TinyRun")  # which brings the SLURM tools along
