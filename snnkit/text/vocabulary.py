"""From text to word numbers: a tokenizer and a vocabulary, with a stated policy for unknown words."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from numbers import Integral

__all__ = ["UNKNOWN", "Vocabulary", "split_sentences", "tokenize"]

# The word that stands for all unknown ones, under the policy "token". No text can contain it: the tokenizer drops < >.
UNKNOWN = "<unknown>"
POLICIES = ("skip", "token", "error")

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_END = re.compile(r"[.!?…。！？]+|\n+")


def tokenize(text: str) -> list[str]:
    """Words in lower case, in order: runs of letters and digits, with ' or - only inside ("don't", "well-kept").

    The text is brought into Unicode's composed form first, so that é is one letter however it was typed. Languages that
    write no spaces between words need a splitter of their own before this.
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a str, but it is a {type(text).__name__}")
    return _WORD.findall(unicodedata.normalize("NFC", text).lower().replace("’", "'"))


def split_sentences(texts: str | Iterable[str]) -> list[str]:
    """One str, cut at line ends and at . ! ?; or several, each taken for a sentence."""
    if isinstance(texts, str):
        return [part for part in _END.split(texts) if part.strip()]
    try:
        parts = list(texts)
    except TypeError:
        raise TypeError(f"texts must be a str or an iterable of str, but it is a {type(texts).__name__}") from None
    for i, part in enumerate(parts):
        if not isinstance(part, str):
            raise TypeError(f"texts[{i}] must be a str, but it is a {type(part).__name__}")
    return parts


class Vocabulary:
    """Words and their numbers.

    Args:
        words: each once, in the order of their numbers.
        counts: how often each was seen; None: once each. They decide which words are drawn in training.
        unknown: what becomes of words of a text that are not here: "skip" leaves them out, "token" gives them the
            number of ``UNKNOWN``, which must be one of the words, "error" refuses the text.

    Raises:
        TypeError, ValueError: words that are not strings, not different or none; counts that don't fit; another policy.
    """

    def __init__(self, words: Sequence[str], counts: Sequence[int] | None = None, *, unknown: str = "skip") -> None:
        if isinstance(words, str) or not isinstance(words, Sequence) or not all(isinstance(w, str) for w in words):
            raise TypeError(f"words must be a sequence of str, but it is {words!r}")
        if not words:
            raise ValueError("words must hold at least one word, but it is empty")
        if unknown not in POLICIES:
            raise ValueError(f"unknown must be one of {', '.join(map(repr, POLICIES))}, but it is {unknown!r}")
        self.words = list(words)
        self.counts = [1] * len(words) if counts is None else [int(count) for count in counts]
        self.unknown = unknown
        self._numbers = {word: number for number, word in enumerate(self.words)}
        if len(self._numbers) != len(self.words):
            twice = next(word for word, count in Counter(self.words).items() if count > 1)
            raise ValueError(f"words must all be different, but {twice!r} is there more than once")
        if len(self.counts) != len(self.words):
            raise ValueError(f"counts must be one per word, {len(self.words)}, but there are {len(self.counts)}")
        if min(self.counts) < 0 or max(self.counts) == 0:
            raise ValueError("counts must be 0 or more, and not all 0")
        if unknown == "token" and UNKNOWN not in self._numbers:
            raise ValueError(f"words must contain {UNKNOWN!r} for unknown='token'; Vocabulary.build adds it")

    @classmethod
    def build(
        cls,
        texts: str | Iterable[str],
        *,
        min_count: int = 1,
        max_words: int | None = None,
        unknown: str = "skip",
    ) -> Vocabulary:
        """The words of a text, the most frequent first (equally frequent ones in alphabetical order).

        Args:
            texts: one str, or an iterable of sentences.
            min_count: rarer words are left out.
            max_words: the most frequent ones are kept; None: all.
            unknown: see the class. With "token" the words that are left out are counted as ``UNKNOWN``, number 0, and
                so trained as one word; with nothing left out, its vector stays as it began.
        """
        _check_positive("min_count", min_count)
        if max_words is not None:
            _check_positive("max_words", max_words)
        counted = Counter(word for sentence in split_sentences(texts) for word in tokenize(sentence))
        if not counted:
            raise ValueError("texts must contain at least one word, but there is none in them")
        ranked = sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))
        kept = [pair for pair in ranked if pair[1] >= min_count][:max_words]
        if not kept:
            raise ValueError(
                f"min_count must be at most {ranked[0][1]}, the count of the most frequent word, but it is {min_count}"
            )
        if unknown == "token":
            kept.insert(0, (UNKNOWN, sum(counted.values()) - sum(count for _, count in kept)))
        words, counts = zip(*kept, strict=True)
        return cls(words, counts, unknown=unknown)

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._numbers

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} words: {', '.join(self.words[:5])}, …; unknown={self.unknown!r})"

    def number(self, word: str) -> int:
        """The number of one word; ValueError with similar words if it is unknown (unless the policy is "token")."""
        if not isinstance(word, str):
            raise TypeError(f"word must be a str, but it is a {type(word).__name__}")
        if word in self._numbers:
            return self._numbers[word]
        parts = tokenize(word)
        if len(parts) != 1:
            raise ValueError(f"word must be one word, but it is {word!r}")
        if parts[0] in self._numbers:
            return self._numbers[parts[0]]
        if self.unknown == "token":
            return self._numbers[UNKNOWN]
        raise ValueError(f"word {parts[0]!r} is not in the vocabulary of {len(self)} words{self._similar(parts[0])}")

    def numbers(self, text: str) -> list[int]:
        """The numbers of the words of a text, unknown ones as the policy says.

        Raises:
            ValueError: a text without any word; under "skip" one without a known word, under "error" one with an
                unknown word.
        """
        words = tokenize(text)
        if not words:
            raise ValueError(f"text must contain at least one word, but it is {_shortened(text)}")
        if self.unknown == "token":
            return [self._numbers.get(word, self._numbers[UNKNOWN]) for word in words]
        if self.unknown == "error":
            return [self.number(word) for word in words]
        known = [self._numbers[word] for word in words if word in self._numbers]
        if not known:
            raise ValueError(
                f"text must contain at least one known word, but none of {_shortened(text)} is in the vocabulary of "
                f"{len(self)} words{self._similar(words[0])}"
            )
        return known

    def _similar(self, word: str) -> str:
        close = difflib.get_close_matches(word, self.words, n=3, cutoff=0.6)
        return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""


def _shortened(text: str, length: int = 60) -> str:
    return repr(text if len(text) <= length else text[:length] + "…")


def _check_positive(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an int of at least 1, but it is {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, but it is {value}")
