"""Predictions, attempt-or-fall-back exercises, hints, quizzes and scorecards for the notebooks.

    course.start("first_spiking_neuron", solve=SOLVE)
    predict("first_spiking_neuron.b")                          # asks, locks, explains
    outcome("first_spiking_neuron.b", rates[1] / rates[0])     # what the notebook finds, beside the prediction
    lif_step = attempt("first_spiking_neuron.1", lif_step)     # the learner's function if it passes, else the reference
    course.certificate("spikes")             # what a learner has done in a track
    course.export("ada.json")                # a learner's whole progress, to be handed in
    course.survey("before", "room/")         # four questions, without a name; "after" has them again, and more
    course.room("room/")                     # all learners: who is where, who is stuck, what fails most

The exercises of a notebook are in ``snnkit/lab/exercises/NAME.py``, its predictions and quiz in ``NAME.yaml``.
Tests of the checks call ``grade("first_spiking_neuron.1", candidate)``.
"""

from snnkit import lazy
from snnkit.lab.course import expect as expect
from snnkit.lab.course.attempts import (
    Outcome as Outcome,
    attempt as attempt,
    grade as grade,
    hint as hint,
    solution as solution,
)
from snnkit.lab.course.certificates import Certificate as Certificate, certificate as certificate
from snnkit.lab.course.class_report import Room as Room, room as room
from snnkit.lab.course.exercise import (
    Check as Check,
    Exercise as Exercise,
    Violation as Violation,
    exercises as exercises,
    notebooks as notebooks,
    questions as questions,
)
from snnkit.lab.course.predictions import outcome as outcome, predict as predict, quiz as quiz
from snnkit.lab.course.progress import Scorecard as Scorecard, export as export, scorecard as scorecard, start as start
from snnkit.lab.course.survey import survey as survey

__getattr__, __dir__, __all__ = lazy.attach(__name__, "expect")
