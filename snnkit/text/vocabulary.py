"""From text to word numbers: a tokenizer, a vocabulary, and a small text to learn from."""

from __future__ import annotations

import difflib
import random
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from snnkit import checks

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_END = re.compile(r"[.!?…。！？]+|\n+")


def tokenize(text: str) -> list[str]:
    """Words in lower case, in order: runs of letters and digits, with ' or - only inside ("don't", "well-known").

    The text is brought into Unicode's composed form first, so that é is one letter however it was typed. Languages that
    write no spaces between words need a splitter of their own before this.
    """
    checks.instance("text", text, str, "a str")
    return _WORD.findall(unicodedata.normalize("NFC", text).lower().replace("’", "'"))


def split_sentences(texts: str | Iterable[str]) -> list[str]:
    """One str, cut at line ends and at . ! ?; or several, each taken for a sentence."""
    if isinstance(texts, str):
        return [part for part in _END.split(texts) if part.strip()]
    checks.instance("texts", texts, Iterable, "a str or an iterable of str")
    return [checks.instance(f"texts[{i}]", part, str, "a str") for i, part in enumerate(texts)]


class Vocabulary:
    """Words and their numbers. Words of a text that are not here are left out.

    Args:
        words: each once, in the order of their numbers.
        counts: how often each was seen; None: once each. They decide which words are drawn in training.

    Raises:
        TypeError, ValueError: words that are not strings, not different or none; counts that don't fit.
    """

    def __init__(self, words: Sequence[str], counts: Sequence[int] | None = None) -> None:
        if isinstance(words, str) or not isinstance(words, Sequence) or not all(isinstance(w, str) for w in words):
            raise TypeError(f"words must be a sequence of str, but it is {checks.shown(words)}")
        if not words:
            raise ValueError("words must hold at least one word, but it is empty")
        self.words = list(words)
        self.counts = [1] * len(words) if counts is None else [int(count) for count in counts]
        self._numbers = {word: number for number, word in enumerate(self.words)}
        if len(self._numbers) != len(self.words):
            twice = next(word for word, count in Counter(self.words).items() if count > 1)
            raise ValueError(f"words must all be different, but {twice!r} is there more than once")
        if len(self.counts) != len(self.words):
            raise ValueError(f"counts must be one per word, {len(self.words)}, but there are {len(self.counts)}")
        if min(self.counts) < 0 or max(self.counts) == 0:
            raise ValueError("counts must be 0 or more, and not all 0")

    @classmethod
    def build(cls, texts: str | Iterable[str], *, min_count: int = 1, max_words: int | None = None) -> Vocabulary:
        """The words of a text, the most frequent first (equally frequent ones in alphabetical order).

        Args:
            texts: one str, or an iterable of sentences.
            min_count: rarer words are left out.
            max_words: only so many of the most frequent ones are taken; None: all.
        """
        checks.integer("min_count", min_count, at_least=1)
        if max_words is not None:
            checks.integer("max_words", max_words, at_least=1)
        counted = Counter(word for sentence in split_sentences(texts) for word in tokenize(sentence))
        if not counted:
            raise ValueError("texts must contain at least one word, but there is none in them")
        ranked = sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))
        frequent = [pair for pair in ranked if pair[1] >= min_count][:max_words]
        if not frequent:
            raise ValueError(
                f"min_count must be at most {ranked[0][1]}, the count of the most frequent word, but it is {min_count}"
            )
        return cls(*zip(*frequent, strict=True))

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._numbers

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} words: {', '.join(self.words[:5])}, …)"

    def number(self, word: str) -> int:
        """The number of one word; ValueError with similar words if it is unknown."""
        checks.instance("word", word, str, "a str")
        if word in self._numbers:
            return self._numbers[word]
        parts = tokenize(word)
        if len(parts) != 1:
            raise ValueError(f"word must be one word, but it is {word!r}")
        if parts[0] not in self._numbers:
            raise ValueError(
                f"word {parts[0]!r} is not in the vocabulary of {len(self)} words{self._similar(parts[0])}"
            )
        return self._numbers[parts[0]]

    def numbers(self, text: str) -> list[int]:
        """The numbers of the known words of a text; ValueError if there is none."""
        words = tokenize(text)
        if not words:
            raise ValueError(f"text must contain at least one word, but it is {checks.shown(text)}")
        known = [self._numbers[word] for word in words if word in self._numbers]
        if not known:
            raise ValueError(
                f"text must contain at least one known word, but none of {checks.shown(text)} is in the vocabulary of "
                f"{len(self)} words{self._similar(words[0])}"
            )
        return known

    def _similar(self, word: str) -> str:
        close = difflib.get_close_matches(word, self.words, n=3, cutoff=0.6)
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

    Args:
        seed: the same seed gives the same sentences.
        sentences: how many; below a thousand many words are too rare to learn.

    Returns:
        Sentences in lower case, without punctuation. About a fifth of them say nothing about the group.

    Raises:
        TypeError, ValueError: an argument that is no int; fewer than one sentence.
    """
    draw = random.Random(checks.integer("seed", seed))
    result = []
    for _ in range(checks.integer("sentences", sentences, at_least=1)):
        group = draw.choice(list(GROUPS))
        kind = draw.choice(_KINDS["any"]).replace("any", group) if draw.random() < 0.2 else draw.choice(_KINDS[group])
        chosen = re.sub(r"\(([^)]*)\)", lambda match: draw.choice(match[1].split("|")), kind)
        result.append(re.sub(r"\{(\w+)\}", lambda match: draw.choice(GROUPS[match[1]]), chosen))
    return result
