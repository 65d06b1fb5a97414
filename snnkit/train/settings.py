"""The settings of a run, beside its checkpoint: what is resumed must be what was begun."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from snnkit.files import replacing
from snnkit.train.recipe import Recipe


class SettingsFile:
    """The file that says how the weights in ``checkpoint`` are trained; its name is the checkpoint's and ``.json``.

    Raises:
        ValueError: naming the file and the settings, where it can't be read or asks for another run.
    """

    FREE: ClassVar = ("compile", "graphed", "channels_last", "engine")  # other ways to compute the same

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        self.path = checkpoint.with_name(f"{checkpoint.name}.json")

    def check_new(self) -> None:
        """Refuse to begin a run where a checkpoint is: it may be somebody's last good one."""
        if self.checkpoint.exists():
            raise FileExistsError(
                f"checkpoint {self.checkpoint} exists: resume=True (--resume) goes on from it; "
                "to begin anew, name another file or delete this one"
            )

    def resumed(self, recipe: Recipe, asked: dict[str, Any]) -> Recipe:
        """The recipe to go on with: the one noted, with what may differ of the settings that were ``asked`` for."""
        if not self.path.exists():
            if self.checkpoint.exists():
                raise ValueError(
                    f"{self.path}, which says how {self.checkpoint} was trained, is missing; to train on from its "
                    "weights alone, use train.load_checkpoint and train.fit"
                )
            return recipe
        noted = self._read()
        if noted.name != recipe.name:
            raise ValueError(f"{self.checkpoint} is of the recipe {noted.name!r}; got {recipe.name!r}")
        for name, value in asked.items():
            before = getattr(noted, name)
            if value == before or name in self.FREE:
                continue
            if name == "epochs" and noted.schedule == "constant":
                continue
            why = ", over which its learning rate falls" if name == "epochs" else ""
            raise ValueError(
                f"{name} is {before!r} in the run of {self.checkpoint}{why}; it can't go on with {value!r}"
            )
        return replace(noted, **asked)

    def write(self, recipe: Recipe) -> None:
        """Note the settings, before the first checkpoint."""
        with replacing(self.path) as file:
            file.write(json.dumps(recipe.settings(), indent=1, ensure_ascii=False).encode() + b"\n")

    def _read(self) -> Recipe:
        try:
            content = json.loads(self.path.read_bytes())
            if not isinstance(content, dict):
                raise ValueError(f"it holds a {type(content).__name__}, not settings by name")
            return Recipe(**content)
        except (OSError, ValueError, TypeError, RecursionError) as error:  # a folder, no JSON, impossible settings
            raise ValueError(f"{self.path} is damaged, or of another snnkit: {error}") from None
