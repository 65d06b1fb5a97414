"""Two anonymous surveys of a workshop, before and after: shown in a notebook, one file for each answer, summed up.

Three questions stand in both, so that the second can show what was learned. A file has no name and no time of day.
``course.room`` sums up those in its folder.
"""

from __future__ import annotations

import json
import os
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from snnkit import checks, files
from snnkit.lab.viz.frontend import live
from snnkit.tables import one_line

KIND, FORMAT = "snnkit survey", 1
LONGEST = 1000  # characters of a written answer
TEXTS = 30  # written answers to one question that a summary lists


class Question(NamedTuple):
    """``choices``: what can be chosen; none for a written answer. ``right``: the number of the right one, from 0."""

    text: str
    choices: tuple[str, ...] = ()
    right: int | None = None


_SCALE = ("1 not at all", "2", "3", "4", "5 very much")
_BOTH = {
    "step": Question(
        "Why can't plain backpropagation train a network of spiking neurons?",
        (
            "spikes are random",
            "the slope of a step is 0 nearly everywhere",
            "spikes are too rare",
            "there are too many time steps",
            "I don't know yet",
        ),
        1,
    ),
    "leak": Question(
        "A leaky neuron gets a constant input, a little too small to fire. It waits very long. What does it do?",
        ("it fires once", "it fires rarely", "it never fires", "it fires faster and faster", "I don't know yet"),
        2,
    ),
    "own": Question("I could train a spiking network on my own data.", _SCALE),
}
QUESTIONS: dict[str, dict[str, Question]] = {
    "before": {
        "from": Question("I come from", ("machine learning", "neuroscience", "hardware", "another subject")),
        **_BOTH,
    },
    "after": {
        **_BOTH,
        "alone": Question("I could do the exercises without help.", _SCALE),
        "stuck": Question("When I was stuck, I could go on within five minutes.", _SCALE),
        "pace": Question("The pace was", ("1 far too slow", "2", "3 right", "4", "5 far too fast")),
        "machine": Question("My machine did what it should.", _SCALE),
        "recommend": Question("I would recommend the workshop to a colleague.", _SCALE),
        "why": Question("In two sentences: why does a spiking network need a surrogate gradient?"),
        "unclear": Question("One sentence in a notebook that I did not understand (which notebook?):"),
        "leave_out": Question("What would you leave out?"),
    },
}


@checks.arguments
def survey(
    when: str, folder: str | os.PathLike[str] = ".", answers: Mapping[str, int | str] | None = None
) -> Path | None:
    """Ask the questions of a survey, "before" or "after", and write the answers to a file of its own in ``folder``.

    In a notebook a form is shown, and the file is written when it is sent. With ``answers`` (key to the number of the
    choice, from 0, or a text; any may be left out) no form is shown, and the path of the file is returned. Without a
    notebook the questions are printed.
    """
    checks.choice("when", when, QUESTIONS)
    place = files.expanded(folder)
    if not place.is_dir():
        raise ValueError(f"folder must be a folder that exists, but it is {str(folder)!r}")
    if answers is not None:
        return _save(when, _checked(when, answers), place)
    if live():
        _show_form(when, place)
    else:
        for key, question in QUESTIONS[when].items():
            listed = "; ".join(f"{i}: {choice}" for i, choice in enumerate(question.choices))
            print(f"{key}: {question.text} {listed}".rstrip())
    return None


def _checked(when: str, answers: Mapping[str, Any]) -> dict[str, int | str]:
    """``answers``, if they are answers to the questions, without empty texts. ValueError names the first that isn't."""
    checked = {}
    for key, answer in answers.items():
        question = QUESTIONS[when].get(key)
        if question is None:
            raise ValueError(f"answers must be to {', '.join(QUESTIONS[when])}, but one is to {checks.shown(key)}")
        most = len(question.choices)
        if most and (type(answer) is not int or not 0 <= answer < most):
            raise ValueError(
                f"answers[{key!r}] must be a number from 0 to {most - 1}, but it is {checks.shown(answer)}"
            )
        if not most and (not isinstance(answer, str) or len(answer) > LONGEST):
            raise ValueError(f"answers[{key!r}] must be a text of at most {LONGEST} characters")
        if answer != "":
            checked[key] = answer
    return checked


def _save(when: str, answers: Mapping[str, int | str], folder: Path) -> Path:
    data = {"kind": KIND, "format": FORMAT, "when": when, "date": f"{date.today()}", "answers": dict(answers)}
    path = folder / f"survey_{when}_{secrets.token_hex(4)}.json"
    files.write_text(path, json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    return path


def _show_form(when: str, folder: Path) -> None:
    import ipywidgets as widgets
    from IPython.display import display

    rows, inputs = [], {}
    for key, question in QUESTIONS[when].items():
        if question.choices:
            options = [(choice, i) for i, choice in enumerate(question.choices)]
            inputs[key] = widgets.RadioButtons(options=options, value=None, layout={"width": "max-content"})
        else:
            inputs[key] = widgets.Textarea(layout={"width": "36em"}, rows=2)
        rows += [widgets.Label(question.text), inputs[key]]
    send, said = widgets.Button(description="Send", button_style="primary"), widgets.Label()

    def sent(_: Any) -> None:
        given = {key: one.value for key, one in inputs.items() if one.value not in (None, "")}
        try:
            said.value = f"Thank you. Your answers are in {_save(when, _checked(when, given), folder).name}."
            send.disabled = True
        except (OSError, ValueError) as error:
            said.value = str(error)

    send.on_click(sent)
    display(widgets.VBox([*rows, send, said]))


# --- summing up -------------------------------------------------------------------------------------------------------


def is_survey(data: Any) -> bool:
    """Whether this is what ``survey`` writes. It may still be damaged."""
    return isinstance(data, dict) and data.get("kind") == KIND


def read(data: Mapping[str, Any]) -> tuple[str, dict[str, int | str]]:
    """When a survey was taken, and its answers, from what its file holds. ValueError if it is damaged."""
    when, answers = data.get("when"), data.get("answers")
    if data.get("format") != FORMAT or when not in QUESTIONS or not isinstance(answers, dict):
        raise ValueError(f"no survey of format {FORMAT}")
    return when, _checked(when, answers)


def summed(surveys: Iterable[tuple[str, Mapping[str, int | str]]]) -> list[str]:
    """What the surveys of a room say, a sentence for each question: before and after where both have it."""
    given: dict[str, list[Mapping[str, int | str]]] = {"before": [], "after": []}
    for when, answers in surveys:
        given[when].append(answers)
    if not any(given.values()):
        return []
    sentences = [", ".join(f"{len(of)} answered {when}" for when, of in given.items())]
    for key, question in {**QUESTIONS["before"], **QUESTIONS["after"]}.items():
        given_by = {when: [one[key] for one in of if key in one] for when, of in given.items()}
        said = [f"{when} {_in_words(question, answers)}" for when, answers in given_by.items() if answers]
        if question.choices and said:
            sentences.append(f"{question.text} {'; '.join(said)}")
        elif said:
            texts = [one_line(text, 200) for text in given_by["after"]]
            more = [f"… and {len(texts) - TEXTS} more"] if len(texts) > TEXTS else []
            sentences += [f"{question.text} “{text}”" for text in texts[:TEXTS]] + more
    return sentences


def _in_words(question: Question, answers: list[Any]) -> str:
    if not question.choices:
        return ""
    if question.right is not None:
        return f"{answers.count(question.right)} of {len(answers)} right"
    counts = Counter(answers)
    if question.choices[0].startswith("1"):  # a scale
        mean = sum(answers) / len(answers) + 1
        return f"{mean:.1f} on average ({', '.join(str(counts[i]) for i in range(5))} from 1 to 5)"
    return ", ".join(f"{counts[i]} {choice}" for i, choice in enumerate(question.choices) if counts[i])
