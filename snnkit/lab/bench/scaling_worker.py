"""One rank of the scaling benchmark: trains the dense net through Lightning and prints how long its updates took.

    python -m snnkit.lab.bench.scaling_worker updates --batch 256 --updates 40
    python -m snnkit.lab.bench.scaling_worker links

``snnkit bench scaling`` starts it, once per rank. Its last line is JSON, after ``ANSWER``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist

ANSWER = "snnkit-scaling: "
WARM_UP = 5  # updates before the clock counts, until allocators and DDP's buckets no longer change
LINK_BYTES = (2**10, 2**14, 2**18, 2**20, 2**22, 2**24)
_LINK_ROUNDS = 15
_TIMEOUT = 120.0  # seconds to wait for another rank
_PLACE = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "TORCHELASTIC_RUN_ID")


def main() -> None:
    """Do what the command line says and print the answer."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("updates", "links"))
    parser.add_argument("--device", default="cpu")
    for name, default in (("hidden", 1000), ("steps", 25), ("batch", 256), ("updates", 40)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--apart", action="store_true")
    words = parser.parse_args()
    if words.apart:
        # Busy neighbours that do not communicate.
        local = os.environ.get("LOCAL_RANK", "0")
        for name in _PLACE:
            os.environ.pop(name, None)
        if words.device == "cuda":
            seen = os.environ.get("CUDA_VISIBLE_DEVICES")
            os.environ["CUDA_VISIBLE_DEVICES"] = seen.split(",")[int(local)] if seen else local
    answer = {"links": links(words.device)} if words.what == "links" else updates(words)
    print(ANSWER + json.dumps(answer), flush=True)


def updates(words: Any) -> dict[str, Any]:
    """Seconds of each update after the warm-up, as ``lit.run_recipe`` makes them, and the number of parameters."""
    from lightning.fabric.plugins.environments.lightning import LightningEnvironment
    from lightning.fabric.plugins.environments.torchelastic import TorchElasticEnvironment
    from lightning.pytorch import Callback, Trainer

    from snnkit.models import mlp
    from snnkit.train import lit

    # On CUDA the host runs ahead. It waits for the device only after every so many updates.
    stretch = min(10, words.updates // 2) if words.device == "cuda" else 1
    ends: list[float] = []

    class UpdateClock(Callback):
        def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            timed = batch_idx + 1 - WARM_UP
            if timed >= 0 and timed % stretch == 0:
                if module.device.type == "cuda":
                    torch.cuda.synchronize()
                ends.append(time.perf_counter())

    rank, local, world = (int(os.environ.get(name, default)) for name, default in zip(_PLACE, "001", strict=False))
    torch.manual_seed(0)
    net = mlp((784, words.hidden, 10))
    # The content of the images does not matter; there are enough for one epoch.
    images = torch.randint(256, ((WARM_UP + words.updates) * world * words.batch, 1, 28, 28), dtype=torch.uint8)
    labels = torch.randint(10, (len(images),))
    device = torch.device(words.device, local) if words.device == "cuda" else torch.device("cpu")
    trainer = Trainer(
        accelerator="gpu" if words.device == "cuda" else "cpu",
        devices=int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
        strategy="auto" if world == 1 else lit.ResumableDDP(net, timeout=_TIMEOUT),
        plugins=[LightningEnvironment() if world == 1 else TorchElasticEnvironment()],
        max_epochs=1,
        callbacks=[UpdateClock()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
    )
    trainer.fit(
        lit.SpikingModule(net, steps=words.steps, loss="count_cross_entropy"),
        lit.SharedBatches(images.to(device), labels.to(device), world * words.batch, rank=rank, world=world),
    )
    seconds = [(after - before) / stretch for before, after in pairwise(ends)]
    return {"seconds": seconds, "parameters": sum(p.numel() for p in net.parameters())}


def links(device: str) -> list[tuple[int, float]]:
    """Seconds in which ranks average tensors of some sizes: (bytes, median)."""
    torch.set_num_threads(1)
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if device == "cuda" else "gloo")
    medians = []
    for size in LINK_BYTES:
        data = torch.zeros(size // 4, device=device)
        times = []
        for _ in range(_LINK_ROUNDS):
            dist.barrier()
            start = time.perf_counter()
            dist.all_reduce(data)
            if device == "cuda":
                torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
        medians.append((size, statistics.median(times)))
    dist.destroy_process_group()
    return medians


if __name__ == "__main__":
    main()
