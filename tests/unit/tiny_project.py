"""A project of a few small notebooks, for the tests of the tools."""

from __future__ import annotations

from pathlib import Path

from snnkit.lab.tools.project import Project, find

HEADER = """# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A title

# %% tags=["parameters"]
QUICK: bool = True  # small sizes
SOLVE: bool = False
STEPS: int = 8  # time steps
RATE: float = 0.5
DEVICE: str = "auto"
SEED: int | None = None
"""


def make(root: Path, cells: dict[str, str], repository: str = "https://github.com/someone/kit") -> Project:
    """A project in `root` with a notebook for each name in `cells`: the usual beginning, then the cells given."""
    (root / "notebooks" / "src").mkdir(parents=True, exist_ok=True)
    settings(root, repository)
    for name, text in cells.items():
        (root / "notebooks" / "src" / f"{name}.py").write_text(
            HEADER + "".join(f"\n# %%\n{c}\n" for c in text.split("---"))
        )
    return find(root)


def settings(root: Path, repository: str, branch: str = "main", released: str = "") -> None:
    lines = {"repository": repository, "branch": branch, "released": released}
    text = "".join(f'{key} = "{value}"\n' for key, value in lines.items())
    (root / "pyproject.toml").write_text(f"[tool.snnkit]\n{text}")
