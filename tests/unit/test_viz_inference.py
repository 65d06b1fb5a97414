"""The figure of one picture on its way through a network."""

import pytest
import torch

from snnkit.viz import png_bytes
from snnkit.viz.figures import inference


def picture_of(votes, label):
    output = torch.zeros(4, 3)
    for k, count in enumerate(votes):
        output[:count, k] = 1
    return inference(torch.rand(8, 8), torch.ones(4, 6), output, label, ["a", "b", "c"])


@pytest.mark.parametrize(
    ("votes", "label", "told"),
    [
        ((0, 3, 1), 1, "The answer is b (right)"),
        ((0, 3, 1), 2, "The answer is b (wrong: it is c)"),
        ((0, 3, 1), None, "The answer is b"),
        ((0, 0, 0), 2, "No answer: the output is silent"),
    ],
)
def test_inference_says_what_the_network_answers(votes, label, told):
    figure = picture_of(votes, label)
    assert figure.layout.title.text == told
    assert [int(trace.y[-1]) for trace in figure.data[2:]] == list(votes)
    assert png_bytes(figure).startswith(b"\x89PNG")


def test_inference_draws_a_silent_layer():
    figure = inference(torch.zeros(8, 8), torch.zeros(4, 6), torch.zeros(4, 3))
    assert "0 spikes" in figure.layout.annotations[1].text


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((torch.zeros(8, 8), torch.zeros(5, 6), torch.zeros(4, 3)), "hidden"),
        ((torch.zeros(8, 8), torch.zeros(4, 6), torch.zeros(4, 3), 3), "label"),
        ((torch.zeros(8, 8), torch.zeros(4, 6), torch.zeros(4, 3), 0, ["a"]), "names"),
        ((torch.zeros(1, 8, 8), torch.zeros(4, 6), torch.zeros(4, 3)), "image"),
    ],
)
def test_inference_refuses_what_does_not_fit(arguments, named):
    with pytest.raises(ValueError, match=named):
        inference(*arguments)
