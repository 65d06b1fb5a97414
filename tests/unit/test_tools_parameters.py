"""Typed parameters: what may be declared, what may be given."""

from __future__ import annotations

import nbformat.v4 as v4
import pytest

from snnkit.lab.tools.parameters import Parameter, ParameterError, assignment, declared


def notebook(*sources):
    return v4.new_notebook(cells=[v4.new_code_cell(source, metadata={"tags": ["parameters"]}) for source in sources])


def test_declarations_are_read():
    source = 'QUICK: bool = True  # small\nSTEPS: int = -8\nRATE: float = 1\nNAME: str = "a"\nSEED: int | None = None'
    known = declared(notebook(source), "00_start")
    plain = [("QUICK", bool, True), ("STEPS", int, -8), ("RATE", float, 1.0), ("NAME", str, "a")]
    expected = {row[0]: Parameter(*row) for row in plain}
    assert known == expected | {"SEED": Parameter("SEED", int, None, optional=True)}
    assert type(known["RATE"].default) is float


@pytest.mark.parametrize(
    ("sources", "says"),
    [
        ((), "exactly one cell"),
        (("A = 1",), "NAME: type = literal"),
        (("A: Int = 1",), "the type may be"),
        (("A: bool = 1",), "must be bool, but it is 1"),
        (("A: float = 1" + "0" * 400,), "must be float, but it is an int of 1329 bits"),
        (("A: int = 1\nA: int = 2",), "twice"),
        (("A: int = ",), "not Python"),
        ((f"A: int = {'-' * 9000}1",), "the parameters cell is nested too deeply"),
        ((f"A: int = 1{' + 1' * 2000}",), "(nested too deeply|must be a literal)"),
        ((f"A: {'-' * 2000}1 = 3",), "`A: -{100,}…`: the type may be"),
        (("\n  # first\nA: int | None | str = 3  # a comment",), "`A: int . None . str = 3  # a comment`: the type"),
        (("A: str = 'é'; é: int = 'a'",), "must be int, but it is 'a'"),
    ],
)
def test_other_declarations_are_refused(sources, says):
    with pytest.raises(ParameterError, match=f"notebook 00_start.*{says}"):
        declared(notebook(*sources), "00_start")


def test_text_becomes_a_value_of_the_type():
    good = ((bool, "false", False), (bool, "True", True), (int, "-3", -3), (float, "1e-3", 1e-3), (str, "x", "x"))
    for kind, text, value in good:
        parsed = Parameter("P", kind, None).parse(text)
        assert parsed == value and type(parsed) is kind
    for kind, text in ((bool, "maybe"), (bool, ""), (int, "3.0"), (float, "fast"), (float, "nan"), (int, "none")):
        with pytest.raises(ParameterError, match=f"parameter P must be {kind.__name__}, but it is"):
            Parameter("P", kind, None).parse(text)


@pytest.mark.parametrize("value", [True, 3, -0.5, 1e400, -1e400, "it's", None])
def test_an_assignment_is_python(value):
    namespace = {}
    exec(assignment("P", value), namespace)
    assert namespace["P"] == value and type(namespace["P"]) is type(value)
