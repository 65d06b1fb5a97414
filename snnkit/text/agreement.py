"""How well an embedding's similarities agree with groups of words that are known to belong together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch.nn import functional

from snnkit.text.corpus import GROUPS

if TYPE_CHECKING:
    from snnkit.text.embedding import SpikingEmbedding

__all__ = ["Agreement", "agreement"]


class Agreement(NamedTuple):
    """Cosines are means over pairs of different words.

    Attributes:
        within: between words of one group.
        between: between words of different groups.
        neighbours: the share of each word's ``k`` nearest words, of the whole vocabulary, that are of its group.
    """

    within: float
    between: float
    neighbours: float


def agreement(
    embedding: SpikingEmbedding, groups: Mapping[str, Sequence[str]] = GROUPS, *, k: int | None = None
) -> Agreement:
    """Measure ``embedding`` against groups of at least two words each.

    Args:
        groups: words by the name of their group, all of them in the vocabulary.
        k: how many neighbours of a word to look at; None: five, or as many as its group has, if that is fewer.

    Raises:
        ValueError: fewer than two groups, a group of one word, an unknown word.
    """
    if len(groups) < 2 or min(len(words) for words in groups.values()) < 2:
        raise ValueError(f"groups must be at least two, of at least two words each, but they are {dict(groups)}")
    words = [word for group in groups.values() for word in group]
    group_of = {word: name for name, group in groups.items() for word in group}
    label = torch.tensor([list(groups).index(group_of[word]) for word in words])
    vectors = functional.normalize(embedding.vectors(words).float().cpu(), dim=1)
    cosine = vectors @ vectors.t()
    same = label[:, None] == label
    different_words = ~torch.eye(len(words), dtype=torch.bool)
    hits = []
    for word in words:
        size = min(5, len(groups[group_of[word]]) - 1) if k is None else k
        near = embedding.most_similar(word, size)
        hits.append(sum(group_of.get(other) == group_of[word] for other, _ in near) / size)
    return Agreement(float(cosine[same & different_words].mean()), float(cosine[~same].mean()), sum(hits) / len(hits))
