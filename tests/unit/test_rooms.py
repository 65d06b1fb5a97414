"""The plan of the house: rooms are layers, and imports point down, those inside functions counted."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "snnkit"

# From the ground up. A room may use those of lower layers; two rooms of one layer do not use each other.
LAYERS = [
    {"checks", "lazy"},
    {"files", "tables"},
    {"measure", "records", "surrogate"},
    {"engine"},
    {"encode", "loss", "neuron"},
    {"pooling"},
    {"nn"},
    {"data", "models"},
    {"device"},
    {"train"},
    {"export", "interop", "plasticity", "quantize", "text"},
    {"hardware"},
    {"bench"},
    {"viz"},
    {"challenge", "course"},
    {"tools"},
    {"sweep", "workshop"},
    {"cli"},
]
# What still points up, to be emptied.
UPWARD = {}
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
                if parts[0] == "snnkit" and len(parts) > 1 and parts[1] in LEVEL:
                    used.add(parts[1])
            visit(child)

    visit(ast.parse(path.read_text()))
    return used


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("room", sorted(LEVEL))
def test_a_room_uses_only_the_rooms_below(room):
    files = [path for path in PACKAGE.rglob("*.py") if room_of(path) == room]
    upward = {
        f"{path.relative_to(PACKAGE)} -> {used}"
        for path in files
        for used in rooms_used(path) - {room}
        if LEVEL[used] >= LEVEL[room] and (room, used) not in UPWARD
    }
    assert not upward


def test_every_room_has_its_layer():
    rooms = {room_of(path) for path in PACKAGE.rglob("*.py")} - {"__init__", "__main__"}
    assert rooms == set(LEVEL)
