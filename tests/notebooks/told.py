"""What a notebook tells of an answer before its prediction, to a reader who runs all and answers nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from snnkit.lab.course import gate, order, progress, question

CALLS = {name: re.compile(rf"\b{name}\(\s*[\"'](\w+\.[a-z])[\"']") for name in ("predict", "outcome")}
FOLDED = re.compile(r"<details>.*?</details>", re.DOTALL)
_NEXT = re.compile(r"^#{1,6} |^\*\*Predict first", re.MULTILINE)


def told(cells: Iterable[Any]) -> list[str]:
    """One line for each answer that is told too early, and for each prediction that no outcome ends.

    Args:
        cells: of an executed copy, or as a notebook is stored: then only its texts can tell. A headless run hides
            nothing, but ``gate`` says what would be hidden.
    """
    before, progress._session = progress._session, progress.Session(progress.Progress(None))
    try:
        return list(_told(list(cells)))
    finally:
        progress._session = before


def contradicted(cells: Iterable[Any]) -> list[str]:
    """One line for each result of an executed copy that isn't the answer in the file of questions."""
    results = {key: words for cell in cells for text in _outputs(cell) for key, words in _outcomes(text)}
    return [
        f"{key} has the answer {question.in_words(prompt, prompt['answer'])}, but the result is {words}"
        for key, words in results.items()
        if (prompt := question.find(key))["answer"] is not None and not _agrees(prompt, words)
    ]


def _agrees(prompt: dict[str, Any], words: str) -> bool:
    if prompt["kind"] == "choice":
        return words == prompt["choices"][prompt["answer"]]
    return question.is_right(prompt, prompt["answer"], float(words.split()[0]))


def _told(cells: list[Any]) -> Iterator[str]:
    results = {key: words for cell in cells for text in _outputs(cell) for key, words in _outcomes(text)}
    shown, texts, asked, below = [], [], {}, []
    for number, cell in enumerate(cells):
        if cell.cell_type == "markdown":
            text = FOLDED.sub("", cell.source)
            texts.append((number, text))
            for key in below:  # what is under an outcome, up to the next topic
                yield from _tells(key, results, [(number, _NEXT.split(text, maxsplit=1)[0])])
            below = []
            continue
        waits, ends = gate.closes(cell.source, str(number)), CALLS["outcome"].findall(cell.source)
        shown += [] if waits else [(number, text) for text in _outputs(cell)]
        for key in ends:
            if key not in asked:
                yield f"cell {number} ends {key}, which has not been asked"
            if key not in waits:
                yield f"cell {number} ends {key}, and what it shows is not hidden"
            # The words of a choice tell wherever they are printed; else what is below the question counts.
            printed = [
                one for one in shown if question.find(key)["kind"] == "choice" or one[0] >= asked.get(key, number)
            ]
            yield from _tells(key, results, printed + [one for one in texts if one[0] >= asked.get(key, number)])
        below += ends
        for key in CALLS["predict"].findall(cell.source):
            gate.ask(key, None)
            asked[key] = number
    yield from (f"{key} has no outcome" for key in progress.current().waiting)


def _outputs(cell: Any) -> Iterator[str]:
    for output in cell.get("outputs", ()):
        text = output.get("text") or output.get("data", {}).get("text/plain", "")
        if not text.startswith("Prediction "):
            yield text


def _outcomes(text: str) -> list[tuple[str, str]]:
    found = re.findall(r"(?m)^Outcome (\S+\.[a-z]): (.+)$", text)
    return [(order.named(label), words) for label, words in found]


def _tells(key: str, results: dict[str, str], texts: Iterable[tuple[int, str]]) -> Iterator[str]:
    """The texts that have the result in the words of its choice, or as a number with its unit."""
    prompt = question.find(key)
    result = results.get(key) or (question.in_words(prompt, prompt["answer"]) if prompt["answer"] is not None else "")
    for number, text in texts:
        plain = _plain(text)
        if prompt["kind"] == "choice" and len(result.split()) > 2:
            others = [_plain(one) for one in prompt["choices"] if one != result]
            if _plain(result) in plain and not any(one in plain for one in others):
                yield f"cell {number} tells {key}: {result}"
        elif prompt["kind"] == "number" and prompt["unit"] and result:
            of_unit = re.findall(rf"(?<![\w.])(\d+(?:\.\d+)?) ?{re.escape(_plain(prompt['unit']))}(?!\w)", plain)
            given = re.findall(r"\d+(?:\.\d+)?", _plain(prompt["ask"]))
            if near := [n for n in of_unit if n not in given and abs(float(n) - float(result.split()[0])) < 1e-9]:
                yield f"cell {number} tells {key}: {near[0]} {prompt['unit']}"


def _plain(text: str) -> str:
    return re.sub(r"[`*$\\\s]+", " ", text).strip().casefold()
