"""A small text of our own to train on: sentences that a grammar draws, about words whose groups are known.

Words of one group ("dog", "horse") stand in the same kinds of sentence ("the dog sleeps in the stable"), and some kinds
are open to all groups ("we talked about the dog"). So a good embedding must find the groups, and it can be measured how
well it does, without a licence, a download or an opinion on what is similar.
"""

from __future__ import annotations

import random
import re
from numbers import Integral

__all__ = ["GROUPS", "corpus"]

GROUPS: dict[str, tuple[str, ...]] = {
    name: tuple(words.split())
    for name, words in {
        "animal": "dog cat horse sheep goat cow rabbit fox wolf hen duck donkey",
        "food": "bread soup cheese rice pasta salad cake stew pie porridge pizza jam",
        "city": "paris rome cairo tokyo lima oslo delhi berlin madrid boston lagos quito",
        "profession": "doctor teacher baker lawyer farmer painter nurse pilot judge tailor plumber dentist",
        "instrument": "piano violin guitar flute drum trumpet cello harp clarinet banjo oboe lute",
        "vehicle": "car bus train truck bicycle tram ship ferry taxi van scooter motorbike",
    }.items()
}

# A sentence is drawn by putting a word of a group for each {group}, and one of the alternatives for each (a|b).
# Several kinds of sentence name two groups, so that company alone does not tell them apart.
_KINDS: dict[str, tuple[str, ...]] = {
    "animal": (
        "the {animal} (sleeps|rests|hides) in the (stable|barn|grass)",
        "a (hungry|young|wild) {animal} (runs|jumps) across the (field|meadow)",
        "the {animal} (feeds|licks|guards) its young",
        "a {animal} with soft fur (and|or) a short tail",
        "the {profession} fed the {animal} in the barn",
    ),
    "food": (
        "she (cooked|tasted|ate) the {food} for (dinner|lunch|breakfast)",
        "a (bowl|plate|slice) of (warm|fresh|sweet) {food}",
        "add (salt|butter|sugar) to the {food}",
        "this {food} smells (delicious|burnt)",
        "the {animal} ate the {food} from the plate",
    ),
    "city": (
        "they (moved|flew|travelled) to {city} last (summer|winter|spring)",
        "{city} is a (large|famous|crowded) (city|capital)",
        "the (mayor|museum|streets) of {city}",
        "the weather in {city} is (hot|cold|rainy)",
        "the {vehicle} from {city} to {city} was late",
    ),
    "profession": (
        "the {profession} (works|studied) at the (hospital|office|school)",
        "my (sister|brother|uncle) is a {profession}",
        "the {profession} earns a good (salary|living)",
        "they (hired|paid|thanked) an honest {profession}",
        "a {profession} from {city} works at the office",
    ),
    "instrument": (
        "he (plays|practises|tunes) the {instrument} in the (orchestra|band)",
        "a (melody|song|solo) for {instrument} and {instrument}",
        "the sound of the {instrument} was (loud|gentle|clear)",
        "she took (lessons|classes) on the {instrument}",
        "the {profession} plays the {instrument} in the band",
    ),
    "vehicle": (
        "the {vehicle} (stops|waits|arrives) at the (station|corner|bridge)",
        "we (drove|parked|repaired) the {vehicle} near the (garage|road)",
        "the (wheels|engine|brakes) of the {vehicle} broke",
        "a {vehicle} full of (passengers|luggage)",
        "the {profession} repaired the {vehicle} in the garage",
    ),
}
_OPEN = (
    "we (talked|heard|read) about (the|this|another) {any}",
    "do you (remember|know|like) (the|this) {any}",
    "there was (the|a|this) {any} in the picture",
)


def corpus(seed: int = 0, sentences: int = 6000) -> list[str]:
    """Draw sentences about the words of GROUPS.

    Args:
        seed: the same seed gives the same sentences.
        sentences: how many; below a thousand many words are too rare to learn.

    Returns:
        Sentences in lower case, without punctuation. About a fifth of them tell nothing of the group.

    Raises:
        TypeError, ValueError: an argument that is no int; fewer than one sentence.
    """
    for name, value in (("seed", seed), ("sentences", sentences)):
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise TypeError(f"{name} must be an int, but it is {value!r}")
    if sentences < 1:
        raise ValueError(f"sentences must be at least 1, but it is {sentences}")
    draw = random.Random(int(seed))
    groups = list(GROUPS)
    return [_fill(_kind(draw, groups), draw) for _ in range(sentences)]


def _kind(draw: random.Random, groups: list[str]) -> str:
    group = draw.choice(groups)
    if draw.random() < 0.2:
        return draw.choice(_OPEN).replace("any", group)
    return draw.choice(_KINDS[group])


def _fill(kind: str, draw: random.Random) -> str:
    chosen = re.sub(r"\(([^)]*)\)", lambda match: draw.choice(match[1].split("|")), kind)
    return re.sub(r"\{(\w+)\}", lambda match: draw.choice(GROUPS[match[1]]), chosen)
