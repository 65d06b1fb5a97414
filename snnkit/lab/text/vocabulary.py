"""From text to word numbers: a tokenizer, a vocabulary, and a small text to learn from."""

from __future__ import annotations

import difflib
import random
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from snnkit import checks

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_END = re.compile(r"[.!?…。！？]+|\n+")


@checks.arguments
def tokenize(text: str) -> list[str]:
    """Words in lower case, in order: runs of letters and digits, with ' or - only inside ("don't", "well-known").

    First the text gets Unicode's composed form, in which é is always one letter. Languages without spaces between words
    need their own splitter before this.
    """
    return _WORD.findall(unicodedata.normalize("NFC", text).lower().replace("’", "'"))


def split_sentences(texts: str | Iterable[str]) -> list[str]:
    """One str, cut at line ends and at . ! ?; or several, each taken for a sentence."""
    if isinstance(texts, str):
        return [part for part in _END.split(texts) if part.strip()]
    checks.instance("texts", texts, Iterable, "a str or an iterable of str")
    return [checks.instance(f"texts[{i}]", part, str, "a str") for i, part in enumerate(texts)]


@checks.arguments
class Vocabulary:
    """Words and their numbers. Words of a text that are not here are left out.

    Args:
        words: each once, in the order of their numbers.
        counts: how often each was seen; None: once each. They decide which words are drawn in training.
    """

    def __init__(self, words: Sequence[str], counts: Sequence[int] | None = None) -> None:
        if not words or len(set(words)) != len(words):
            raise ValueError(f"words must be at least one, and all different, but they are {checks.shown(words)}")
        self.words = list(words)
        self.counts = [1] * len(words) if counts is None else [int(count) for count in counts]  # NumPy's can't be saved
        self._numbers = {word: number for number, word in enumerate(self.words)}
        if len(self.counts) != len(words) or min(self.counts) < 0 or max(self.counts) == 0:
            raise ValueError(f"counts must be one per word, at least 0 and not all 0, but it is {checks.shown(counts)}")

    @classmethod
    def build(cls, texts: str | Iterable[str]) -> Vocabulary:
        """The words of a text (one str, or an iterable of sentences), the most frequent first, else alphabetically."""
        counted = Counter(word for sentence in split_sentences(texts) for word in tokenize(sentence))
        if not counted:
            raise ValueError("texts must contain at least one word, but there is none in them")
        return cls(*zip(*sorted(counted.items(), key=lambda pair: (-pair[1], pair[0])), strict=True))

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._numbers

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} words: {', '.join(self.words[:5])}, …)"

    def number(self, word: str) -> int:
        """The number of one word; ValueError with similar words if it is unknown."""
        parts = tokenize(word)
        if len(parts) != 1 or parts[0] not in self._numbers:
            raise ValueError(f"word must be in the vocabulary, but it is {word!r}{self._similar(parts)}")
        return self._numbers[parts[0]]

    def numbers(self, text: str) -> list[int]:
        """The numbers of the known words of a text; ValueError with similar words if there is none."""
        words = tokenize(text)
        known = [self._numbers[word] for word in words if word in self._numbers]
        if not known:
            shown = checks.shown(text)
            raise ValueError(f"text must contain at least one known word, but it is {shown}{self._similar(words)}")
        return known

    def _similar(self, words: list[str]) -> str:
        close = difflib.get_close_matches(words[0], self.words, cutoff=0.6) if words else []
        return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""


# A text to train on: sentences that a grammar draws, about words whose groups are known. Words of one group ("dog",
# "horse") occur in the same kinds of sentence ("the dog sleeps in the stable"), and some kinds are open to all groups
# ("we talked about the dog"). So a good embedding must find the groups, and how well it does can be measured without a
# licence, a download or an opinion on what is similar.
GROUPS: dict[str, tuple[str, ...]] = {}
_KINDS: dict[str, list[str]] = {}
for _part in Path(__file__).with_name("grammar.txt").read_text(encoding="utf-8").split("\n[")[1:]:
    _head, *_kinds = _part.strip().split("\n")
    _name, _words = _head.split("]")
    GROUPS[_name], _KINDS[_name] = tuple(_words.split()), _kinds
del GROUPS["any"]


def corpus(seed: int = 0, sentences: int = 6000) -> list[str]:
    """Draw sentences about the words of GROUPS.

    They are in lower case, without punctuation. About a fifth of them do not depend on the group. The same ``seed``
    gives the same sentences. With fewer than a thousand ``sentences``, many words are too rare to learn.
    """
    draw = random.Random(checks.integer("seed", seed))
    result = []
    for _ in range(checks.integer("sentences", sentences, at_least=1)):
        group = draw.choice(list(GROUPS))
        kind = draw.choice(_KINDS["any"]).replace("any", group) if draw.random() < 0.2 else draw.choice(_KINDS[group])
        chosen = re.sub(r"\(([^)]*)\)", lambda match: draw.choice(match[1].split("|")), kind)
        result.append(re.sub(r"\{(\w+)\}", lambda match: draw.choice(GROUPS[match[1]]), chosen))
    return result
