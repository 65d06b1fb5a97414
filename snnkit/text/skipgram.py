"""Training an embedding on text: skip-grams with negative sampling, through the spikes.

A word should tell which words stand near it. For a word w and a word c of its neighbourhood, σ(r(w) · u(c)) should be
near 1, where r(w) are the firing rates that w evokes and u(c) what c expects; for words drawn at random near 0
(Mikolov et al. 2013, arXiv:1310.4546, equation 4, with the rates in place of the input vectors). Frequent words are
left out at random, and drawn with the power 3/4 of their frequency, as there. In addition, a mean rate above a limit is
penalised, which keeps the vectors sparse.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from snnkit.data._batches import resolve_device
from snnkit.text.vocabulary import split_sentences, tokenize

if TYPE_CHECKING:
    from snnkit.text.embedding import SpikingEmbedding

__all__ = ["Training", "fit"]


@dataclass
class Training:
    """What happened, one entry per epoch.

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


def fit(
    embedding: SpikingEmbedding,
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
    """Train ``embedding`` in place, on the device it is moved to. Called again, it goes on from where it was.

    Args:
        texts: one str, cut into sentences, or an iterable of sentences.
        window: neighbours are the words at most this far away in the sentence.
        negatives: random words for each pair.
        subsample: words whose share of the text is above it, and above that of an average word, are left out at random,
            so that they don't drown the rest.
        lr: of Adam, which falls to a tenth over the epochs; weights are of the order of 1.
        max_rate, rate_penalty: loss += rate_penalty * (mean rate of a batch - max_rate)², where it is above.
        device: "auto" is CUDA where there is a CUDA device, else the CPU.
        seed: of all draws here; None: from PyTorch's global generator. (The weights were drawn when ``embedding`` was
            made: call ``train.seed_everything`` before that.)
        progress: show a bar.

    Returns:
        Loss, rate, pairs and seconds of each epoch. Ctrl-C ends the training and returns those so far.

    Raises:
        TypeError, ValueError: an argument of another kind or out of range; a text without two known words in one
            sentence.
        FloatingPointError: the loss is not finite; the weights are as they were before that batch.
    """
    _check(epochs, window, negatives, batch_size, lr, subsample, max_rate, rate_penalty)
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, Integral)):
        raise TypeError(f"seed must be an int or None, but it is {seed!r}")
    target = resolve_device(device)
    embedding.to(target)
    words, sentence = _numbered(embedding, texts, target)
    generator = torch.Generator(target)
    generator.manual_seed(int(torch.randint(2**31, ())) if seed is None else int(seed))
    count = torch.tensor(embedding.vocabulary.counts, dtype=torch.float32, device=target)
    share = max(subsample, 1 / len(count)) * count.sum()
    kept = (share / count.clamp(min=1)).sqrt().clamp(max=1)[words]
    noise = count.pow(0.75).cumsum(0)
    optimizer = torch.optim.Adam([embedding.table.weight, embedding.context.weight], lr=lr)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=epochs)
    history = Training()
    bar = _progress_bar(epochs, progress)
    try:
        for epoch in range(epochs):
            started = time.perf_counter()
            chosen = torch.rand(len(words), generator=generator, device=target) < kept
            word, near = _pairs(words[chosen], sentence[chosen], window)
            order = torch.randperm(len(word), generator=generator, device=target)
            loss_sum = rate_sum = 0.0
            for batch in order.split(batch_size) if len(order) else ():
                others = _draw(noise, (len(batch), negatives), generator)
                rates = embedding.rates(word[batch])
                loss = _loss(rates, embedding.context(near[batch]), embedding.context(others))
                rate = rates.mean()
                value, fired = torch.stack([loss.detach(), rate.detach()]).tolist()
                if not math.isfinite(value):
                    raise FloatingPointError(
                        f"the loss is {value} in epoch {epoch + 1}; the weights are as they were before this batch. "
                        f"Try a lower lr (it is {lr:g}), and look for NaN or infinity in the weights"
                    )
                optimizer.zero_grad()
                (loss + rate_penalty * (rate - max_rate).clamp(min=0) ** 2).backward()
                optimizer.step()
                loss_sum, rate_sum = loss_sum + value * len(batch), rate_sum + fired * len(batch)
                bar.update(len(batch) / len(word))
            scheduler.step()
            pairs = len(word)
            if pairs:
                bar.set_postfix(loss=f"{loss_sum / pairs:.3f}", rate=f"{rate_sum / pairs:.1%}", refresh=False)
            history.loss.append(loss_sum / pairs if pairs else math.nan)
            history.rate.append(rate_sum / pairs if pairs else math.nan)
            history.pairs.append(pairs)
            history.seconds.append(time.perf_counter() - started)
    except KeyboardInterrupt:
        history.interrupted = True
    finally:
        bar.close()
    return history


def _loss(rates: Tensor, near: Tensor, others: Tensor) -> Tensor:
    """Mean over pairs, of rates [B, N] against the context vectors of one neighbour [B, N] and of others [B, K, N]."""
    together = (rates * near).sum(-1)
    apart = torch.einsum("bn,bkn->bk", rates, others)
    return -functional.logsigmoid(together).mean() - functional.logsigmoid(-apart).sum(-1).mean()


def _numbered(embedding: SpikingEmbedding, texts: str | Iterable[str], device: torch.device) -> tuple[Tensor, Tensor]:
    """The known words of a text, one after the other, and the sentence of each."""
    vocabulary = embedding.vocabulary
    strict = vocabulary.unknown != "skip"
    numbers, sentences, longest = [], [], 0
    for index, text in enumerate(split_sentences(texts)):
        words = [vocabulary.number(word) for word in tokenize(text) if strict or word in vocabulary]
        numbers += words
        sentences += [index] * len(words)
        longest = max(longest, len(words))
    if longest < 2:
        raise ValueError(
            "texts must contain a sentence with at least two words of the vocabulary to learn from, but there is none"
        )
    return torch.tensor(numbers, device=device), torch.tensor(sentences, device=device)


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


def _check(
    epochs: int,
    window: int,
    negatives: int,
    batch_size: int,
    lr: float,
    subsample: float,
    max_rate: float,
    rate_penalty: float,
) -> None:
    counts = {"epochs": epochs, "window": window, "negatives": negatives, "batch_size": batch_size}
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise TypeError(f"{name} must be an int of at least 1, but it is {value!r}")
        if value < 1:
            raise ValueError(f"{name} must be at least 1, but it is {value}")
    above_zero = {"lr": lr, "subsample": subsample}
    for name, value in {**above_zero, "max_rate": max_rate, "rate_penalty": rate_penalty}.items():
        if isinstance(value, bool) or not isinstance(value, Real):
            raise TypeError(f"{name} must be a number, but it is {value!r}")
        if not 0 <= value < math.inf or (name in above_zero and value == 0):
            least = "above" if name in above_zero else "at least"
            raise ValueError(f"{name} must be finite and {least} 0, but it is {value}")
