"""Which runs a manifest asks for: every combination of a grid, or samples drawn at random; each with every seed."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .problems import ManifestError
from .values import Law, Listed

MOST = 100_000  # runs; beyond, a slip of the pen is more likely than the patience
_DRAWS = 100  # for each sample wanted, before the values are said to have too few combinations


@dataclass(frozen=True)
class Run:
    """One execution of the notebook.

    Attributes:
        id: of its parameters alone, so that the same run has the same name in every sweep of the folder.
        parameters: all that are set, by name.
    """

    id: str
    parameters: Mapping[str, Any]


def identity(parameters: Mapping[str, Any]) -> str:
    """12 hexadecimal digits that depend on names and values, not on their order. An int is no float here."""
    text = json.dumps(dict(parameters), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def runs(
    mode: str,
    parameters: Mapping[str, Listed | Law],
    fixed: Mapping[str, Any],
    seeds: Sequence[Any],
    *,
    samples: int = 0,
    seed: int = 0,
) -> tuple[Run, ...]:
    """The runs, the first parameter slowest and the seed fastest. `seeds` may be empty: the notebook's own, then.

    Raises ManifestError where there are too many, or where `samples` different ones can't be drawn.
    """
    if mode == "grid":
        sizes = [len(values.values) for values in parameters.values() if isinstance(values, Listed)]
        _check_size(math.prod(sizes) * max(1, len(seeds)))
        points: Iterator[dict[str, Any]] = _grid(parameters)
    else:
        _check_size(samples * max(1, len(seeds)))
        points = iter(_drawn(parameters, samples, seed))
    each_seed = [{"SEED": value} for value in seeds] or [{}]
    every = [{**point, **fixed, **given} for point in points for given in each_seed]
    return tuple(Run(identity(values), values) for values in every)


def _check_size(count: int) -> None:
    if count > MOST:
        raise ManifestError(f"parameters: these are {count:,} runs, and {MOST:,} are the most")


def _grid(parameters: Mapping[str, Listed | Law]) -> Iterator[dict[str, Any]]:
    lists = [values.values for values in parameters.values() if isinstance(values, Listed)]
    return (dict(zip(parameters, chosen, strict=True)) for chosen in itertools.product(*lists))


def _drawn(parameters: Mapping[str, Listed | Law], samples: int, seed: int) -> list[dict[str, Any]]:
    """`samples` different points. The i-th draw of a parameter depends on nothing but `seed`, i and its name: so more
    samples keep those that are there, and the order of the parameters says nothing."""
    found: dict[str, dict[str, Any]] = {}
    sizes = [len(values.values) for values in parameters.values() if isinstance(values, Listed)]
    if len(sizes) == len(parameters) and math.prod(sizes) < samples:  # known before a million draws
        raise ManifestError(f"samples: there are {math.prod(sizes)} different ones, but {samples} were asked for")
    for i in range(samples * _DRAWS):
        point = {name: values.at(_uniform(seed, i, name)) for name, values in parameters.items()}
        found.setdefault(identity(point), point)
        if len(found) == samples:
            return list(found.values())
    raise ManifestError(f"samples: {samples} different ones were asked for, but these parameters gave {len(found)}")


def _uniform(seed: int, index: int, name: str) -> float:
    digest = hashlib.sha256(f"{seed}\0{index}\0{name}".encode()).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53
