"""What the tests of every notebook's exercises ask."""

from snnkit.course import grade
from snnkit.course.registry import exercise


def fails(key, answer, check, hint):
    """A wrong answer fails this check, with the hint of this number."""
    outcome = grade(key, answer)
    assert (outcome.status, outcome.check) == ("failed", check), outcome
    assert outcome.hint == exercise(key).hints[hint], outcome


def unused_hints(tables):
    """Key to the numbers of the hints that no mistake (..., hint) in its table is given."""
    used = {key: {hint for *_, hint in table} for key, table in tables.items()}
    return {key: set(range(len(exercise(key).hints))) - hints for key, hints in used.items()}
