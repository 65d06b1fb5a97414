"""SpikingEmbedding: words as the firing rates of spiking neurons, trained through them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from snnkit import encode
from snnkit.neuron import Leaky
from snnkit.surrogate import ATan
from snnkit.text import skipgram
from snnkit.text.events import SparseSpikes
from snnkit.text.vocabulary import Vocabulary
from snnkit.train.checkpoint import load_checkpoint, save_checkpoint

_FORMAT = "snnkit SpikingEmbedding 1"

# Neurons times steps that are worked out at once where all words of the vocabulary are: 64 MB of float32.
_AT_ONCE = 2**24


class SpikingEmbedding(nn.Module):
    """A table of words whose rows drive neurons; a word's vector is the rate at which each of them fires.

    A row is a constant current into ``features`` neurons (``Leaky``) for ``steps`` steps, in units of the rheobase, the
    weakest current that makes a spike within these steps: a weight up to 1 is silence. So vectors are sparse, at least
    0, and take at most ``steps + 1`` different values, and ``fit`` learns them by gradients through the spikes.

    Called on word numbers, ``spikes, state = embedding(numbers)``; everything else takes words.

    Args:
        vocabulary: the words.
        features: neurons, the length of a vector.
        steps: T, for how long a word is shown.
        beta, threshold: of the neurons.
        surrogate: of the neurons, for training only (it is not saved); None: ``ATan()``.
        engine: of the neurons.

    Raises:
        TypeError, ValueError: an argument of another kind or out of range.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        features: int = 64,
        steps: int = 16,
        *,
        beta: float = 0.9,
        threshold: float = 1.0,
        surrogate: Callable[..., Tensor] | None = None,
        engine: str = "auto",
    ) -> None:
        super().__init__()
        if not isinstance(vocabulary, Vocabulary):
            raise TypeError(
                f"vocabulary must be a Vocabulary, as Vocabulary.build(texts) gives it, but it is a "
                f"{type(vocabulary).__name__}"
            )
        for name, value in (("features", features), ("steps", steps)):
            _check_count(name, value)
        for name, value in (("beta", beta), ("threshold", threshold)):
            if isinstance(value, bool) or not isinstance(value, Real):
                raise TypeError(f"{name} must be a number, but it is a {type(value).__name__}")
        self.vocabulary = vocabulary
        self.features, self.steps = int(features), int(steps)
        surrogate = ATan() if surrogate is None else surrogate
        self.neuron = Leaky(float(beta), float(threshold), surrogate=surrogate, engine=engine)
        self.table = nn.Embedding(len(vocabulary), self.features)
        # What a word expects of its neighbours; ``fit`` needs it, and goes on from it.
        self.context = nn.Embedding(len(vocabulary), self.features)
        nn.init.normal_(self.table.weight, std=1.5)  # a quarter of the neurons fires for a word
        nn.init.zeros_(self.context.weight)

    @property
    def rheobase(self) -> float:
        """The weakest constant current that brings a membrane at rest to the threshold within ``steps`` steps."""
        beta, threshold = float(self.neuron.beta), float(self.neuron.threshold)
        return threshold / sum(beta**step for step in range(self.steps))

    def extra_repr(self) -> str:
        return f"{len(self.vocabulary)} words, features={self.features}, steps={self.steps}"

    def forward(self, numbers: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """Word numbers [...] to spikes [T, ..., features] and the neurons' state after them."""
        if not isinstance(numbers, Tensor) or numbers.dtype not in (torch.int32, torch.int64):
            found = numbers.dtype if isinstance(numbers, Tensor) else type(numbers).__name__
            raise TypeError(f"numbers must be a tensor of int64 (or int32) word numbers, but it is {found}")
        drive = self.table(numbers) * self.rheobase
        return self.neuron(encode.repeat(drive, self.steps), state)

    def rates(self, numbers: Tensor) -> Tensor:
        """Word numbers [...] to vectors [..., features]: spikes per step, 0 to 1. Gradients reach the table."""
        return self(numbers)[0].mean(0)

    @torch.no_grad()
    def vectors(self, words: str | Sequence[str]) -> Tensor:
        """The vectors [len(words), features] of words, each looked up by itself; one word gives one row."""
        words = [words] if isinstance(words, str) else words
        return self.rates(self._tensor([self.vocabulary.number(word) for word in words]))

    @torch.no_grad()
    def sentence_vectors(self, texts: str | Iterable[str]) -> Tensor:
        """The vectors [len(texts), features] of sentences: the mean over their words, unknown ones as the vocabulary's
        policy says. One str is one sentence."""
        texts = [texts] if isinstance(texts, str) else list(texts)
        if not texts:
            raise ValueError("texts must hold at least one sentence, but it is empty")
        numbers = [self.vocabulary.numbers(text) for text in texts]
        lengths = torch.tensor([len(part) for part in numbers], device=self.table.weight.device)
        rates = self.rates(self._tensor([number for part in numbers for number in part]))
        sentence = torch.repeat_interleave(torch.arange(len(texts), device=rates.device), lengths)
        sums = rates.new_zeros(len(texts), self.features).index_add_(0, sentence, rates)
        return sums / lengths.unsqueeze(1)

    @torch.no_grad()
    def sparse(self, text: str) -> SparseSpikes:
        """The spikes [T, words, features] of a text, as events."""
        return SparseSpikes.of(self(self._tensor(self.vocabulary.numbers(text)))[0])

    def similarity(self, a: str, b: str) -> float:
        """The cosine between the vectors of two words or sentences, 0 to 1; 0 where one of them is silent."""
        return float(functional.cosine_similarity(*self.sentence_vectors([a, b]), dim=0))

    def most_similar(self, text: str, k: int = 10) -> list[tuple[str, float]]:
        """The ``k`` words nearest to a word or sentence by cosine, without its own words, the nearest first."""
        own = set(self.vocabulary.numbers(text))
        return self.nearest(self.sentence_vectors(text), k, without=own)[0]

    @torch.no_grad()
    def nearest(self, vectors: Tensor, k: int = 10, *, without: Iterable[int] = ()) -> list[list[tuple[str, float]]]:
        """The ``k`` words nearest to each of many vectors.

        Args:
            vectors: [N, features], of words, sentences or your own.
            k: how many, at most as many as there are words.
            without: word numbers that don't count.

        Returns:
            For each vector its (word, cosine) pairs, the nearest first.
        """
        _check_count("k", k)
        left_out = sorted(set(without))
        most = len(self.vocabulary) - len(left_out)
        if k > most:
            raise ValueError(f"k must be at most {most}, the number of other words, but it is {k}")
        if not isinstance(vectors, Tensor) or vectors.dim() != 2 or vectors.shape[1] != self.features:
            found = list(vectors.shape) if isinstance(vectors, Tensor) else type(vectors).__name__
            raise ValueError(f"vectors must be a tensor [N, {self.features}], but it is {found}")
        if not (finite := vectors.isfinite().all(1)).all():
            row = finite.tolist().index(False)
            raise ValueError(f"vectors must hold finite numbers, but row {row} has NaN or infinity in it")
        words = functional.normalize(self._all_rates(), dim=1)
        cosines = functional.normalize(vectors.to(words), dim=1) @ words.t()
        cosines[:, left_out] = -torch.inf
        best = cosines.topk(int(k), dim=1)
        return [
            [(self.vocabulary.words[number], cosine) for number, cosine in zip(numbers, row, strict=True)]
            for numbers, row in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]

    def fit(self, texts: str | Iterable[str], **options: Any) -> skipgram.Training:
        """Train on a text in place; arguments and result are those of ``skipgram.fit``."""
        return skipgram.fit(self, texts, **options)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write weights, vocabulary and settings to one file, whole or not at all; return its path."""
        settings = {
            "kind": _FORMAT,
            "words": self.vocabulary.words,
            "counts": self.vocabulary.counts,
            "unknown": self.vocabulary.unknown,
            "features": self.features,
            "steps": self.steps,
            "beta": self.neuron.beta,
            "threshold": self.neuron.threshold,
            "dtype": str(self.table.weight.dtype).removeprefix("torch."),
        }
        return save_checkpoint(path, self, extra=settings)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        map_location: str | torch.device = "cpu",
        surrogate: Callable[..., Tensor] | None = None,
        engine: str = "auto",
    ) -> SpikingEmbedding:
        """What ``save`` wrote, on ``map_location``. The file can't run code.

        Raises FileNotFoundError where there is none, ValueError where it is damaged or something else.
        """
        content = load_checkpoint(path, map_location=map_location)
        settings = content["extra"]
        if settings.get("kind") != _FORMAT:
            raise ValueError(f"{path} holds no SpikingEmbedding, but another checkpoint; use train.load_checkpoint")
        Leaky(0.5, surrogate=surrogate or ATan(), engine=engine)  # if these are wrong, it isn't the file's fault
        try:
            vocabulary = Vocabulary(settings["words"], settings["counts"], unknown=settings["unknown"])
            sizes = {name: settings[name] for name in ("features", "steps", "beta", "threshold")}
            dtype = getattr(torch, settings["dtype"])
            embedding = cls(vocabulary, **sizes, surrogate=surrogate, engine=engine).to(map_location, dtype)
            embedding.load_state_dict(content["model"])
        except (KeyError, AttributeError, TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"{path} holds a damaged SpikingEmbedding ({type(error).__name__}: {error})") from None
        return embedding

    def _tensor(self, numbers: list[int]) -> Tensor:
        return torch.tensor(numbers, dtype=torch.int64, device=self.table.weight.device)

    def _all_rates(self) -> Tensor:
        every = torch.arange(len(self.vocabulary), device=self.table.weight.device)
        rows = max(_AT_ONCE // (self.steps * self.features), 1)
        return torch.cat([self.rates(part) for part in every.split(rows)])


def _check_count(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an int of at least 1, but it is {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, but it is {value}")
