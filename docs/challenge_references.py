"""How the reference networks of the challenge were found: ``python docs/challenge_references.py [FILE.json]``.

"plain" and "thrifty" are trained by backpropagation. The numbers of spikes being counts, the score of the other two is
flat almost everywhere, so they are found in other ways. "two neurons" evolve: each generation draws candidates around a
mean, selects the best quarter, and moves mean and spread towards them, as a cross-entropy method does (de Boer, Kroese,
Mannor, Rubinstein, Annals of Operations Research 134 (2005), doi:10.1007/s10479-005-5724-z). "delays" are a logistic
regression: the highest value that a weighted sum of delayed inputs reaches is trained to be positive for class 1 alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

import snnkit
from snnkit.files import write_text
from snnkit.lab import challenge
from snnkit.lab.challenge.networks import FOLDER
from snnkit.lab.challenge.scoring import PRICE, STEPS

SEED = 2
PENALTY = 0.01  # of a spike, for "thrifty"
SEEDS = 4  # of evolution, which stops at one spike per sample about every other time
# Neuron 0 is to detect two cues of 0 and vote against, neuron 1 to fire otherwise, unless neuron 0 stops it.
START = (0.5, -0.5, 0.25, -0.15, 0.0, 0.0, -2.0, 0.0, 0.9, 1.25)
CANDIDATES, SURVIVORS, SPREAD = 48, 12, 0.15
# Delays at which the sum begins, for either group: cue 0 first and 1 second meet with these, and cue 1 first and 0
# second with others, so that what belongs to one order doesn't meet what belongs to the other.
BEGIN = {0: (5, 6, 7, 12, 13, 14), 1: (0, 1, 2, 19, 20, 21)}


def groups(n: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Spikes of either group of channels [T, N, 2], and labels [N]."""
    x, y = challenge.samples(n, seed=seed)
    return x.unflatten(2, (2, -1)).sum(3), y


def unpack(numbers: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """``numbers`` [P, 10] of P pairs of neurons: input weights [P, 2, 2], recurrent ones [P, 2, 2], biases [P, 2]."""
    numbers = numbers.double()
    return numbers[:, :4].unflatten(1, (2, 2)) / 10, numbers[:, 4:8].unflatten(1, (2, 2)), numbers[:, 8:] / 30


def pair_scores(numbers: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Score [P] of candidates [P, 10] on spikes per group [T, B, 2] and labels [B]; all at once.

    v ← v - v / tau + W x + R s + b; s = H(v - 1); v ← v - s: the ``LIF`` of "two neurons", inside its ``Recurrent``.
    """
    inward, recurrent, bias = unpack(numbers)
    v = fired = total = torch.zeros(len(numbers), x.shape[1], 2, dtype=torch.float64)
    for step in x.double():
        current = torch.einsum("bg,png->pbn", step, inward) + torch.einsum("pbm,pnm->pbn", fired, recurrent)
        v = v + current + bias[:, None] - v / 50
        fired = (v >= 1).double()
        v = v - fired
        total = total + fired
    right = (total[..., 1] > total[..., 0]) == (y == 1)
    return right.double().mean(1) - PRICE * total.sum(2).mean(1)


def evolve(seeds: Iterable[int], generations: int = 800) -> dict[str, Tensor]:
    """Weights of the best of several evolutions, by the 8000 samples on which they evolved."""
    x, y = groups(8000)
    results = []
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed)
        mean, spread = torch.tensor(START), torch.full((len(START),), SPREAD)
        for _ in range(generations):
            rows = torch.randint(len(y), (800,), generator=generator)
            drawn = mean + spread * torch.randn(CANDIDATES, len(START), generator=generator)
            best = drawn[pair_scores(drawn, x[:, rows], y[rows]).topk(SURVIVORS).indices]
            spread = 0.9 * spread + 0.1 * (best - mean).square().mean(0).sqrt()
            mean = mean + 0.7 * (best.mean(0) - mean)
        results.append(mean)
    candidates = torch.stack(results)
    inward, recurrent, bias = unpack(candidates[pair_scores(candidates, x, y).argmax()][None])
    return {"0.weight": inward[0].repeat_interleave(4, dim=1), "0.bias": bias[0], "1.weight.weight": recurrent[0]}


def fit_delays(updates: int = 3000, seed: int = 0) -> dict[str, Tensor]:
    """Weights of a neuron that fires once, when a sum of delayed inputs becomes positive: delays bring the first cue
    beside the second. Output 0 never fires."""
    x, y = groups(20000, seed)
    delayed, _ = challenge.Delays(range(STEPS))(x)  # [T, N, delay * 2 + group]
    weights = torch.zeros(STEPS, 2)
    for group, delays in BEGIN.items():
        weights[list(delays), group] = 0.5
    weights, bias = weights.flatten().requires_grad_(), torch.tensor(-3.0, requires_grad=True)
    optimizer = torch.optim.Adam([weights, bias], lr=0.02)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, updates)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(updates):
        rows = torch.randint(len(y), (256,), generator=generator)
        highest = (delayed[:, rows] @ weights + bias).amax(0)
        loss = functional.binary_cross_entropy_with_logits(highest, y[rows].float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    # Before it fires, v[t] = decay v[t-1] + I[t] is to be the weighted sum u[t], so I[t] = u[t] - decay u[t-1]. The
    # bias is the threshold, which is 1 here. A neuron that has fired inhibits itself to the end of the sample.
    scaled, decay = weights.detach().unflatten(0, (-1, 2)) / -bias.detach(), 1 - 1 / 20
    scaled = torch.cat([scaled[:1], scaled[1:] - decay * scaled[:-1]]).repeat_interleave(4, dim=1).flatten()
    return {"1.weight": torch.stack([torch.zeros_like(scaled), scaled]), "2.weight.weight": -1000 * torch.eye(2)}


def main(target: Path) -> None:
    torch.set_num_threads(1)
    networks: dict[str, Any] = {}
    for name, penalty in (("plain", 0.0), ("thrifty", PENALTY)):
        torch.manual_seed(SEED)
        networks[name] = challenge.train(challenge.network(16), penalty, updates=600, seed=SEED).state_dict()
    networks["two neurons"] = evolve(range(SEEDS))
    networks["delays"] = fit_delays(seed=SEED)
    rounded = {
        name: {key: torch.round(value.double(), decimals=6).tolist() for key, value in weights.items()}
        for name, weights in networks.items()
    }
    origin = {"program": "python docs/challenge_references.py", "seed": SEED, "seeds": SEEDS}
    origin |= {"snnkit": snnkit.__version__, "torch": torch.__version__}
    write_text(target, json.dumps({"made_by": origin, "networks": rounded}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER / "references.json")
