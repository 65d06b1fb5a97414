"""What an executed notebook tells of an answer before its prediction, to a reader who runs all and answers nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from snnkit.course import gate, progress, question

CALLS = {name: re.compile(rf"\b{name}\(\s*[\"'](\d\d\.[a-z])[\"']") for name in ("predict", "outcome")}
_FOLDED = re.compile(r"<details>.*?</details>", re.DOTALL)
_NEXT = re.compile(r"^#{1,6} |^\*\*Predict first", re.MULTILINE)
_NUMBER = r"(?<![\w.])(\d+(?:\.\d+)?)"


def told(cells: Iterable[Any]) -> list[str]:
    """One line for each answer that is told too early; also for a prediction without an outcome after it.

    Args:
        cells: of an executed copy. A headless one hides nothing, but ``gate`` says what would be hidden.
    """
    cells = list(cells)
    results = {key: words for cell in cells for text in _outputs(cell) for key, words in _outcomes(text)}
    progress._session = progress.Session(progress.Progress(None))
    found, seen, asked, below = [], [], {}, set()
    for number, cell in enumerate(cells):
        if cell.cell_type == "markdown":
            text = _FOLDED.sub("", cell.source)
            seen.append((number, text))
            for key in sorted(below):  # the text under an outcome, up to the next topic
                found += _tells(key, results.get(key), [(number, _NEXT.split(text, maxsplit=1)[0])])
            below = set()
            continue
        waits = gate.closes(cell.source, str(number))
        ends = CALLS["outcome"].findall(cell.source)
        if not waits:
            seen += [(number, text) for text in _outputs(cell)]
            found += [f"cell {number} ends {key}, but it shows what it finds" for key in ends if key in results]
        for key in ends:
            found += _tells(key, results.get(key), seen) if key in asked else [f"{key} ends before it is asked"]
            below.add(key)
        for key in CALLS["predict"].findall(cell.source):
            gate.ask(key, None)
            asked[key] = number
    return found + [f"{key} has no outcome" for key in progress.current().asked]


def _outputs(cell: Any) -> Iterator[str]:
    for output in cell.get("outputs", ()):
        text = output.get("text") or output.get("data", {}).get("text/plain", "")
        yield text if isinstance(text, str) else "".join(text)


def _outcomes(text: str) -> list[tuple[str, str]]:
    return re.findall(r"(?m)^Outcome (\d\d\.[a-z]): (.+)$", text)


def _tells(key: str, result: str | None, texts: Iterable[tuple[int, str]]) -> list[str]:
    prompt = question.find(key)
    if result is None or prompt["kind"] == "sketch":
        return []
    found = []
    for number, text in texts:
        plain = re.sub(r"[`*$\\\s]+", " ", text)
        if text.startswith("Prediction ") or (prompt["kind"] == "choice" and len(result.split()) < 3):
            continue
        if prompt["kind"] == "choice":
            others = [one for one in prompt["choices"] if one != result]
            if _in(result, plain) and not any(_in(one, plain) for one in others):
                found.append(f"cell {number} tells {key}: {result}")
        elif prompt["unit"]:
            truth = float(result.split()[0])
            near = [n for n in re.findall(f"{_NUMBER} ?{re.escape(prompt['unit'])}", plain) if _right(prompt, n, truth)]
            found += [f"cell {number} tells {key}: {near[0]} {prompt['unit']}"] if near else []
    return found


def _in(choice: str, text: str) -> bool:
    return re.sub(r"[`*$\\\s]+", " ", choice).casefold() in text.casefold()


def _right(prompt: dict[str, Any], number: str, truth: float) -> bool:
    return question.is_right(prompt, float(number), truth) and f"{float(number):.3g}" not in prompt["ask"]
