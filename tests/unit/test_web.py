"""The scripts of pages are those that ``js/`` gives, and the wheel needs nothing of it."""

import hashlib
import re
from pathlib import Path

import pytest

from snnkit.lab.pages import web

from ..javascript import SOURCES, write_equations

BUILT = Path(web.__file__).parents[1] / "web"
SCRIPTS = sorted(file.relative_to(BUILT).as_posix() for file in BUILT.rglob("*.js"))


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_built_from_the_sources_of_today(name):
    """Each begins with the SHA-256 of its sources and of the settings of the build; after a change, ``make web``."""
    line = (BUILT / name).read_text(encoding="utf-8").partition("\n")[0]
    said, sources = re.fullmatch(r"// ([0-9a-f]{64}) (.*)", line).groups()
    names = sources.split(" ")
    assert {"build.mjs", "package-lock.json", f"src/{name}".replace("shared", "explorer")} <= set(names)
    if "src/explorers/equations.js" in names:
        write_equations()
    checksum = hashlib.sha256()
    for source in names:
        checksum.update(f"{source}\n".encode() + (SOURCES.parent / source).read_bytes())
    assert checksum.hexdigest() == said, f"{name} is older than its sources: run make web"


def test_every_module_is_in_a_script():
    headers = [(BUILT / name).read_text(encoding="utf-8").partition("\n")[0].split(" ") for name in SCRIPTS]
    modules = {f"src/{file.relative_to(SOURCES).as_posix()}" for file in SOURCES.rglob("*.js")}
    assert modules == {source for header in headers for source in header if source.startswith("src/")}


def test_a_bundle_has_no_checksum_and_loads_nothing():
    for name in SCRIPTS:
        text = web.bundle(name)
        assert text and not text.startswith("//") and not re.search(r"^(import|export)\\b", text, re.MULTILINE), name
    with pytest.raises(FileNotFoundError):
        web.bundle("nothing.js")
