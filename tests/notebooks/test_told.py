"""An answer that is told before its prediction is found: in an output, in a text, and where no outcome hides it."""

from __future__ import annotations

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

from .told import contradicted, told

WRONG = "no error, but most answers are wrong"


def cell(source, *printed):
    outputs = [new_output("stream", text=text) for text in printed]
    return new_code_cell(source, outputs=outputs)


PREDICT, RUN = cell('predict("preflight.c")', "Prediction 00.c: what?"), cell("print(net(x))", WRONG)
OUTCOME = cell('outcome("preflight.c", 2)', WRONG, f"Outcome 00.c: {WRONG}\n  20 steps of …")
BELOW = new_markdown_cell(f"<details>\n\nThere is {WRONG}.\n\n</details>\n\n## Next\n\nThere was {WRONG}.")


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        ([PREDICT, RUN, OUTCOME, BELOW], []),
        ([RUN, PREDICT, OUTCOME], [f"cell 0 tells preflight.c: {WRONG}"]),
        ([PREDICT, cell('x = attempt("preflight.1", x)', WRONG), OUTCOME], [f"cell 1 tells preflight.c: {WRONG}"]),
        ([PREDICT, OUTCOME, new_markdown_cell(f"There is *{WRONG}*.")], [f"cell 2 tells preflight.c: {WRONG}"]),
        ([PREDICT, new_markdown_cell(f"Here is {WRONG}."), OUTCOME], [f"cell 1 tells preflight.c: {WRONG}"]),
        ([PREDICT, RUN, BELOW], ["preflight.c has no outcome"]),
        ([OUTCOME, PREDICT], ["cell 0 ends preflight.c, which has not been asked", "preflight.c has no outcome"]),
        (
            [PREDICT, cell('x = attempt("preflight.1", x)\noutcome("preflight.c")')],
            ["cell 1 ends preflight.c, and what it shows is not hidden"],
        ),
        (
            [cell('predict("preflight.b")'), new_markdown_cell("12 neurons"), cell('outcome("preflight.b", 12)')],
            ["cell 1 tells preflight.b: 12 neurons"],
        ),
    ],
)
def test_what_is_told_too_early_is_found(cells, found):
    assert [line for line in told(cells) if line not in found] == [] and set(found) <= set(told(cells))


def test_a_result_that_is_not_the_answer_is_found():
    assert contradicted([OUTCOME, cell("", "Outcome 00.b: 20 neurons\n  12 of …")]) == []
    wrong = [cell("", "Outcome 00.b: 30 neurons"), cell("", "Outcome 00.c: an error")]
    assert [line.partition(" has")[0] for line in contradicted(wrong)] == ["preflight.b", "preflight.c"]
