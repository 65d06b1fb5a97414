"""The loss of notebook 04 is the library's, and what its cards say and draw of a training step."""

import numpy as np
import torch

from snnkit import loss
from snnkit.course import exercises, grade
from snnkit.course.nb04 import count_cross_entropy
from tests.course.answers.nb04 import recipe


def test_the_reference_is_the_loss_of_the_library():
    spikes = (torch.rand(7, 5, 10, generator=torch.Generator().manual_seed(0)) < 0.3).float()
    labels = torch.arange(5)
    torch.testing.assert_close(count_cross_entropy(spikes, labels), loss.count_cross_entropy(spikes, labels))


def test_what_the_step_did_is_shown_in_order():
    outcome = grade("04.2", recipe("back", "zero", "step"))
    assert outcome.yours == "forward → backward → zero_grad → step"


def test_a_step_without_return_is_to_do():
    outcome = grade("04.2", recipe("zero", "back", "step", result=lambda value: None))
    assert outcome.status == "to do" and "return" in outcome.message


def test_the_plot_of_the_vote_shows_both():
    (exercise,) = (e for e in exercises("04") if e.plot is not None)
    figure = exercise.plot(exercise.reference, exercise.reference)
    assert [trace.name for trace in figure.data] == ["expected", "yours"]
    assert (np.diff(figure.data[0].y) < 0).all()
