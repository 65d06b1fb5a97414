"""The typed parameters of a notebook: what its `parameters` cell declares, and values given on a command line."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from snnkit import checks

if TYPE_CHECKING:
    from nbformat import NotebookNode

TYPES: dict[str, type] = {"bool": bool, "int": int, "float": float, "str": str}
WORDS = {"true": True, "false": False}
LONGEST = 10_000  # characters of a parameters cell


class ParameterError(ValueError):
    """A parameter that doesn't exist, has no usable declaration, or was given a value of another type."""


@dataclass(frozen=True)
class Parameter:
    """`NAME: kind = default`, or `NAME: kind | None = default`."""

    name: str
    kind: type
    default: Any
    optional: bool = False

    def __str__(self) -> str:
        return f"{self.name}: {self.expects} = {self.default!r}"

    @property
    def expects(self) -> str:
        return self.kind.__name__ + (" | None" if self.optional else "")

    @checks.arguments
    def parse(self, text: str) -> Any:
        """The value of `text`, from a command line. Raises ParameterError."""
        if self.optional and text.lower() == "none":
            return None
        try:
            value = WORDS[text.lower()] if self.kind is bool else self.kind(text)
        except (KeyError, ValueError):
            value = text
        return self.check(value)

    def check(self, value: Any) -> Any:
        """`value` if it is of this parameter's type (an int may stand for a float). Raises ParameterError."""
        if value is None and self.optional:
            return None
        if self.kind is float and type(value) is int and abs(value) < 1e300:
            value = float(value)
        if type(value) is not self.kind or value != value:
            raise ParameterError(f"parameter {self.name} must be {self.expects}, but it is {checks.shown(value)}")
        if isinstance(value, str) and not value.isascii() and re.search(r"[\ud800-\udfff]", value):
            raise ParameterError(f"parameter {self.name} must be text of whole characters, but it is {value!a}")
        return value


@checks.arguments
def declared(notebook: NotebookNode, name: str) -> dict[str, Parameter]:
    """The parameters of notebook `name`, by their names.

    Raises:
        ParameterError: there is not exactly one cell tagged `parameters`, or it holds anything but `NAME: type =
            literal` with a type of bool, int, float, str, or one of them `| None`.
    """
    cells = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    if len(cells) != 1:
        raise ParameterError(f"notebook {name} must have exactly one cell tagged 'parameters', but it has {len(cells)}")
    source = cells[0].source
    if len(source) > LONGEST:
        what = f"the parameters cell must have at most {LONGEST:,} characters, but it has {len(source):,}"
        raise ParameterError(f"notebook {name}: {what}")
    try:
        statements = ast.parse(source).body
    except (MemoryError, RecursionError):  # what Python's parser says of too many signs or brackets
        raise ParameterError(f"notebook {name}: the parameters cell is nested too deeply") from None
    except (SyntaxError, ValueError) as error:  # ValueError: a null character
        raise ParameterError(f"notebook {name}: the parameters cell is not Python: {error}") from None
    parameters = {}
    for statement in statements:
        try:
            parameter = _declaration(statement)
        except ParameterError as error:
            line = checks.cut(source.encode().splitlines()[statement.lineno - 1].decode().strip())
            raise ParameterError(f"notebook {name}: in the parameters cell, `{line}`: {error}") from None
        if parameter.name in parameters:
            raise ParameterError(f"notebook {name}: parameter {parameter.name} is declared twice")
        parameters[parameter.name] = parameter
    return parameters


@checks.arguments
def resolve(wanted: Mapping[str, Any], known: Mapping[str, Parameter], name: str) -> dict[str, Any]:
    """Values for notebook `name`: strings are parsed, everything else is checked. Raises ParameterError."""
    values = {}
    for key, value in wanted.items():
        if key not in known:
            listing = "; ".join(str(parameter) for parameter in known.values()) or "none"
            raise ParameterError(f"notebook {name} has no parameter {checks.shown(key)}; it has: {listing}")
        values[key] = known[key].parse(value) if isinstance(value, str) else known[key].check(value)
    return values


def assignment(name: str, value: Any) -> str:
    """Python that gives a parameter its value."""
    finite = not isinstance(value, float) or math.isfinite(value)
    return f"{name} = {value!r}" if finite else f"{name} = float('{value}')"


def _declaration(statement: ast.stmt) -> Parameter:
    if not (isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value):
        raise ParameterError("write NAME: type = literal")
    try:
        kind, none, rest = ast.unparse(statement.annotation).partition(" | None")
    except RecursionError:
        kind, none, rest = "", "", ""
    if kind not in TYPES or rest:
        raise ParameterError(f"the type may be {', '.join(TYPES)}, or one of these | None")
    try:
        default = ast.literal_eval(statement.value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):  # all that literal_eval may raise
        raise ParameterError("the value must be a literal, such as True, 8, 0.5 or 'auto'") from None
    parameter = Parameter(statement.target.id, TYPES[kind], None, bool(none))
    return Parameter(parameter.name, parameter.kind, parameter.check(default), parameter.optional)
