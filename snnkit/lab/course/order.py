"""The notebooks of the course in their order. All else names them, so that a notebook can move to another place."""

from __future__ import annotations

from typing import Any

NOTEBOOKS = (
    "preflight",
    "first_spiking_neuron",
    "surrogate_gradients",
    "encodings",
    "train_your_first_network",
    "moving_house",
    "fused_neurons",
    "conv_snn",
    "memory_precision_batching",
    "scaling_out",
    "ipu_cuda",
    "local_learning",
    "event_data",
    "sweeps_and_challenge",
    "taking_a_network_home",
    "microspike",
    "blank_pages",
    "your_own_data",
)  #: the first is number 00; a notebook's file has its number before its name


def notebook_of(key: str) -> str:
    """The notebook of an exercise or a prediction: "encodings" of "encodings.1"."""
    return key.partition(".")[0]


def label(key: str) -> str:
    """How readers see a notebook or a key: "03" for "encodings", "03.1" for "encodings.1"."""
    name, dot, rest = key.partition(".")
    return f"{NOTEBOOKS.index(name):02d}{dot}{rest}" if name in NOTEBOOKS else key


def named(label: Any) -> Any:
    """The reverse of ``label``: "encodings.1" for "03.1", which is what a card shows. All else stays as it is."""
    number, dot, rest = label.partition(".") if isinstance(label, str) else ("", "", "")
    place = int(number) if number.isdecimal() and len(number) == 2 else len(NOTEBOOKS)
    return f"{NOTEBOOKS[place]}{dot}{rest}" if place < len(NOTEBOOKS) else label
