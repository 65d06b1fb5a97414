"""The preflight check of a room: every machine says in one line what it is good for. Built on `snnkit doctor`."""

from __future__ import annotations

import getpass
import platform
import shutil
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

import snnkit
from snnkit.measure import machine
from snnkit.tools import doctor

from .verdict import LIMITS, READY, STOP, Verdict

NEEDS = ("gpu", "network", "mnist", "fashion")  # what a workshop may ask for beyond the usual
# Amber lines of the doctor that no notebook minds, unless the workshop needs them.
HARMLESS = ("GPU", "bfloat16", "Triton", "data: mnist", "data: fashion")
PATIENCE = 5.0  # seconds for an answer from the network


def verdict(name: str = "", needs: Sequence[str] = (), lines: Sequence[doctor.Line] | None = None) -> Verdict:
    """This machine's verdict: STOP for what is red, or needed and not there, LIMITS for what is amber.

    Args:
        name: the learner's, or any word by which you find the machine again. Default: the user's login name.
        needs: what this workshop cannot do without, of ``NEEDS``.
        lines: the doctor's findings; looked for if not given.

    Raises:
        ValueError: an unknown need.
    """
    unknown = [need for need in needs if need not in NEEDS]
    if unknown:
        raise ValueError(f"needs must be of {', '.join(NEEDS)}, but it is {unknown[0]!r}")
    lines = doctor.report() if lines is None else lines
    by_name = {line.name: line for line in lines}
    online = reachable()
    has_gpu = any(line.name.startswith("GPU ") for line in lines)
    missing = {
        "gpu": not has_gpu,
        "network": online is False,
        **{
            data: by_name.get(f"data: {data}", doctor.Line("", doctor.RED, "")).status != doctor.GREEN
            for data in NEEDS[2:]
        },
    }
    red = [line.name for line in lines if line.status == doctor.RED] + [need for need in needs if missing[need]]
    amber = [line.name for line in lines if line.status == doctor.AMBER and not line.name.startswith(HARMLESS)]
    facts = {
        "name": name or _user(),
        "when": datetime.now(timezone.utc).isoformat(timespec="minutes").replace("+00:00", "Z"),
        "kit": snnkit.__version__,
        "network": {True: "yes", False: "no", None: "untried"}[online],
        "amber": ",".join(amber),
        "red": ",".join(red),
        **_facts(by_name, has_gpu),
    }
    return Verdict(STOP if red else LIMITS if amber else READY, facts)


def fixes(lines: Sequence[doctor.Line]) -> list[str]:
    """What to do about each red or amber finding that matters, in the doctor's words."""
    return [
        f"{line.name}: {line.value}" + (f" -> {line.fix}" if line.fix else "")
        for line in sorted(lines, key=lambda line: line.status != doctor.RED)
        if line.status == doctor.RED or (line.status == doctor.AMBER and not line.name.startswith(HARMLESS))
    ]


def reachable() -> bool | None:
    """Whether the home of the project on the web answers, by a proxy if one is set; None where nobody knows it."""
    import urllib.error
    import urllib.request

    from snnkit.tools.project import ProjectError, find

    try:
        address = find().repository
    except ProjectError:  # installed without its repository
        return None
    try:
        request = urllib.request.Request(address, method="HEAD")
        with urllib.request.urlopen(request, timeout=PATIENCE):
            return True
    except urllib.error.HTTPError:  # an answer is an answer
        return True
    except (OSError, ValueError):
        return False


def _facts(by_name: dict[str, doctor.Line], has_gpu: bool) -> dict[str, str]:
    """Versions and sizes; empty texts for what can't be found out."""
    place = "Colab" if machine.in_colab() else platform.system()
    return {
        "python": platform.python_version(),
        "system": f"{place} {platform.machine()}",
        "torch": _torch(),
        "device": by_name["GPU 0"].value if has_gpu else "cpu",
        "cores": str(machine.cores()),
        "memory_gib": _memory(),
        "disk_gib": f"{shutil.disk_usage(Path.cwd()).free / machine.GIB:.1f}",
        "compiler": "yes" if machine.compiler() else "no",
        "jupyter": "yes" if _green(by_name, "Jupyter") and _green(by_name, "pictures") else "no",
        "data": ",".join(data for data in ("digits", "mnist", "fashion") if _green(by_name, f"data: {data}")),
    }


def _green(by_name: dict[str, doctor.Line], name: str) -> bool:
    return name in by_name and by_name[name].status == doctor.GREEN


def _memory() -> str:
    """Free and all main memory, "6.2/7.8"."""
    try:
        total, free = machine.memory_gib()
    except ImportError:  # psutil comes with snnkit[lab]
        return ""
    return f"{free:.1f}/{total:.1f}"


def _torch() -> str:
    return machine.version("torch") or ""


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # no login name: a container, or Windows without its variables
        return "somebody"
