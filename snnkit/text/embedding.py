"""SpikingEmbedding: words as the firing rates of spiking neurons, trained through them.

Training is by skip-grams with negative sampling. A word should predict which words are near it: for a word w and a word
c of its neighbourhood, σ(r(w) · u(c)) should be near 1, where r(w) are the firing rates that w evokes and u(c) what c
expects; for words drawn at random near 0 (Mikolov et al. 2013, arXiv:1310.4546, equation 4, with the rates in place of
the input vectors). Frequent words are left out at random, and drawn with the power 3/4 of their frequency, as there. In
addition, a mean rate above a limit is penalised, so that the vectors stay sparse.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from snnkit import checks, encode
from snnkit.data import resolve_device
from snnkit.neuron import Leaky
from snnkit.surrogate import ATan
from snnkit.train import load_checkpoint, save_checkpoint

from .sparse_spikes import SparseSpikes
from .vocabulary import GROUPS, Vocabulary, split_sentences, tokenize

_FORMAT = "snnkit SpikingEmbedding 1"
_AT_ONCE = 2**24  # neurons times steps computed at once for all words of the vocabulary: 64 MB of float32


@dataclass
class Training:
    """The result of ``SpikingEmbedding.fit``, one entry per epoch.

    Attributes:
        loss: mean over the pairs of words, without the penalty; log 2 * (1 + negatives) is that of guessing, nan that
            of an epoch for which no pair was drawn.
        rate: spikes per neuron and step, mean over the pairs.
        pairs: of words, that were trained on.
        seconds: per epoch.
        interrupted: by Ctrl-C, in the epoch after the last entry.
    """

    loss: list[float] = field(default_factory=list)
    rate: list[float] = field(default_factory=list)
    pairs: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    interrupted: bool = False


class Agreement(NamedTuple):
    """The result of ``agreement``. Cosines are means over pairs of different words.

    Attributes:
        within: between words of one group.
        between: between words of different groups.
        neighbours: the share of each word's nearest words, of the whole vocabulary, that are of its group.
    """

    within: float
    between: float
    neighbours: float


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
        checks.instance("vocabulary", vocabulary, Vocabulary, "a Vocabulary, as Vocabulary.build(texts) gives it,")
        self.vocabulary = vocabulary
        self.features = checks.integer("features", features, at_least=1)
        self.steps = checks.integer("steps", steps, at_least=1)
        beta, threshold = checks.number("beta", beta), checks.number("threshold", threshold)
        self.neuron = Leaky(beta, threshold, surrogate=surrogate or ATan(), engine=engine)
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
            given = numbers.dtype if isinstance(numbers, Tensor) else checks.shown(numbers)
            raise TypeError(f"numbers must be a tensor of int64 (or int32) word numbers, but it is {given}")
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
        """The vectors [len(texts), features] of sentences: the mean over their known words. One str is one sentence."""
        texts = [texts] if isinstance(texts, str) else list(texts)
        if not texts:
            raise ValueError("texts must hold at least one sentence, but it is empty")
        return torch.stack([self.rates(self._tensor(self.vocabulary.numbers(text))).mean(0) for text in texts])

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
        """The words nearest to some vectors by cosine.

        Args:
            vectors: [N, features], of words, sentences or your own.
            k: how many, at most as many as there are words.
            without: word numbers that are left out.

        Returns:
            For each vector its (word, cosine) pairs, the nearest first.
        """
        left_out = sorted(set(without))
        k = checks.integer("k", k, at_least=1, at_most=len(self.vocabulary) - len(left_out))
        if not isinstance(vectors, Tensor) or vectors.dim() != 2 or vectors.shape[1] != self.features:
            raise ValueError(f"vectors must be a tensor [N, {self.features}], but it is {checks.shown(vectors)}")
        if not (finite := vectors.isfinite().all(1)).all():
            row = finite.tolist().index(False)
            raise ValueError(f"vectors must hold finite numbers, but row {row} has NaN or infinity in it")
        every = torch.arange(len(self.vocabulary), device=self.table.weight.device)
        parts = every.split(max(_AT_ONCE // (self.steps * self.features), 1))
        words = functional.normalize(torch.cat([self.rates(part) for part in parts]), dim=1)
        cosines = functional.normalize(vectors.to(words), dim=1) @ words.t()
        cosines[:, left_out] = -torch.inf
        best = cosines.topk(k, dim=1)
        return [
            [(self.vocabulary.words[number], cosine) for number, cosine in zip(numbers, row, strict=True)]
            for numbers, row in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]

    def fit(
        self,
        texts: str | Iterable[str],
        *,
        epochs: int = 3,
        window: int = 3,
        negatives: int = 5,
        subsample: float = 1e-3,
        batch_size: int = 1024,
        lr: float = 0.1,
        max_rate: float = 0.1,
        rate_penalty: float = 10.0,
        device: str | torch.device = "auto",
        seed: int | None = None,
        progress: bool = True,
    ) -> Training:
        """Train in place, on the device that the embedding is moved to. Called again, it goes on from where it was.

        Args:
            texts: one str, cut into sentences, or an iterable of sentences.
            window: neighbours are the words at most this far away in the sentence.
            negatives: random words for each pair.
            subsample: words whose share of the text is above it, and above that of an average word, are left out at
                random, so that they don't dominate the rest.
            lr: of Adam, which falls to a tenth over the epochs; weights are of the order of 1.
            max_rate, rate_penalty: loss += rate_penalty * (mean rate of a batch - max_rate)², where it is above.
            device: "auto" is CUDA where there is a CUDA device, else the CPU.
            seed: of all draws here; None: from PyTorch's global generator. (The weights were drawn when the embedding
                was made: call ``train.seed_everything`` before that.)
            progress: show a bar.

        Returns:
            Loss, rate, pairs and seconds of each epoch. Ctrl-C ends the training and returns those so far.

        Raises:
            TypeError, ValueError: an argument of another kind or out of range; a text without two known words in one
                sentence.
            FloatingPointError: the loss is not finite; the weights are as they were before that batch.
        """
        for name, value in {
            "epochs": epochs,
            "window": window,
            "negatives": negatives,
            "batch_size": batch_size,
        }.items():
            checks.integer(name, value, at_least=1)
        for name, value in {"lr": lr, "subsample": subsample}.items():
            checks.number(name, value, above=0)
        for name, value in {"max_rate": max_rate, "rate_penalty": rate_penalty}.items():
            checks.number(name, value, at_least=0)
        seed = int(torch.randint(2**31, ())) if seed is None else checks.integer("seed", seed)
        target = resolve_device(device)
        self.to(target)
        words, sentence = _numbered(self.vocabulary, texts, target)
        generator = torch.Generator(target).manual_seed(seed)
        count = torch.tensor(self.vocabulary.counts, dtype=torch.float32, device=target)
        share = max(subsample, 1 / len(count)) * count.sum()
        take = (share / count.clamp(min=1)).sqrt().clamp(max=1)[words]
        noise = count.pow(0.75).cumsum(0)
        optimizer = torch.optim.Adam([self.table.weight, self.context.weight], lr=lr)
        scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=epochs)
        history = Training()
        bar = _progress_bar(epochs, progress)
        try:
            for epoch in range(epochs):
                started = time.perf_counter()
                chosen = torch.rand(len(words), generator=generator, device=target) < take
                word, near = _pairs(words[chosen], sentence[chosen], window)
                order = torch.randperm(len(word), generator=generator, device=target)
                sums = [0.0, 0.0]
                for batch in order.split(batch_size) if len(order) else ():
                    others = _draw(noise, (len(batch), negatives), generator)
                    rates = self.rates(word[batch])
                    loss = _loss(rates, self.context(near[batch]), self.context(others))
                    rate = rates.mean()
                    values = torch.stack([loss.detach(), rate.detach()]).tolist()
                    if not math.isfinite(values[0]):
                        raise FloatingPointError(
                            f"the loss is {values[0]} in epoch {epoch + 1}; the weights are as they were before this "
                            f"batch. Try a lower lr (it is {lr:g}), and look for NaN or infinity in the weights"
                        )
                    optimizer.zero_grad()
                    (loss + rate_penalty * (rate - max_rate).clamp(min=0) ** 2).backward()
                    optimizer.step()
                    sums = [total + value * len(batch) for total, value in zip(sums, values, strict=True)]
                    bar.update(len(batch) / len(word))
                scheduler.step()
                mean_loss, mean_rate = (total / len(word) if len(word) else math.nan for total in sums)
                bar.set_postfix(loss=f"{mean_loss:.3f}", rate=f"{mean_rate:.1%}", refresh=False)
                history.loss.append(mean_loss)
                history.rate.append(mean_rate)
                history.pairs.append(len(word))
                history.seconds.append(time.perf_counter() - started)
        except KeyboardInterrupt:
            history.interrupted = True
        finally:
            bar.close()
        return history

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write weights, vocabulary and settings to one file, whole or not at all; return its path."""
        settings = {
            "kind": _FORMAT,
            "words": self.vocabulary.words,
            "counts": self.vocabulary.counts,
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
        """Load from a file that ``save`` wrote, to ``map_location``. The file can't run code.

        Raises FileNotFoundError where there is none, ValueError where it is damaged or something else.
        """
        content = load_checkpoint(path, map_location=map_location)
        settings = content["extra"]
        if settings.get("kind") != _FORMAT:
            raise ValueError(f"{path} holds no SpikingEmbedding, but another checkpoint; use train.load_checkpoint")
        if (policy := settings.get("unknown", "skip")) != "skip":
            raise ValueError(f"{path} was saved with unknown={policy!r}, but unknown words can only be left out now")
        Leaky(0.5, surrogate=surrogate or ATan(), engine=engine)  # if these are wrong, it isn't the file's fault
        try:
            vocabulary = Vocabulary(settings["words"], settings["counts"])
            sizes = {name: settings[name] for name in ("features", "steps", "beta", "threshold")}
            dtype = getattr(torch, settings["dtype"])
            embedding = cls(vocabulary, **sizes, surrogate=surrogate, engine=engine).to(map_location, dtype)
            embedding.load_state_dict(content["model"])
        except (KeyError, AttributeError, TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"{path} holds a damaged SpikingEmbedding ({type(error).__name__}: {error})") from None
        return embedding

    def _tensor(self, numbers: list[int]) -> Tensor:
        return torch.tensor(numbers, dtype=torch.int64, device=self.table.weight.device)


def agreement(
    embedding: SpikingEmbedding, groups: Mapping[str, Sequence[str]] = GROUPS, *, k: int | None = None
) -> Agreement:
    """How well similarities agree with groups of words that are known to belong together.

    Args:
        groups: at least two groups of at least two words each, by name, all of them in the vocabulary.
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
    hits = []
    for word in words:
        size = min(5, len(groups[group_of[word]]) - 1) if k is None else k
        near = embedding.most_similar(word, size)
        hits.append(sum(group_of.get(other) == group_of[word] for other, _ in near) / size)
    other_words = ~torch.eye(len(words), dtype=torch.bool)
    return Agreement(float(cosine[same & other_words].mean()), float(cosine[~same].mean()), sum(hits) / len(hits))


def _loss(rates: Tensor, near: Tensor, others: Tensor) -> Tensor:
    """Mean over pairs, of rates [B, N] against the context vectors of one neighbour [B, N] and of others [B, K, N]."""
    together = (rates * near).sum(-1)
    apart = torch.einsum("bn,bkn->bk", rates, others)
    return -functional.logsigmoid(together).mean() - functional.logsigmoid(-apart).sum(-1).mean()


def _numbered(vocabulary: Vocabulary, texts: str | Iterable[str], device: torch.device) -> tuple[Tensor, Tensor]:
    """The known words of a text, one after the other, and the sentence of each."""
    sentences = [
        [vocabulary.number(word) for word in tokenize(text) if word in vocabulary] for text in split_sentences(texts)
    ]
    if max(map(len, sentences), default=0) < 2:
        raise ValueError(
            "texts must contain a sentence with at least two words of the vocabulary to learn from, but there is none"
        )
    lengths = torch.tensor([len(part) for part in sentences])
    numbers = torch.tensor([number for part in sentences for number in part], device=device)
    return numbers, torch.arange(len(sentences)).repeat_interleave(lengths).to(device)


def _pairs(words: Tensor, sentence: Tensor, window: int) -> tuple[Tensor, Tensor]:
    """Each two words of a sentence at most ``window`` apart, both ways round."""
    left, right = [], []
    for distance in range(1, window + 1):
        same = sentence[distance:] == sentence[:-distance]
        one, other = words[:-distance][same], words[distance:][same]
        left += [one, other]
        right += [other, one]
    return torch.cat(left), torch.cat(right)


def _draw(cumulative: Tensor, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Word numbers with probabilities in proportion to the increments of ``cumulative``."""
    at = torch.rand(shape, generator=generator, device=cumulative.device) * cumulative[-1]
    return torch.searchsorted(cumulative, at, right=True).clamp(max=len(cumulative) - 1)


def _progress_bar(total: int, progress: bool) -> Any:
    from tqdm.auto import tqdm

    hidden = not progress or os.environ.get("SNNKIT_HEADLESS") == "1"
    shape = "{l_bar}{bar}| {n:.1f}/{total} [{elapsed}<{remaining}{postfix}]"
    return tqdm(total=total, desc="embedding", unit="epoch", mininterval=1, bar_format=shape, disable=hidden)
