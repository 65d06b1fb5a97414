"""The plan of the house: the library, the lab above it, rooms as layers; imports inside functions count."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "snnkit"

# From the ground up. A room may use those of lower layers; two rooms of one layer do not use each other.
LIBRARY = [
    {"checks", "lazy"},
    {"files", "tables"},
    {"measure", "records", "surrogate"},
    {"engine"},
    {"event_products"},
    {"linear"},
    {"encode", "loss", "neuron"},
    {"convolution", "event_lists", "pooling", "recording"},
    {"nn"},
    {"data", "models"},
    {"device"},
    {"train"},
    {"export", "interop", "plasticity", "quantize"},
]
LAB = [
    {"text"},
    {"hardware", "pages"},
    {"bench"},
    {"viz"},
    {"challenge", "course"},
    {"exercises"},
    {"tools"},
    {"sweep", "workshop"},
    {"cli"},
]
LAYERS = LIBRARY + [{f"lab.{room}" for room in rooms} for rooms in LAB]
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}


def rooms_used(path: Path) -> set[str]:
    """Rooms of the package that a file imports from, anywhere but for type checkers."""
    package = ["snnkit", *path.relative_to(PACKAGE).parent.parts]
    used: set[str] = set()

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                continue
            names: list[str] = []
            if isinstance(child, ast.Import):
                names = [alias.name for alias in child.names]
            elif isinstance(child, ast.ImportFrom):
                base = package[: len(package) - child.level + 1] if child.level else []
                base = [*base, *(child.module or "").split(".")] if child.module else base
                names = [".".join([*base, alias.name]) for alias in child.names]
            for name in names:
                parts = name.split(".")
                room = ".".join(parts[1:3] if parts[1:2] == ["lab"] else parts[1:2])
                if parts[0] == "snnkit" and room in LEVEL:
                    used.add(room)
            visit(child)

    visit(ast.parse(path.read_text()))
    return used


def room_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:2] if parts[0] == "lab" else parts[:1])


@pytest.mark.parametrize("room", sorted(LEVEL))
def test_a_room_uses_only_the_rooms_below(room):
    files = [path for path in PACKAGE.rglob("*.py") if room_of(path) == room]
    upward = {
        f"{path.relative_to(PACKAGE)} -> {used}"
        for path in files
        for used in rooms_used(path) - {room}
        if LEVEL[used] >= LEVEL[room]
    }
    assert not upward


def test_every_room_has_its_layer():
    rooms = {room_of(path) for path in PACKAGE.rglob("*.py")} - {"__init__", "lab.__init__"}
    assert rooms == set(LEVEL)
