"""SpikingEmbedding: words as the firing rates of spiking neurons, trained through them; and spikes as events.

Training is by skip-grams with negative sampling. A word should predict its neighbours. For a word w and a neighbour c,
σ(r(w) · u(c)) should be near 1, where r(w) are the firing rates of w, and u(c) is a learned vector of c. For words
drawn at random it should be near 0 (Mikolov et al. 2013, arXiv:1310.4546, equation 4, with the rates instead of the
input vectors). As there, frequent words are left out at random, and random words are drawn with the power 3/4 of their
frequency. In addition, a mean rate above a limit is penalised, so that the vectors stay sparse.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from snnkit import checks, encode
from snnkit.data import resolve_device
from snnkit.lab.text.vocabulary import GROUPS, Vocabulary, split_sentences, tokenize
from snnkit.neuron import Leaky
from snnkit.train import load_checkpoint, save_checkpoint

_FORMAT = "snnkit SpikingEmbedding 2"
BETA = 0.9  # of the neurons; their threshold is 1
WINDOW = 3  # neighbours are the words at most this far away in a sentence
NEGATIVES = 5  # random words for each pair
SUBSAMPLE = 1e-3  # words with a larger share of the text, and more frequent than an average word, are left out at times
BATCH = 1024  # pairs
MAX_RATE, RATE_PENALTY = 0.1, 10.0  # loss += RATE_PENALTY * (mean rate of a batch - MAX_RATE)², where it is above


@checks.arguments
class SpikingEmbedding(nn.Module):
    """A table of words whose rows drive neurons; a word's vector is the rate at which each of them fires.

    A row is a constant current into ``features`` neurons (``Leaky``) for ``steps`` steps, in units of the rheobase, the
    weakest current that makes a spike within these steps: a weight up to 1 is silent. So vectors are sparse, at least
    0, and take at most ``steps + 1`` different values, and ``fit`` learns them by gradients through the spikes.

    Called on word numbers, ``spikes, state = embedding(numbers)``; everything else takes words.

    Args:
        vocabulary: the words.
        features: neurons, the length of a vector.
        steps: T, the number of steps of a word.
        engine: of the neurons.
    """

    def __init__(self, vocabulary: Vocabulary, features: int = 64, steps: int = 16, *, engine: str = "auto") -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.features = checks.integer("features", features, at_least=1)
        self.steps = checks.integer("steps", steps, at_least=1)
        self.neuron = Leaky(BETA, engine=engine)
        self.rheobase = 1 / sum(BETA**step for step in range(min(self.steps, 8000)))  # 0 from there on
        self.table = nn.Embedding(len(vocabulary), self.features)
        # What a word expects of its neighbours; ``fit`` needs it, and goes on from it.
        self.context = nn.Embedding(len(vocabulary), self.features)
        nn.init.normal_(self.table.weight, std=1.5)  # a quarter of the neurons fires for a word
        nn.init.zeros_(self.context.weight)

    def extra_repr(self) -> str:
        return f"{len(self.vocabulary)} words, features={self.features}, steps={self.steps}"

    def forward(self, numbers: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """Word numbers [...] to spikes [T, ..., features] and the neurons' state after them."""
        return self.neuron(encode.repeat(self.table(numbers) * self.rheobase, self.steps), state)

    def rates(self, numbers: Tensor) -> Tensor:
        """Word numbers [...] to vectors [..., features]: spikes per step, 0 to 1. Gradients reach the table."""
        return self(numbers)[0].mean(0)

    @torch.no_grad()
    @checks.arguments
    def vectors(self, words: str | Iterable[str]) -> Tensor:
        """The vectors [len(words), features] of words, each looked up by itself; one word gives one row."""
        words = [words] if isinstance(words, str) else words
        return self.rates(self._tensor([self.vocabulary.number(word) for word in words]))

    @torch.no_grad()
    @checks.arguments
    def sentence_vectors(self, texts: str | Iterable[str]) -> Tensor:
        """The vectors [len(texts), features] of sentences: the mean over their known words. One str is one sentence."""
        texts = [texts] if isinstance(texts, str) else texts
        return torch.stack([self.rates(self._tensor(self.vocabulary.numbers(text))).mean(0) for text in texts])

    @torch.no_grad()
    def sparse(self, text: str) -> SparseSpikes:
        """The spikes [T, words, features] of a text, as events."""
        return SparseSpikes.of(self(self._tensor(self.vocabulary.numbers(text)))[0])

    def most_similar(self, text: str, k: int = 10) -> list[tuple[str, float]]:
        """The ``k`` words nearest to a word or sentence by cosine, without its own words, the nearest first."""
        own = set(self.vocabulary.numbers(text))
        return self.nearest(self.sentence_vectors(text), k, without=own)[0]

    @torch.no_grad()
    @checks.arguments
    def nearest(self, vectors: Tensor, k: int = 10, *, without: Iterable[int] = ()) -> list[list[tuple[str, float]]]:
        """The words nearest to vectors [N, features] by cosine: for each its (word, cosine) pairs, the nearest first.

        ``k`` says how many, at most as many as there are words; word numbers in ``without`` are left out.
        """
        excluded = sorted(set(without))
        k = checks.integer("k", k, at_least=1, at_most=len(self.vocabulary) - len(excluded))
        if vectors.dim() != 2 or vectors.shape[1] != self.features or not vectors.isfinite().all():
            raise ValueError(f"vectors must be finite [N, {self.features}], but it is {checks.shown(vectors)}")
        words = functional.normalize(self.rates(self._tensor(range(len(self.vocabulary)))), dim=1)
        cosines = functional.normalize(vectors.to(words), dim=1) @ words.t()
        cosines[:, excluded] = -torch.inf
        best = cosines.topk(k, dim=1)
        return [
            [(self.vocabulary.words[number], cosine) for number, cosine in zip(numbers, row, strict=True)]
            for numbers, row in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]

    @checks.arguments
    def fit(
        self,
        texts: str | Iterable[str],
        *,
        epochs: int = 3,
        lr: float = 0.1,
        device: str | torch.device = "auto",
        seed: int = 0,
        progress: bool = True,
    ) -> list[float]:
        """Train in place, on the device to which the embedding is moved. A second call continues.

        Args:
            texts: one str, cut into sentences, or an iterable of sentences.
            epochs: at least 1.
            lr: of Adam, which falls to a tenth over the epochs; weights are of the order of 1.
            device: "auto" is CUDA where there is a CUDA device, else the CPU.
            seed: of all draws here. (The weights were drawn when the embedding was made: call
                ``train.seed_everything`` before that.)
            progress: show a bar.

        Returns:
            The mean loss of each epoch, without the penalty; log 2 * (1 + NEGATIVES) is that of guessing, nan that of
            an epoch for which no pair was drawn.

        Raises:
            ValueError: no sentence has two known words.
            FloatingPointError: the loss is not finite; the weights are as they were before that batch.
        """
        from tqdm.auto import trange

        checks.integer("epochs", epochs, at_least=1)
        checks.number("lr", lr, above=0)
        target = resolve_device(device)
        self.to(target)
        words, sentence = _numbered(self.vocabulary, texts, target)
        generator = torch.Generator(target).manual_seed(checks.integer("seed", seed))
        count = torch.tensor(self.vocabulary.counts, dtype=torch.float32, device=target)
        share = max(SUBSAMPLE, 1 / len(count)) * count.sum()
        take = (share / count.clamp(min=1)).sqrt().clamp(max=1)[words]
        optimizer = torch.optim.Adam([self.table.weight, self.context.weight], lr=lr)
        scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=epochs)
        losses = []
        hidden = not progress or os.environ.get("SNNKIT_HEADLESS") == "1"
        for _ in trange(epochs, desc="embedding", unit="epoch", disable=hidden):
            chosen = torch.rand(len(words), generator=generator, device=target) < take
            word, near = _pairs(words[chosen], sentence[chosen])
            order = torch.randperm(len(word), generator=generator, device=target)
            total = torch.zeros((), device=target)
            for batch in order.split(BATCH) if len(order) else ():
                drawn = torch.multinomial(count.pow(0.75), len(batch) * NEGATIVES, True, generator=generator)
                rates = self.rates(word[batch])
                loss = _loss(rates, self.context(near[batch]), self.context(drawn.view(-1, NEGATIVES)))
                if not torch.isfinite(loss):
                    raise FloatingPointError(f"the loss must be finite, but it is {loss.item()}: try a lr below {lr:g}")
                optimizer.zero_grad()
                (loss + RATE_PENALTY * (rates.mean() - MAX_RATE).clamp(min=0) ** 2).backward()
                optimizer.step()
                total += loss.detach() * len(batch)
            scheduler.step()
            losses.append(float(total) / len(word) if len(word) else math.nan)
        return losses

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write weights, vocabulary and settings to one file, whole or not at all; return its path."""
        settings = {"kind": _FORMAT, "words": self.vocabulary.words, "counts": self.vocabulary.counts}
        return save_checkpoint(path, self, extra=settings | {"features": self.features, "steps": self.steps})

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, map_location: str | torch.device = "cpu", engine: str = "auto"
    ) -> SpikingEmbedding:
        """Load from a file that ``save`` wrote, to ``map_location``. The file can't run code.

        Raises FileNotFoundError if there is none, ValueError if it is damaged or something else.
        """
        place = resolve_device(map_location, "map_location")
        content = load_checkpoint(path, map_location=place)
        settings = content["extra"]
        if settings.get("kind") != _FORMAT:
            raise ValueError(f"{path} must hold a SpikingEmbedding ({_FORMAT!r}), but it is another checkpoint")
        try:
            vocabulary = Vocabulary(settings["words"], settings["counts"])
            if (shape := content["model"]["table.weight"].shape) != (len(vocabulary), settings["features"]):
                raise ValueError(f"its table has the shape {list(shape)}")
            embedding = cls(vocabulary, settings["features"], settings["steps"], engine=engine).to(place)
            embedding.load_state_dict(content["model"])
        except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
            why = f"{type(error).__name__}: {checks.cut(str(error))}"
            raise ValueError(f"{path} holds a damaged SpikingEmbedding ({why})") from None
        return embedding

    def _tensor(self, numbers: Iterable[int]) -> Tensor:
        return torch.tensor(list(numbers), dtype=torch.int64, device=self.table.weight.device)


@checks.arguments
def agreement(embedding: SpikingEmbedding, groups: Mapping[str, Sequence[str]] = GROUPS) -> float:
    """The share of each word's nearest words, of the whole vocabulary, that are of its group: 0 to 1.

    Five neighbours of a word count, or as many as its group has if that is fewer. Raises ValueError if a word of
    ``groups`` is not in the vocabulary.
    """
    hits = []
    for group in groups.values():
        for word in group:
            near = embedding.most_similar(word, min(5, len(group) - 1))
            hits.append(sum(other in group for other, _ in near) / len(near))
    return sum(hits) / len(hits)


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
        raise ValueError("texts must contain a sentence with at least two words of the vocabulary, but there is none")
    lengths = torch.tensor([len(part) for part in sentences])
    numbers = torch.tensor([number for part in sentences for number in part], device=device)
    return numbers, torch.arange(len(sentences)).repeat_interleave(lengths).to(device)


def _pairs(words: Tensor, sentence: Tensor) -> tuple[Tensor, Tensor]:
    """Each two words of a sentence at most ``WINDOW`` apart, both ways round."""
    left, right = [], []
    for distance in range(1, WINDOW + 1):
        same = sentence[distance:] == sentence[:-distance]
        one, other = words[:-distance][same], words[distance:][same]
        left += [one, other]
        right += [other, one]
    return torch.cat(left), torch.cat(right)


@dataclass(frozen=True)
class SparseSpikes:
    """Spikes [T, ..., N] by the numbers of the neurons that fired, in compressed rows.

    A row is one step of one sample. Spikes carry no value, so an event costs only the number of its neuron: two bytes
    for up to 32 768 neurons, else four. A row costs four bytes for its start.
    """

    neuron: Tensor  #: of each event [events], int16 or int32, rows one after the other
    start: Tensor  #: first event of each row, and the end of the last [T * ... + 1], int32
    shape: tuple[int, ...]  #: (T, ..., N), as of the dense spikes
    dense_bytes: int  #: size of the tensor that the spikes came from

    @classmethod
    @checks.arguments
    def of(cls, spikes: Tensor) -> SparseSpikes:
        """From dense spikes [T, ..., N] of 0 and 1, in any dtype. ValueError for anything else."""
        if spikes.dim() < 2 or not ((spikes == 0) | (spikes == 1)).all():
            raise ValueError(f"spikes must be [T, ..., N] of 0 and 1 only, but it is {checks.shown(spikes)}")
        fired = spikes.detach().reshape(math.prod(spikes.shape[:-1]), spikes.shape[-1]) != 0
        neuron = fired.nonzero()[:, 1].to(torch.int16 if fired.shape[1] <= 2**15 else torch.int32)
        start = functional.pad(fired.sum(1).cumsum(0), (1, 0)).to(torch.int32)
        return cls(neuron, start, tuple(spikes.shape), spikes.nbytes)

    def __len__(self) -> int:
        """The number of spikes."""
        return len(self.neuron)

    @property
    def density(self) -> float:
        """The share of neurons and steps with a spike, 0 to 1."""
        return len(self) / max(math.prod(self.shape), 1)

    @property
    def bytes(self) -> int:
        """Size of the events."""
        return self.neuron.nbytes + self.start.nbytes

    def __repr__(self) -> str:
        return (
            f"SparseSpikes({list(self.shape)}: {len(self)} spikes, density {self.density:.1%}, {self.bytes} bytes "
            f"instead of {self.dense_bytes}, on {self.neuron.device})"
        )

    def dense(self) -> Tensor:
        """Spikes float32 [T, ..., N] of 0 and 1 again."""
        each = self.start.diff().long()
        rows = torch.arange(len(each), device=each.device).repeat_interleave(each)
        spikes = torch.zeros(len(each), self.shape[-1], device=each.device)
        spikes[rows, self.neuron.long()] = 1
        return spikes.reshape(self.shape)

    @checks.arguments
    def linear(self, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """``torch.nn.functional.linear`` of the spikes [T, ..., M], event by event.

        A spike adds a column of ``weight`` [M, N] to its row, so the work is ``spikes * M`` additions, without a
        multiplication. Gradients reach ``weight`` and ``bias``.
        """
        if weight.dim() != 2:
            raise ValueError(f"weight must be [M, N], but its shape is {list(weight.shape)}")
        columns = weight.t().contiguous()
        out = functional.embedding_bag(self.neuron.int(), columns, self.start, mode="sum", include_last_offset=True)
        out = out if bias is None else out + bias
        return out.reshape(*self.shape[:-1], len(weight))
