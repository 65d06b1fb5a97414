"""How many minutes a notebook takes, by one rule, and all pages that state them brought up to date.

Prose takes a minute for 130 words, code one for 8 lines, an exercise its own minutes, as does a heading that ends with
"(20 minutes)". An explorer takes four minutes, a prediction one, a question of the quiz half a minute. Waiting is what
the run of the notebook took when it was measured (``workshop/quick_runs``). Setup, imports and parameters are folded or
known, and a list of references is not read: they count nothing. From a heading with "(optional" or "(stretch" on to the
next one of its level, everything counts apart.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from snnkit import checks, files
from snnkit.lab.course import exercise as registry, order
from snnkit.lab.tools import pair
from snnkit.lab.tools.project import Project
from snnkit.lab.workshop import timetable
from snnkit.tables import text_table

WORDS, LINES = 130, 8  # a minute
EXPLORER, GUESS, QUESTION = 4, 1, 0.5  # minutes for an explorer, a prediction, a question of the quiz
STATED = r"(\d+) min(?:utes)?(?:, and (\d+) more for the optional parts?)?"  # "35 min", or with what is optional
_HEADING = re.compile(r"(#{2,6}) (.+?)\s*")
_PREDICT = re.compile(r'(?m)^predict\("')
_EXPLORER = re.compile(r"(?m)^viz\.(?:explore|explorers\.\w+)\(")
#: Code, formulas, HTML and addresses: what a reader does not read as words.
NO_PROSE = re.compile(r"```.*?```|\$\$.*?\$\$|\$[^$\n]+\$|<[^>]*>|(?<=\])\([^)\s]*\)", re.DOTALL)


class Load(NamedTuple):
    """What a learner does in a notebook, or in a part of it."""

    words: int = 0  # of prose
    lines: int = 0  # of code that is read
    exercises: int = 0
    predictions: int = 0
    others: float = 0.0  # minutes: exercises, explorers, questions, stated ones, waiting

    def __add__(self, other: Load) -> Load:  # type: ignore[override]
        return Load(*(a + b for a, b in zip(self, other, strict=True)))  # type: ignore[arg-type]

    @property
    def minutes(self) -> float:
        return self.words / WORDS + self.lines / LINES + GUESS * self.predictions + self.others


class Count(NamedTuple):
    """The load of a notebook by its sections ("## ..."), what is optional apart."""

    sections: dict[str, Load]
    optional: dict[str, Load]

    @property
    def total(self) -> Load:
        return sum(self.sections.values(), Load())

    @property
    def minutes(self) -> int:
        """Of all that is not optional, to five."""
        return _to_five(self.total.minutes)

    @property
    def more(self) -> int:
        """Minutes of the optional parts, to five."""
        return _to_five(sum(load.minutes for load in self.optional.values()))


def _to_five(minutes: float) -> int:
    return max(5, 5 * round(minutes / 5)) if minutes else 0


def count(project: Project, name: str) -> Count:
    """The load of notebook `name`, by its source."""
    tally = Count({}, {})
    section, apart = "", 0  # the heading, and the level of that with "(optional" (0: none)

    def add(load: Load) -> None:
        where = tally.optional if apart else tally.sections
        where[section] = where.get(section, Load()) + load

    add(Load(others=_waiting(project).get(name, 0) / 60))
    cells = pair.notebook(project, name).cells
    asks = re.compile(r"\*\*Predict first" if not any(_PREDICT.search(cell.source) for cell in cells) else r"(?!)")
    for cell in cells:
        tags = cell.metadata.get("tags", [])
        if cell.cell_type == "code":
            if not {"bootstrap", "parameters"} & set(tags) and not pair.IMPORTS.search(cell.source):
                add(_of_code(cell.source, is_read="exercise" not in tags))
            continue
        for line in NO_PROSE.sub(" ", "" if "badge" in tags else cell.source).splitlines():
            heading = _HEADING.fullmatch(line)
            if re.match(r"#+ (Sources|References)|\*\*Worth reading", line):
                break
            if heading:
                level = len(heading[1])
                apart = level if re.search(r"\((optional|stretch)", line) else 0 if level <= apart else apart
                section = heading[2] if level == 2 else section
                stated = re.search(r"\((\d+) minutes\)$", heading[2])
                add(Load(others=int(stated[1]) if stated else 0))
            add(Load(words=len(re.findall(r"\w[\w'’.,-]*", line)), predictions=len(asks.findall(line))))
    return tally


def _of_code(source: str, *, is_read: bool) -> Load:
    keys, quizzes = (re.findall(rf'(?m)^\s*(?:\w+ = )?{call}\(\s*"(.+?)"', source) for call in ("attempt", "quiz"))
    others = sum(registry.find(key).minutes for key in keys) + EXPLORER * len(_EXPLORER.findall(source))
    others += QUESTION * sum(len(registry.questions(one)) for one in quizzes)
    guesses = len(_PREDICT.findall(source))
    lines = sum(bool(line.strip()) for line in source.splitlines()) if is_read and not guesses else 0
    return Load(lines=lines, exercises=len(keys), predictions=guesses, others=others)


def _waiting(project: Project) -> Mapping[str, float]:
    """Seconds of each notebook when it was last measured."""
    reports = sorted((project.root / "workshop" / "quick_runs").glob("*.json"))
    ran = [one for report in reports for one in json.loads(report.read_text(encoding="utf-8"))["notebooks"]]
    return {one["name"]: one["seconds"] for one in ran}


def table(project: Project) -> str:
    """Words, lines of code, exercises, predictions and minutes of every notebook, as text."""
    head = ("notebook", "words", "code lines", "exercises", "predictions", "minutes", "optional")
    rows = []
    for name in project.names():
        tally = count(project, name)
        every = tally.total + sum(tally.optional.values(), Load())
        rows.append((name, *map(str, (*every[:4], tally.minutes, tally.more))))
    return "\n".join(text_table(head, rows))


def stale(project: Project) -> list[str]:
    """Notebooks whose stated minutes are more than one step of five from those of the rule; one sentence each."""
    problems = []
    for name in project.names():
        source, tally = project.source(name), count(project, name)
        stated = re.search(STATED, source.read_text(encoding="utf-8"))
        now, more = map(int, stated.groups("0")) if stated else (0, 0)
        if abs(now - tally.minutes) > 5 or abs(more - tally.more) > 5:
            problems.append(
                f"{source.relative_to(project.root).as_posix()}: says {now} minutes and {more} for optional parts, but "
                f"its text and exercises take {tally.minutes} and {tally.more}; `snnkit workshop minutes --write` "
                "brings them up to date"
            )
    return problems


# --- the pages that state them ----------------------------------------------------------------------------------------


def cover(name: str) -> str:
    """The page in which a notebook's track has its table: "docs/machines.md" of "12_conv_snn"."""
    return _cover(order.track_of(name[3:]))


def _cover(track: str) -> str:
    return f"docs/{track}.md"


def update(project: Project) -> list[str]:
    """Write the minutes by the rule into notebooks, covers, budget, facilitator pages and schedules; the files written.

    Of a schedule, rows get the minutes of their parts, and the next buffer what is left or missing.
    """
    written: dict[str, None] = {}

    def rewrite(path: str, change: Callable[[str], str]) -> None:
        file = project.root / path
        old = file.read_text(encoding="utf-8")
        if (new := change(old)) != old:
            files.write_text(file, new)
            written[path] = None

    for name in project.names():
        tally = count(project, name)
        text = f"{tally.minutes} min"
        more = f", and {tally.more} more for the optional part{'s' * (len(tally.optional) > 1)}" if tally.more else ""

        def stated(old: str, text: str = text, more: str = more) -> str:
            return re.sub(STATED, lambda m: text + "utes" * ("minutes" in m[0]) + more, old, count=1)

        def row(old: str, name: str = name, minutes: int = tally.minutes) -> str:
            return re.sub(rf"(?m)^(\| \[{name[:2]} [^|]*\| )\d+( \|)", rf"\g<1>{minutes}\2", old)

        rewrite(project.source(name).relative_to(project.root).as_posix(), stated)
        rewrite(cover(name), row)
        rewrite("workshop/gpu_budget.md", row)
        guide = f"{timetable.FACILITATOR}/{name[:2]}.md"
        rewrite(guide, lambda old, tally=tally, stated=stated: _timings(stated(old), tally))
    for track, title in order.TRACKS.items():
        hours = (
            f"{sum(count(project, name).minutes for name in project.names() if cover(name) == _cover(track)) / 60:.1f}"
        )
        rewrite(_cover(track), lambda old, hours=hours: re.sub(r"(\*\*Hours:\*\* )[\d.]+", rf"\g<1>{hours}", old))
        listed = rf"(?m)^(\| \*\*\[{title}\][^|]*\| )[\d.]+( \|)"
        rewrite("README.md", lambda old, listed=listed, hours=hours: re.sub(listed, rf"\g<1>{hours}\2", old))
    for name in timetable.pages(project.root, timetable.SCHEDULES):
        rewrite(f"{timetable.SCHEDULES}/{name}.md", lambda old: timetable.rescheduled(old, project))
    rewrite("workshop/gpu_budget.md", lambda old: _hours(old, project))
    return list(written)


def _hours(page: str, project: Project) -> str:
    """The budget page with the GPU hours of each schedule and number of people."""

    def row(match: re.Match[str]) -> str:
        plan = timetable.read(match[1], project.root, timetable.notebooks(project))[0]
        hours = (int(match[2]) * plan.gpu_minutes(*kinds) / 60 for kinds in (("on",), ("on", "optional")))
        return f"| {match[1]} | {match[2]} | " + " | ".join(f"{one:.1f}" for one in hours) + " |"

    return re.sub(r"(?m)^\| (\w*[a-z]\w*) \| (\d+) \| [\d.]+ \| [\d.]+ \|", row, page)


def _timings(page: str, tally: Count) -> str:
    """A facilitator page whose table has the minutes of each section; whole ones that add up to the notebook's."""
    (rows,) = timetable.tables(page, timetable.TIMINGS)
    titles = {line: cells["section"].split("; ") for line, cells in rows if cells["section"]}
    known = {title for row in titles.values() for title in row}
    exact, home = dict.fromkeys(titles, 0.0), next(iter(titles))
    for section, load in tally.sections.items():
        if section in known:  # what comes before the first section, or after the last, belongs to it
            home = next(line for line, row in titles.items() if section in row)
        exact[home] += load.minutes
    scale = tally.minutes / sum(exact.values())
    whole = {line: int(minutes * scale) for line, minutes in exact.items()}
    rest = sorted(exact, key=lambda line: whole[line] - exact[line] * scale)
    for line in rest[: tally.minutes - sum(whole.values())]:
        whole[line] += 1
    lines = page.splitlines(keepends=True)
    for line, _ in rows:
        minutes = whole.get(line, tally.minutes)
        if set(titles.get(line, ())) <= tally.optional.keys() - tally.sections.keys() and line in titles:
            minutes = f"+{round(sum(tally.optional[title].minutes for title in titles[line]))}"
        lines[line - 1] = re.sub(r"(\|[^|]*\|)[^|]*", rf"\g<1> {minutes} ", lines[line - 1], count=1)
    return "".join(lines)


checks.all_arguments(__name__)
