"""Runs the modules of ``js/src``, and generated neurons, in node, beside what Python computes."""

from __future__ import annotations

import functools
import json
import subprocess
from pathlib import Path
from typing import Any

from snnkit.lab.viz.explorers import equations

from .needed import needs

SOURCES = Path(__file__).parents[1] / "js" / "src"


@functools.cache
def write_equations() -> None:
    """The module of the kit's equations, which no clone has: the build generates it."""
    equations.write(SOURCES / "explorers" / "equations.js")


def run(script: str, *modules: str, **given: Any) -> Any:
    """What ``script`` returns; in its scope are the exports of ``modules``, such as "network.js", and ``given``."""
    node = needs("node", "nodejs")
    if "explorers/equations.js" in modules:
        write_equations()
    addresses = json.dumps([(SOURCES / module).as_uri() for module in modules])
    values = "".join(f"const {name} = {json.dumps(value)};\n" for name, value in given.items())
    code = (
        f"Object.assign(globalThis, ...await Promise.all({addresses}.map((one) => import(one))));\n"
        f"{values}console.log(JSON.stringify((() => {{\n{script}\n}})()));"
    )
    done = subprocess.run([node, "--input-type=module", "-"], input=code, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
