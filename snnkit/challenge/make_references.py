"""Find the numbers of the references anew and write them: ``python -m snnkit.challenge.make_references``."""

from __future__ import annotations

import json
from typing import Any

import torch

import snnkit
from snnkit.files import replacing

from . import delay_lines, evolve, references
from .training import network, train

SEED = 2
SEEDS = 4  # of evolution, which stops at one spike per sample about every other time


def make() -> dict[str, Any]:
    """Name -> the numbers of a network."""
    found: dict[str, Any] = {}
    for name, penalty in (("plain", 0.0), ("thrifty", references.PENALTY)):
        torch.manual_seed(SEED)
        net = train(network(references.HIDDEN), penalty, updates=600, seed=SEED)
        found[name] = {key: _rounded(value) for key, value in net.state_dict().items()}
    found["two neurons"] = _rounded(evolve.best_of(range(SEEDS)))
    weights, bias = delay_lines.fit(seed=SEED)
    found["delays"] = {"weights": _rounded(weights), "bias": round(bias, 5)}
    return found


def _rounded(values: torch.Tensor) -> Any:
    return torch.round(values.double(), decimals=5).tolist()


def main() -> None:
    torch.set_num_threads(1)
    made_by = {
        "program": "python -m snnkit.challenge.make_references",
        "seed": SEED,
        "seeds": SEEDS,
        "snnkit": snnkit.__version__,
    }
    content = {"made_by": made_by | {"torch": torch.__version__}, "networks": make()}
    with replacing(references.FILE) as file:
        file.write(f"{json.dumps(content)}\n".encode())
    for name in references.NOTES:
        print(f"{name}: {references.reference_score(name)}")


if __name__ == "__main__":
    main()
