"""How much each layer of a network fires, on an input that stays the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def followed(layers: Any, probe: Any) -> dict[str, int]:
    """``layers`` as a dict, if it can be one of names to indices, and ``probe`` an input [T, B, …].

    Raises:
        TypeError, ValueError: as ``LivePanel``; before the training, in place of after its first epoch.
    """
    import torch

    if not isinstance(layers, Mapping):
        raise TypeError(f"layers must be a dict of name to index, such as {{'hidden': 1}}, not {layers!r}")
    for name, index in layers.items():
        if not isinstance(name, str):
            raise TypeError(f"layers must have names as keys, not {name!r}")
        if not isinstance(index, int) or isinstance(index, bool):
            raise TypeError(f"layers[{name!r}] must be a whole number, not {index!r}")
    if not isinstance(probe, torch.Tensor):
        raise TypeError(f"probe must be a tensor [T, B, …], not {type(probe).__name__}")
    if probe.ndim < 2 or probe.numel() == 0:
        raise ValueError(f"probe must be [T, B, …] with nothing empty, not of shape {tuple(probe.shape)}")
    if probe.is_meta:
        raise ValueError("probe must hold numbers, but it is on the device meta")
    return dict(layers)


def layer_rates(model: Any, layers: Mapping[str, int], probe: Any) -> dict[str, float]:
    """Mean output per neuron and step of some modules: their firing rates, if they spike.

    Args:
        model: an ``nn.Sequential`` of this package; runs in evaluation mode, without gradients.
        layers: name to index into its modules.
        probe: [T, B, …].

    Raises:
        TypeError: model cannot record what its layers put out.
        ValueError: an index that the model does not have.
    """
    import torch

    if not callable(getattr(model, "record", None)):
        raise TypeError(f"model must be an nn.Sequential of snnkit to follow its layers, not {type(model).__name__}")
    modules = len(list(model.children()))
    for name, index in layers.items():
        if not -modules <= index < modules:
            raise ValueError(f"layers[{name!r}] must be an index into the model's {modules} modules, not {index!r}")
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            device = next((p.device for p in model.parameters()), probe.device)
            outputs = model.record(probe.to(device)).layers
    finally:
        model.train(training)
    return {name: float(outputs[index].float().mean()) for name, index in layers.items()}
