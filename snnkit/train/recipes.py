"""Named recipes: a network, its data and every hyperparameter, with which the same seed gives the same result.

```python
from snnkit import viz
from snnkit.train import recipes

recipes.names()                                     # ['dense', 'digits', 'fashion', ...]
recipe = recipes.get("digits", epochs=5)            # any setting can be another
panel = viz.LivePanel(recipe.epochs)
run = recipes.run(recipe, on_epoch=panel, on_batch=panel.on_batch)
run.history.test_accuracy[-1], run.model
```

In a shell the same is `snnkit train digits --epochs 5`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from snnkit import data
from snnkit.data import resolve_device
from snnkit.train.archive import writable
from snnkit.train.callbacks import in_turn
from snnkit.train.history import History
from snnkit.train.loop import BatchInfo, fit
from snnkit.train.recipe import NETWORKS, Recipe
from snnkit.train.seed import seed_everything
from snnkit.train.settings import SettingsFile

__all__ = ["Recipe", "Run", "get", "names", "run"]

_RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            "fashion",
            "SpikingJelly's tutorial: a conv net of 128 channels on Fashion-MNIST, as published; for a GPU",
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
            "Norse's workshop: encoder of 32 steps, conv net, maximum over time, on MNIST; for a GPU",
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
    """What ``run`` gives: the recipe as it was run, the trained model, and the history of all its epochs."""

    recipe: Recipe
    model: nn.Module
    history: History
    device: torch.device


def names() -> list[str]:
    """The names that ``get`` knows."""
    return sorted(_RECIPES)


def get(name: str, /, **settings: Any) -> Recipe:
    """The recipe of this name, with some of its settings replaced.

    Raises:
        ValueError: there is none of that name, or no such setting; a value that is not possible.
        TypeError: a value of the wrong kind.
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be one of {', '.join(map(repr, names()))}; got {name!r} ({type(name).__name__})")
    if name not in _RECIPES:
        raise ValueError(f"name must be one of {', '.join(map(repr, names()))}; got {name!r}")
    return changed(_RECIPES[name], settings)


def changed(recipe: Recipe, settings: dict[str, Any]) -> Recipe:
    """``recipe`` with other settings; errors as ``get``. With another network, those of the old one alone go."""
    known = recipe.choices()
    if unknown := sorted(set(settings) - set(known)):
        raise ValueError(f"a recipe has no setting {unknown[0]!r}; it has {', '.join(known)}")
    own = NETWORKS.get(settings.get("network", recipe.network), ())
    foreign = {name for names in NETWORKS.values() for name in names} - set(own)
    return replace(recipe, **(dict.fromkeys(foreign) | settings))


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
        recipe: a name, or what ``get`` gives.
        root, download: of ``data.load``.
        device, progress: of ``fit``.
        on_epoch: one function or several, called after each epoch with (history, model): a ``viz.LivePanel``, a
            ``train.TensorBoard``. Those with a method ``finish`` have it called when training is over.
        on_batch: one function or several, called after each update: the ``on_batch`` of a ``viz.LivePanel``.
        checkpoint: a file, written after each epoch. Beside it, with ``.json`` at its end, go the settings.
        resume: go on from that file, with the settings beside it, exactly as if nothing had happened; from the start
            if it was not yet there. Without it the file must not exist.
        settings: in place of the recipe's. With ``resume``, what is not given comes from beside the checkpoint; what is
            given, all settings of a ``Recipe`` included, must be the same there, but for other ways to compute the same
            (``SettingsFile.FREE``), and for ``epochs`` if the learning rate is constant.

    Raises:
        ValueError, TypeError: what ``get``, ``data.load`` and ``fit`` refuse; settings that are not those of the run to
            go on with.
        FileExistsError: ``checkpoint`` is there, and ``resume`` is not asked for.
    """
    tell = in_turn("on_epoch", on_epoch)
    after_update = in_turn("on_batch", on_batch)
    target = resolve_device(device)
    recipe, file = chosen(recipe, settings, checkpoint, resume)
    train_data, test_data = (
        data.load(recipe.dataset, split, root=root, download=download) for split in ("train", "test")
    )
    if recipe.samples is not None:
        if recipe.samples > len(train_data[1]):
            raise ValueError(
                f"samples must be at most {len(train_data[1])}, all of {recipe.dataset}; got {recipe.samples}"
            )
        train_data = train_data[0][: recipe.samples], train_data[1][: recipe.samples]

    if file is not None:
        file.write(recipe)
    seed_everything(recipe.seed)
    model = recipe.build().to(target)
    optimizer = recipe.optimizer_of(model, target)
    history = fit(
        model,
        train_data,
        test_data,
        encode=recipe.encoder(model),
        loss=recipe.criterion(),
        optimizer=optimizer,
        scheduler=recipe.scheduler_of(optimizer),
        epochs=recipe.epochs,
        batch_size=recipe.batch_size,
        device=target,
        amp=recipe.amp,
        augment=recipe.augmentation(),
        clip=recipe.clip,
        accumulate=recipe.accumulate,
        channels_last=recipe.channels_last,
        compile=recipe.compile,
        graphed=recipe.graphed_on(target),
        seed=recipe.seed,
        progress=progress,
        on_epoch=tell,
        on_batch=in_turn("on_batch", recipe.after_each_update(optimizer, len(train_data[1])), after_update),
        checkpoint=checkpoint,
        resume=resume,
    )
    return Run(recipe, model, history, target)


def chosen(
    recipe: Recipe | str, settings: dict[str, Any], checkpoint: str | os.PathLike[str] | None, resume: bool
) -> tuple[Recipe, SettingsFile | None]:
    """The recipe that ``run`` runs, and the file of its settings if there is a checkpoint; errors as there."""
    named = isinstance(recipe, str)
    recipe = get(recipe, **settings) if isinstance(recipe, str) else changed(_checked(recipe), settings)
    if resume and checkpoint is None:
        raise ValueError("resume=True needs checkpoint=, the file to go on from")
    file = None if checkpoint is None else SettingsFile(writable(checkpoint, "checkpoint"))
    if file is not None and resume:
        # Of a name only the settings beside it are asked for, of a recipe all that it says.
        recipe = file.resumed(recipe, settings if named else recipe.choices())
    elif file is not None:
        file.check_new()
    return recipe, file


def _checked(recipe: Any) -> Recipe:
    if not isinstance(recipe, Recipe):
        raise TypeError(f"recipe must be a name or a Recipe; got {recipe!r} ({type(recipe).__name__})")
    return recipe
