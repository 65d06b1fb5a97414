"""Named recipes: a network, its data and every hyperparameter, with which the same seed gives the same result.

```python
from snnkit.lab import viz
from snnkit.train import recipes

recipes.names()                                     # ['dense', 'digits', 'fashion', ...]
recipe = recipes.get("digits", epochs=5)            # any setting can be overridden
panel = viz.LivePanel(recipe.epochs)
run = recipes.run(recipe, on_epoch=panel, on_batch=panel.on_batch)
run.history.test_accuracy[-1], run.model
```

In a shell the same is `snnkit train digits --epochs 5`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn

from snnkit import checks, data
from snnkit.checks import choice, integer, shown
from snnkit.data import resolve_device
from snnkit.files import write_text
from snnkit.train.batches import Pair
from snnkit.train.checkpoint import checkpoint_file
from snnkit.train.history import CallbackList, History
from snnkit.train.loop import fit
from snnkit.train.metrics import BatchInfo
from snnkit.train.recipe import NETWORKS, Recipe, make_optimizer, make_scheduler
from snnkit.train.seeding import seed_everything

__all__ = ["Recipe", "Run", "get", "names", "run"]

_RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            "fashion",
            "SpikingJelly's tutorial: a conv net of 128 channels on Fashion-MNIST; channels_last is ours; for a GPU",
            dataset="fashion", network="conv", channels=128, hidden=2048, steps=4, epochs=64, batch_size=128,
            optimizer="sgd", lr=0.1, schedule="cosine", loss="rate_mse", amp=True, channels_last=True,
        ),
        Recipe(
            "mnist",
            "that net on MNIST, ten epochs, images moved by up to two pixels; for a GPU, hours on a CPU",
            dataset="mnist", network="conv", channels=128, hidden=2048, steps=4, epochs=10, batch_size=128,
            optimizer="sgd", lr=0.1, schedule="cosine", loss="rate_mse", shift=2, amp=True, channels_last=True,
        ),
        Recipe(
            "mnist-small",
            "SpikingJelly's conv net with 32 channels, one epoch of MNIST: minutes on a CPU",
            dataset="mnist", network="conv", channels=32, hidden=512, steps=4, epochs=1, batch_size=32,
            optimizer="adam", lr=2e-3, schedule="one-cycle", loss="rate_mse",
        ),
        Recipe(
            "dense",
            "snnTorch's tutorial 5: 784-1000-10 on MNIST, T = 25",
            dataset="mnist", network="dense", hidden=1000, steps=25, epochs=3, batch_size=128,
            optimizer="adam", lr=2e-3, schedule="one-cycle", loss="count_cross_entropy",
        ),
        Recipe(
            "statistical",
            "populations of neurons read out by the statistics of their firing, on MNIST",
            dataset="mnist", network="statistical", hidden=512, populations=64, steps=25, epochs=5, batch_size=128,
            optimizer="adam", lr=2e-3, schedule="one-cycle", loss="count_cross_entropy",
        ),
        Recipe(
            "workshop",
            "after Norse's workshop: encoder of 32 steps, conv net, maximum over time, on MNIST; for a GPU",
            dataset="mnist", network="norse", channels=20, hidden=500, encoding="constant_current_lif", gain=3.0,
            steps=32, epochs=5, batch_size=128, optimizer="adam", lr=1e-3, loss="membrane_max_cross_entropy",
        ),
        Recipe(
            "digits",
            "64-128-10 on the 8 × 8 digits of scikit-learn: offline, seconds",
            dataset="digits", network="dense", hidden=128, steps=25, epochs=10, batch_size=64,
            optimizer="adam", lr=5e-3, loss="count_cross_entropy",
        ),
    )
}  # fmt: skip


@dataclass
class Run:
    """The result of ``run``: the recipe as it was run, the trained model, and the history of all its epochs."""

    recipe: Recipe
    model: nn.Module
    history: History
    device: torch.device


def names() -> list[str]:
    """The names that ``get`` knows."""
    return sorted(_RECIPES)


def get(name: str, /, **settings: Any) -> Recipe:
    """The recipe of this name, with some of its settings replaced."""
    return _changed(_RECIPES[choice("name", name, names())], settings)


def _changed(recipe: Recipe, settings: dict[str, Any]) -> Recipe:
    """``recipe`` with other settings; errors as ``get``. With another network, those of the old one alone are reset."""
    known = recipe.choices()
    for name in sorted(set(settings) - set(known)):
        raise ValueError(f"a setting of a recipe must be one of {', '.join(known)}, but it is {shown(name)}")
    own = NETWORKS.get(settings.get("network", recipe.network), ())
    foreign = {name for names in NETWORKS.values() for name in names} - set(own)
    return replace(recipe, **(dict.fromkeys(foreign) | settings))


@checks.arguments
def run(
    recipe: Recipe | str,
    *,
    root: str | os.PathLike[str] | None = None,
    download: bool = True,
    device: str | torch.device = "auto",
    progress: bool = True,
    on_epoch: Callable[[History, nn.Module], Any] | Iterable[Callable[[History, nn.Module], Any]] = (),
    on_batch: Callable[[BatchInfo], Any] | Iterable[Callable[[BatchInfo], Any]] = (),
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    **settings: Any,
) -> Run:
    """Train as a recipe says: on the same machine and number of threads, a CPU gives the same weights every time.

    Args:
        recipe: a name, or the result of ``get``.
        root, download: of ``data.load``.
        device, progress: of ``fit``.
        on_epoch, on_batch: of ``fit``; one function or several.
        checkpoint: a file, written after each epoch. The settings are saved beside it, with ``.json`` at the end.
        resume: continue from that file, with the settings beside it, exactly as if nothing had happened; from the start
            if it does not exist yet. Without it the file must not exist.
        settings: instead of the recipe's. With ``resume``, those not given come from beside the checkpoint; those
            given, all settings of a ``Recipe`` included, must be the same there, except for other ways to compute the
            same (``SettingsFile.FREE``), and for ``epochs`` if the learning rate is constant.

    Raises:
        ValueError: settings that are not those of the run to resume; as ``data.load`` and ``fit``.
        FileExistsError: ``checkpoint`` exists, without ``resume``.
    """
    epoch_callbacks = CallbackList("on_epoch", on_epoch)
    CallbackList("on_batch", on_batch)  # raises for what is no function
    target = resolve_device(device)
    recipe, file = prepare(recipe, settings, checkpoint, resume)
    train_data, test_data = load_data(recipe.dataset, recipe.samples, root=root, download=download)
    if file is not None:
        file.write(recipe)
    seed_everything(recipe.seed)
    model = recipe.build().to(target)
    graphed = recipe.graphed_on(target)
    optimizer = make_optimizer(recipe.optimizer, model, recipe.lr, capturable=graphed)
    history = fit(
        model,
        train_data,
        test_data,
        encode=recipe.encoder(model),
        loss=recipe.criterion(),
        optimizer=optimizer,
        scheduler=make_scheduler(recipe.schedule, optimizer, recipe.epochs),
        epochs=recipe.epochs,
        batch_size=recipe.batch_size,
        device=target,
        amp=recipe.amp,
        augment=recipe.augmentation(),
        accumulate=recipe.accumulate,
        channels_last=recipe.channels_last,
        compile=recipe.compile,
        graphed=graphed,
        seed=recipe.seed,
        progress=progress,
        on_epoch=epoch_callbacks or None,
        on_batch=CallbackList("on_batch", recipe.one_cycle(optimizer, len(train_data[1])), on_batch) or None,
        checkpoint=checkpoint,
        resume=resume,
    )
    return Run(recipe, model, history, target)


def load_data(
    dataset: str, samples: int | None, *, root: str | os.PathLike[str] | None = None, download: bool = True
) -> tuple[Pair, Pair]:
    """The first so many training samples of a data set (None: all), and all test samples."""
    train, test = (data.load(dataset, split, root=root, download=download) for split in ("train", "test"))
    if samples is not None:
        integer("samples", samples, at_least=1)
        if samples > len(train[1]):
            raise ValueError(f"samples must be at most {len(train[1])}, all of {dataset}, but it is {samples}")
        train = train[0][:samples], train[1][:samples]
    return train, test


def prepare(
    recipe: Recipe | str, settings: dict[str, Any], checkpoint: str | os.PathLike[str] | None, resume: bool
) -> tuple[Recipe, SettingsFile | None]:
    """The recipe that ``run`` runs, and the file of its settings if there is a checkpoint; errors as there."""
    named = isinstance(recipe, str)
    if isinstance(recipe, str):
        recipe = get(recipe, **settings)
    else:
        recipe = _changed(recipe, settings)
    path = checkpoint_file(checkpoint, resume)
    file = None if path is None else SettingsFile(path)
    if file is not None and resume:
        # With a name only the settings given beside it are requested, with a Recipe all of its settings.
        recipe = file.resumed(recipe, settings if named else recipe.choices())
    elif file is not None and file.checkpoint.exists():  # it may be the last good one of another run
        raise FileExistsError(
            f"checkpoint {file.checkpoint} exists: resume=True (--resume) continues from it; "
            "to start again, name another file or delete this one"
        )
    return recipe, file


class SettingsFile:
    """The settings of the run that writes ``checkpoint``; the file's name is the checkpoint's and ``.json``."""

    FREE: ClassVar = ("compile", "graphed", "channels_last", "engine")  # other ways to compute the same

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        self.path = checkpoint.with_name(f"{checkpoint.name}.json")

    def resumed(self, recipe: Recipe, requested: dict[str, Any]) -> Recipe:
        """The recipe to continue with: the saved one, with what may differ of the ``requested`` settings."""
        if not self.path.exists():
            if self.checkpoint.exists():
                raise ValueError(
                    f"{self.path}, the settings with which {self.checkpoint} was trained, is missing; to train on from "
                    "its weights alone, use train.load_checkpoint and train.fit"
                )
            return recipe
        saved = self.read()
        if saved.name != recipe.name:
            raise ValueError(
                f"recipe must be {saved.name!r}, that of {self.checkpoint}, but it is {shown(recipe.name)}"
            )
        for name, value in requested.items():
            before = getattr(saved, name)
            if value == before or name in self.FREE or (name == "epochs" and saved.schedule == "constant"):
                continue
            why = ", over which its learning rate falls" if name == "epochs" else ""
            raise ValueError(
                f"{name} is {before!r} in the run of {self.checkpoint}{why}; it can't be resumed with {value!r}"
            )
        return replace(saved, **requested)

    def write(self, recipe: Recipe) -> None:
        """Before the first checkpoint."""
        write_text(self.path, json.dumps(recipe.settings(), indent=1, ensure_ascii=False) + "\n")

    def read(self) -> Recipe:
        """The saved recipe. ValueError, naming the file, if there is none in it."""
        try:
            content = json.loads(self.path.read_bytes())
            if not isinstance(content, dict):
                raise ValueError(f"it holds a {type(content).__name__}, not settings by name")
            return Recipe(**content)
        except (OSError, ValueError, TypeError, RecursionError) as error:  # a folder, no JSON, impossible settings
            raise ValueError(f"{self.path} is damaged, or of another snnkit: {error}") from None
