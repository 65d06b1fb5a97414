"""Attempt an exercise or fall back: the learner's answer if it passes, else the reference, so Run All never stops."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import linecache
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from traceback import FrameSummary
from typing import Any

from snnkit import checks
from snnkit.lab.course import errors, exercise as registry, order, progress, sandbox, time_limit
from snnkit.lab.course.card import TONES, Card, Line, short, unshowable
from snnkit.lab.course.exercise import Check, Exercise, NotWritten, Violation
from snnkit.lab.viz.frontend import live

_TONE = {"passed": "good", "failed": "bad", "to do": "open"}
_rehearsed: set[Check] = set()

# --- grading ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """The result of an attempt."""

    status: str  #: "passed", "to do" or "failed"
    check: str = ""  #: the name of the first check that failed
    message: str = ""  #: the violated property, or the error that the answer raised
    inputs: dict[str, Any] | str | None = None  #: what shows it, with the next two
    yours: Any = None
    expected: Any = None
    hint: str = ""  #: the violation's hint, as text
    where: str = ""  #: the learner's line that raised, as "line 3: return v * beta"
    passed: int = 0  #: how many checks passed before
    total: int = 0
    printed: str = ""  #: the first lines that the answer printed, and how many more there were


@checks.arguments
def grade(exercise: Exercise | str, candidate: Any) -> Outcome:
    """Run the checks of ``exercise`` (or of its key) on ``candidate``, up to the first that fails.

    Each check may take ``exercise.seconds``, after a rehearsal with the reference. A wrong answer never raises here.
    """
    if isinstance(exercise, str):
        exercise = registry.find(exercise)
    total = len(exercise.checks)
    mine = sandbox.Candidate(candidate, exercise)
    if mine.is_stub:
        return Outcome("to do", total=total)
    limit, prints = exercise.seconds, sandbox.Prints()
    for passed, check in enumerate(exercise.checks):
        _rehearse(check, exercise.reference)
        trial = sandbox.run(functools.partial(check.run, mine.answer, exercise.reference), limit, prints)
        if trial.error is not None or trial.changed:
            status, shown = _failure(exercise, mine, trial)
            name = {"check": check.name, "passed": passed} if status == "failed" else {}
            return Outcome(status, total=total, printed=prints.text(), **name, **shown)
    return Outcome("passed", passed=total, total=total, printed=prints.text())


def _failure(exercise: Exercise, mine: sandbox.Candidate, trial: sandbox.Trial) -> tuple[str, dict[str, Any]]:
    """The status of an answer that a check has refused, and what the card shows."""
    error, where, limit = trial.error, _line(trial.stack, mine.files), exercise.seconds
    if isinstance(error, NotWritten):
        return "to do", {"message": str(error)}
    if trial.changed and (error is None or isinstance(error, Violation) or not where):
        return "failed", _changed(trial.changed)  # a changed dtype, say, is the reason why a result is wrong
    if isinstance(error, Violation):
        hint = error.shown.get("hint")
        text = exercise.hints[hint] if isinstance(hint, int) else hint or ""
        return "failed", {**error.shown, "message": error.message, "hint": text}
    assert error is not None
    text = _described(lambda: str(error)[:500], limit, "")
    if "ellipsis" in text.lower():
        return "to do", {"message": "A `...` is still in your code."}
    return "failed", _raised(error, text, where, mine.last, limit) | {"where": where}


def _rehearse(check: Check, reference: Any) -> None:
    """Run a check with the reference, once in a process: what it imports, traces and compiles is no answer's time."""
    if check not in _rehearsed:
        sandbox.run(functools.partial(check.run, reference, reference), None, sandbox.Prints())
        _rehearsed.add(check)


def _line(stack: Iterable[FrameSummary], files: set[str]) -> str:
    """The last line of the learner's own file or cell that was running."""
    frames = [frame for frame in stack if frame.filename in files]
    if not frames:
        return ""
    number = frames[-1].lineno or 0
    line = (frames[-1].line or linecache.getline(frames[-1].filename, number)).strip()
    return f"line {number}: {line}" if line else f"line {number}"


def _described(text: Callable[[], str], seconds: float, otherwise: str) -> str:
    """``text()``, or ``otherwise``: ``__str__`` and ``__repr__`` of a learner's class may raise, exit or hang."""
    made: list[str] = []
    sandbox.run(lambda: made.append(text()), seconds, sandbox.Prints())
    return made[0] if made else otherwise


def _short(exercise: Exercise, value: Any) -> str:
    return _described(lambda: short(value), exercise.seconds, unshowable(value))


def _raised(error: BaseException, text: str, where: str, last: Any, limit: float) -> dict[str, Any]:
    """``where``: the learner's line, "" for a line of the check; ``last``: the last result of the function."""
    if isinstance(error, time_limit.OutOfTime):
        hint = "Does every loop end? What changes from one iteration to the next? Is a tensor too large?"
        if error.waiting:
            hint = "An answer computes and returns. It does not sleep, ask for input or wait for anything else."
        did = "waited" if error.waiting else "computed"
        message = f"Your code was stopped: it had {did} for {limit:g} s and was not done."
        if error.left_at is not None:
            message = f"Your code has {did} for {limit:g} s, and can't be stopped here. To end it, restart the kernel."
        return {"message": message, "hint": hint}
    kind = type(error).__name__
    message = f"{kind}: {text}" if text else kind
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "memory" in text):
        hint = "How large is your largest tensor? Multiply the numbers of its shape, then by 4 bytes."
        return {"message": f"Your code needs more memory than there is ({message})", "hint": hint}
    if where or isinstance(error, (RecursionError, SystemExit)):
        return {"message": f"Your code raised {message}", "hint": errors.hint(kind, text)}
    return {"message": f"The answer could not be checked: {message}", "yours": last}


def _changed(what: list[str]) -> dict[str, Any]:
    return {
        "message": f"An answer must not change the notebook, but yours {' and '.join(what)}. That was undone.",
        "hint": "A function takes what it needs as arguments and changes nothing else: use "
        "`dtype=` and `device=` in the call, `with torch.no_grad():`, or a `torch.Generator` of its own.",
    }


# --- attempts ---------------------------------------------------------------------------------------------------------


def attempt(key: str, answer: Any) -> Any:
    """Check ``answer`` to the exercise ``key`` ("encodings.1"), show the result, and return something that works.

    Returns ``answer`` if it passes every check, else the reference. An answer that is wrong or unfinished, raises or
    does not end never raises here: a card shows what is wrong. In solve mode the reference is checked and returned. In
    a live notebook the buttons under the card do what ``hint(key)`` and ``solution(key)`` do.

    Raises:
        ValueError: there is no such exercise.
        TypeError: a value instead of a function, or a function instead of a value.
    """
    exercise = registry.find(key)
    now = progress.current()
    if now.solving:
        return _solved(exercise)
    _check_kind(exercise, answer)
    if answer is exercise.reference and callable(answer):
        Card("open", exercise.heading, "to do", [Line("This is the reference: run your definition again.")]).show()
        return answer
    outcome = grade(exercise, answer)
    _card(exercise, outcome, _every_check(exercise, answer, outcome)).show()
    if live():
        from IPython.display import display

        display(_buttons(exercise, hints=outcome.status != "passed"))
    if outcome.status != "to do":  # a stub that Run All passes over is no attempt
        now.progress.attempted(exercise.key, outcome.status, outcome.check)
        progress.tell(order.notebook_of(exercise.key))
        _plot(exercise, answer)
    return answer if outcome.status == "passed" else exercise.reference


def _solved(exercise: Exercise) -> Any:
    outcome = grade(exercise, exercise.reference)
    if outcome.status != "passed":
        reason = f"{outcome.check}: {outcome.message}"
        raise RuntimeError(f"the reference of exercise {exercise.key} does not pass its own checks ({reason})")
    progress.current().solved.add(exercise.key)
    Card("good", exercise.heading, f"passed (solution, {outcome.total} of {outcome.total} checks)").show()
    return exercise.reference


def _check_kind(exercise: Exercise, answer: Any) -> None:
    if answer is None or answer is Ellipsis or callable(answer) == callable(exercise.reference):
        return
    wanted = "a function or class (its name, without calling it)" if callable(exercise.reference) else "a value"
    raise TypeError(f"answer to {exercise.key} must be {wanted}, but it is {_short(exercise, answer)}")


def _every_check(exercise: Exercise, answer: Any, outcome: Outcome) -> list[Line]:
    """If the exercise lists all checks: their names, each with its sign. The checks after a failure run here."""
    if not exercise.list_all:
        return []
    lines = []
    for number, check in enumerate(exercise.checks):
        status = "passed" if number < outcome.passed else outcome.status
        if status == "failed" and number > outcome.passed:
            status = grade(dataclasses.replace(exercise, checks=[check], seconds=1.0), answer).status
        lines.append(f"{TONES[_TONE[status]][0]} {check.name}")
    return [Line("\n".join(lines), label="checks", code=True)]


def _card(exercise: Exercise, outcome: Outcome, every: Sequence[Line] = ()) -> Card:
    """The card of an attempt: the first violated property, your value and the expected one, and where help is."""
    held = every[0].text.count(TONES["good"][0]) if every else outcome.passed
    tally = f"{held} of {outcome.total} checks"
    printed = [Line(outcome.printed, label="printed", code=True)] if outcome.printed else []
    if outcome.status == "passed":
        return Card("good", exercise.heading, f"passed ({tally})", [*every, *printed])
    failed = f"{tally} hold" if every else f"check {outcome.passed + 1} of {outcome.total}"  # the others have not run
    return _open_card(exercise, outcome, every, printed, failed)


def _open_card(
    exercise: Exercise, outcome: Outcome, every: Sequence[Line], printed: Sequence[Line], failed: str
) -> Card:
    """That of an answer that does not pass, or is still to do."""
    buttons = live()  # which say the same
    help_line = f'Help: `hint("{exercise.key}")`, then `solution("{exercise.key}")`. '
    help_line = help_line if exercise.hints and not buttons else ""
    onward = Line(f"{help_line}Until your answer passes, the notebook uses the reference.")
    if outcome.status == "to do":
        effort = f"about {exercise.minutes} min, {'●' * exercise.difficulty}{'○' * (3 - exercise.difficulty)}"
        lines = [Line(outcome.message)] if outcome.message else []
        return Card("open", exercise.heading, f"to do ({effort})", [*lines, *every, *printed, onward])
    lines = [*every, Line(outcome.message, label=outcome.check)]
    shown = {"where": outcome.where or None, "inputs": outcome.inputs}
    shown |= {"yours": outcome.yours, "expected": outcome.expected}
    for label, value in shown.items():
        if value is not None:
            lines.append(Line(_short(exercise, value), label=label, code=True))
    lines += printed
    if outcome.hint:
        lines.append(Line(outcome.hint, label="Hint"))
    return Card("bad", exercise.heading, f"failed ({failed})", [*lines, onward])


def _plot(exercise: Exercise, answer: Any) -> None:
    """The figure is left out if a wrong answer can't be drawn: the card already says what is wrong."""
    from snnkit.lab.viz import show

    if exercise.plot is not None:
        plot, figures = exercise.plot, []
        sandbox.run(lambda: figures.append(plot(answer, exercise.reference)), exercise.seconds, sandbox.Prints())
        for figure in figures:
            show(figure)


# --- help -------------------------------------------------------------------------------------------------------------


def hint(key: str) -> None:
    """Open the next hint of an exercise; the earlier ones are shown above it."""
    _next_hint(registry.find(key)).show()


def solution(key: str) -> None:
    """Show the reference: its source, or its value."""
    _reveal(registry.find(key)).show()


def source(exercise: Exercise) -> str:
    """The source text of the reference, or its value."""
    if not callable(exercise.reference):
        return short(exercise.reference)
    return textwrap.dedent(inspect.getsource(exercise.reference)).rstrip()


def _next_hint(exercise: Exercise) -> Card:
    now = progress.current()
    with now.lock:
        opened = min(now.opened.get(exercise.key, 0) + 1, len(exercise.hints))
        now.opened[exercise.key] = opened
        if not now.solving:
            now.progress.hinted(exercise.key, opened)
        return _open_hints(exercise)


def _open_hints(exercise: Exercise) -> Card:
    """The open hints of this session."""
    key, opened, total = exercise.key, progress.current().opened.get(exercise.key, 0), len(exercise.hints)
    lines = [Line(text, label=f"Hint {i + 1}") for i, text in enumerate(exercise.hints[:opened])]
    more = f'More: `hint("{key}")` again.' if opened < total else f'No more hints. The solution: `solution("{key}")`.'
    return Card("info", exercise.heading, f"hint {opened} of {total}", [*lines, Line(more)])


def _reveal(exercise: Exercise) -> Card:
    """The reference, its source or its value; looking at it is recorded."""
    now = progress.current()
    if not now.solving:
        now.progress.revealed(exercise.key)
    return Card("info", exercise.heading, "solution", [Line(source(exercise), code=True)])


# As those of the other cards (web/style.css), in both schemes.
_BUTTONS = """<style>
.snnkit-help button {
  background: none; color: inherit; border: 1px solid rgba(127, 127, 127, .7); border-radius: 6px; box-shadow: none;
  font: 14px/20px system-ui, sans-serif; min-width: 84px; height: 34px; width: auto; padding: 0 12px;
}
.snnkit-help button:hover { border-color: #3399e0; color: #3399e0; }
.snnkit-help .widget-html-content { line-height: 1.5; }
.snnkit-help > .widget-html:last-child { display: none; }
</style>"""


def _buttons(exercise: Exercise, *, hints: bool) -> Any:
    """The buttons "Hint" (if ``hints``, and if there are any) and "Solution", and all that is open."""
    import ipywidgets as widgets

    opened, solved = widgets.HTML(), widgets.HTML()
    buttons = []

    def button(text: str, tooltip: str, place: Any, card: Any) -> None:
        one = widgets.Button(description=text, tooltip=tooltip)
        one.on_click(lambda _: setattr(place, "value", card(exercise).announced()))
        buttons.append(one)

    if hints and exercise.hints:
        button("Hint", f"Open the next hint of {order.label(exercise.key)}", opened, _next_hint)
        if progress.current().opened.get(exercise.key):
            opened.value = _open_hints(exercise).announced()
    button("Solution", f"Show the solution of {order.label(exercise.key)}", solved, _reveal)
    box = widgets.VBox([widgets.HBox(buttons), opened, solved, widgets.HTML(_BUTTONS)])
    box.add_class("snnkit-help")
    return box
