"""The three tracks of the course and the notebooks of each. All else names a notebook, so that it can move."""

from __future__ import annotations

from typing import Any

#: The tracks by their titles: notebooks 00 to 09, 10 to 19, 20 to 29.
TRACKS = {"spikes": "Spikes", "machines": "Machines", "research": "Research"}
NUMBERS = {
    "preflight": 0,
    "first_spiking_neuron": 1,
    "surrogate_gradients": 2,
    "encodings": 3,
    "train_your_first_network": 4,
    "microspike": 5,
    "event_data": 6,
    "local_learning": 7,
    "open_challenge": 8,
    "moving_house": 10,
    "fused_neurons": 11,
    "conv_snn": 12,
    "memory_precision_batching": 13,
    "event_driven_layers": 14,
    "scaling_out": 15,
    "ipu_cuda": 16,
    "taking_a_network_home": 17,
    "your_own_data": 20,
    "sweeps": 21,
}
#: How readers know a notebook: its title, up to the colon.
TITLES = {
    "preflight": "Pre-flight",
    "first_spiking_neuron": "Your first spiking neuron",
    "surrogate_gradients": "Learning through a step",
    "encodings": "Turning the world into spikes",
    "train_your_first_network": "Train your first spiking network",
    "microspike": "Microspike",
    "event_data": "Events and time",
    "local_learning": "Local learning",
    "open_challenge": "The open challenge",
    "moving_house": "Moving house",
    "fused_neurons": "Fused multi-step neurons",
    "conv_snn": "A 128-channel conv SNN with AMP",
    "memory_precision_batching": "Memory, precision, batching",
    "event_driven_layers": "Spikes that pay",
    "scaling_out": "Scaling out with Lightning",
    "ipu_cuda": "IPU against CUDA",
    "taking_a_network_home": "Taking a network home",
    "your_own_data": "Your own data",
    "sweeps": "Sweeps",
}
NOTEBOOKS = tuple(NUMBERS)  #: in their order; a notebook's file has its number before its name

# The first edition, whose progress files of format 1 hold numbers, and what has another place since.
_FIRST_EDITION = (
    *("preflight", "first_spiking_neuron", "surrogate_gradients", "encodings", "train_your_first_network"),
    *("moving_house", "fused_neurons", "conv_snn", "memory_precision_batching", "scaling_out", "ipu_cuda"),
    *("local_learning", "event_data", "sweeps_and_challenge", "taking_a_network_home", "microspike", "blank_pages"),
    "your_own_data",
)
#: Keys of exercises and predictions that were in another notebook: today's by the old ones. A notebook alone: its quiz.
MOVED: dict[str, str] = {
    "sweeps_and_challenge": "sweeps",
    "sweeps_and_challenge.1": "open_challenge.1",
    "sweeps_and_challenge.2": "sweeps.1",
    "sweeps_and_challenge.3": "sweeps.2",
    "sweeps_and_challenge.4": "sweeps.3",
    "sweeps_and_challenge.a": "open_challenge.a",
    "sweeps_and_challenge.b": "sweeps.a",
    "sweeps_and_challenge.c": "sweeps.b",
    "sweeps_and_challenge.d": "open_challenge.b",
    "sweeps_and_challenge.e": "sweeps.c",
    "sweeps_and_challenge.f": "open_challenge.c",
    "blank_pages.4": "local_learning.4",
    "blank_pages.d": "local_learning.n",
    "memory_precision_batching.4": "event_driven_layers.1",
    "memory_precision_batching.k": "event_driven_layers.d",
    "memory_precision_batching.l": "event_driven_layers.a",
    "blank_pages.1": "first_spiking_neuron.4",
    "blank_pages.2": "surrogate_gradients.3",
    "blank_pages.a": "first_spiking_neuron.j",
    "ipu_cuda.g": "event_driven_layers.e",
    "blank_pages.3": "train_your_first_network.4",
    "blank_pages.c": "train_your_first_network.i",
    "blank_pages.b": "surrogate_gradients.l",
}


#: Keys that the first edition had for another exercise or question. Its result stays there, and does not count today.
REPLACED = {"scaling_out.2", "train_your_first_network.i"}
#: Questions of quizzes, counted from 0, that were others in the first edition: they are open again.
NEW_QUESTIONS = {"train_your_first_network": 2, "scaling_out": 1}


def notebook_of(key: str) -> str:
    """The notebook of an exercise or a prediction: "encodings" of "encodings.1"."""
    return key.partition(".")[0]


def track_of(notebook: str) -> str:
    """The key of a notebook's track: "machines" of "conv_snn"."""
    return list(TRACKS)[NUMBERS[notebook] // 10]


def notebooks_of(track: str) -> list[str]:
    """The notebooks of a track, in order."""
    return [name for name in NOTEBOOKS if track_of(name) == track]


def label(key: str) -> str:
    """How readers see a notebook or a key: "03" for "encodings", "03.1" for "encodings.1"."""
    name, dot, rest = key.partition(".")
    return f"{NUMBERS[name]:02d}{dot}{rest}" if name in NUMBERS else key


def titled(notebook: str) -> str:
    """A notebook as its first line names it: "03 · Turning the world into spikes" for "encodings"."""
    return f"{label(notebook)} · {TITLES[notebook]}" if notebook in TITLES else label(notebook)


def named(label: Any) -> Any:
    """The reverse of ``label``: "encodings.1" for "03.1", which is what a card shows. All else stays as it is.

    A key of an exercise or a prediction that has moved becomes the one that it has today.
    """
    number, dot, rest = label.partition(".") if isinstance(label, str) else ("", "", "")
    if len(number) == 2 and number.isdecimal() and int(number) in NUMBERS.values():
        label = f"{next(name for name, one in NUMBERS.items() if one == int(number))}{dot}{rest}"
    return MOVED.get(label, label) if isinstance(label, str) else label


def named_in_format_1(label: str) -> str:
    """The same for a progress file of format 1: "moving_house.2" for "05.2", which is of the first edition."""
    number, dot, rest = label.partition(".")
    known = len(number) == 2 and number.isdecimal() and int(number) < len(_FIRST_EDITION)
    return named_in_format_2(f"{_FIRST_EDITION[int(number)]}{dot}{rest}" if known else label)


def named_in_format_2(key: str) -> str:
    """The same for format 2, whose keys are names: "open_challenge.1" for "sweeps_and_challenge.1"."""
    return f"{key} of the first edition" if key in REPLACED else MOVED.get(key, key)


#: What to do with a saved copy of a notebook that asks for what is not there any more.
EARLIER = "if this notebook is a copy of an earlier version, `snnkit lab --to NEW_FOLDER` copies today's notebooks"


def where_now(notebook: str) -> str:
    """Where the exercises of a notebook of an earlier edition are today: "08 · The open challenge; 21 · Sweeps"."""
    now = dict.fromkeys(notebook_of(new) for old, new in MOVED.items() if notebook_of(old) == notebook)
    return "; ".join(titled(name) for name in sorted(now, key=label))


def is_of_the_past(notebook: str) -> bool:
    """Whether an earlier edition had this notebook, and today's has not: its exercises are in others now."""
    return notebook in _FIRST_EDITION and notebook not in NUMBERS
