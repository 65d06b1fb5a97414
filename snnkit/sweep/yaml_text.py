"""Manifests as text: YAML whose plain words mean what YAML 1.2 says.

PyYAML follows YAML 1.1, where `1e-3` is a word, `010` is 8, `1:30` is 90, `no` is false, and of two equal keys the last
one wins without a word. In a list of learning rates each of these is a wrong experiment.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from .problems import ManifestError

# The core schema, https://yaml.org/spec/1.2.2/#103-core-schema
_NULL = r"~|null|Null|NULL|"
_BOOL = r"true|True|TRUE|false|False|FALSE"
_INT = r"[-+]?[0-9]+|0x[0-9a-fA-F]+"
_FLOAT = r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"


def read(text: str, name: str) -> Any:
    """The value that `text` spells; `name` is for messages. Raises ManifestError with the line."""
    import yaml

    try:
        return yaml.load(text, _loader())
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ManifestError(f"{name}{line}: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError, KeyError, TypeError, RecursionError) as error:  # of a tag that doesn't fit
        raise ManifestError(f"{name} is not YAML: {' '.join(str(error).split())}") from None


@functools.cache
def _loader() -> Any:
    import yaml

    class Loader(yaml.SafeLoader):
        """Of plain data, with YAML 1.2's numbers and without repeated keys."""

    # Of the resolvers of YAML 1.1 (dates, sexagesimal numbers, "on" and "off") none is kept.
    Loader.yaml_implicit_resolvers = {}
    for tag, pattern in (("null", _NULL), ("bool", _BOOL), ("int", _INT), ("float", _FLOAT)):
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(f"^(?:{pattern})$"), None)

    def whole(loader: Any, node: Any) -> int:
        digits = loader.construct_scalar(node)
        return int(digits, 16 if digits.startswith("0x") else 10)

    def real(loader: Any, node: Any) -> float:
        return float(loader.construct_scalar(node).lower().replace(".inf", "inf").replace(".nan", "nan"))

    def mapping(loader: Any, node: Any) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = loader.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.constructor.ConstructorError(None, None, f"{key!r} can't be a key", key_node.start_mark)
            if key in found:
                problem = f"the key {key} stands there twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
            found[key] = loader.construct_object(value_node, deep=True)
        return found

    for tag, build in (("int", whole), ("float", real), ("map", mapping)):
        Loader.add_constructor(f"tag:yaml.org,2002:{tag}", build)
    return Loader
