"""What a card says of an answer that raised, took too long or changed too much: fields of an Outcome."""

from __future__ import annotations

from typing import Any

LIMIT = 500  # characters of an exception's own text


def text_of(error: BaseException) -> str:
    """The exception's own words, whatever its ``__str__`` does."""
    try:
        return str(error)[:LIMIT]
    except Exception:
        return ""


def raised(error: BaseException, where: str, last: Any) -> dict[str, Any]:
    """Of an exception. ``where``: the learner's line, "" if it was a line of the check; ``last``: what they gave."""
    kind, words = type(error).__name__, text_of(error)
    told = f"{kind}: {words}" if words else kind
    if _out_of_memory(error, words):
        hint = "How large is your largest tensor? Multiply the numbers of its shape, and by 4 bytes."
        return {"message": f"Your code asks for more memory than there is ({told})", "hint": hint}
    if isinstance(error, RecursionError):
        hint = "Somewhere the function calls itself, and nothing ends that."
        return {"message": f"Your code raised {told}", "hint": hint}
    if isinstance(error, SystemExit):
        hint = "A function ends with `return`; `exit()` ends the program, here the kernel."
        return {"message": f"Your code raised {told}", "hint": hint}
    if where:
        return {"message": f"Your code raised {told}"}
    return {"message": f"The answer could not be checked: {told}", "yours": last}


def out_of_time(limit: float, seconds: float, abandoned: bool) -> dict[str, Any]:
    """Of an answer that was stopped after ``limit`` seconds, or as late as after ``seconds``, or not at all."""
    if abandoned:
        hint = "It still uses this machine: restart the kernel (Kernel menu) when the notebook gets slow."
        return {"message": f"Your code was still running after {limit:g} s, and cannot be stopped.", "hint": hint}
    if seconds > limit + 1:
        hint = "It was one long operation, which nothing can interrupt. Is a tensor much larger than it has to be?"
        return {"message": f"Your code took {seconds:.0f} s; it has {limit:g} s.", "hint": hint}
    hint = "Does every loop come to its end? What changes from one round to the next?"
    return {"message": f"Your code was stopped: it was still running after {limit:g} s.", "hint": hint}


def changed(what: list[str]) -> dict[str, Any]:
    """Of an answer that changed what belongs to the whole notebook. ``what``: "changed …", "left …"."""
    return {
        "message": f"An answer leaves the notebook as it was; yours {_listed(what)}. That was undone.",
        "hint": "A function takes what it needs as arguments and leaves everything else as it was: "
        "`dtype=` and `device=` in the call, `with torch.no_grad():`, a `torch.Generator` of its own.",
    }


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _out_of_memory(error: BaseException, words: str) -> bool:
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and ("can't allocate memory" in words or "not enough memory" in words)
