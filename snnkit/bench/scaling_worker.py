"""One rank of the scaling benchmark: trains the dense net through Lightning and prints how long its updates took.

    python -m snnkit.bench.scaling_worker updates --batch 256 --updates 40
    python -m snnkit.bench.scaling_worker links

``snnkit bench scaling`` starts it, once per rank. Its last line is JSON, after ``ANSWER``.
"""

from __future__ import annotations

import time

_BORN = time.time()  # before the imports: what is earlier is the launcher's

import argparse  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
from typing import Any  # noqa: E402

ANSWER = "snnkit-scaling: "
WARM_UP = 5  # updates before the clock counts: allocators and DDP's buckets have settled then
LINK_BYTES = (2**10, 2**14, 2**18, 2**20, 2**22, 2**24)
_LINK_ROUNDS = 15
_TIMEOUT = 120.0  # seconds to wait for another rank
_PLACE = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "TORCHELASTIC_RUN_ID")


def main() -> None:
    """Do what the command line says and print the answer."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("updates", "links"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--hidden", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--updates", type=int, default=40)
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
    answer = links(words.device) if words.what == "links" else updates(words)
    print(ANSWER + json.dumps(answer | {"born": _BORN, "died": time.time()}), flush=True)


def updates(words: Any) -> dict[str, Any]:
    """Seconds of each update after the warm-up, as ``lit.run_recipe`` makes them."""
    import torch
    from lightning.fabric.plugins.environments.lightning import LightningEnvironment
    from lightning.fabric.plugins.environments.torchelastic import TorchElasticEnvironment
    from lightning.pytorch import Trainer

    from ..models import mlp
    from ..train import lit

    rank, local, world = (int(os.environ.get(name, default)) for name, default in zip(_PLACE, "001", strict=False))
    torch.manual_seed(0)
    net = mlp((784, words.hidden, 10))
    module = lit.SpikingModule(net, steps=words.steps, loss="count_cross_entropy", rates=False)
    total = WARM_UP + words.updates
    # What is in the images plays no part; there are enough of them for one epoch.
    images = torch.randint(256, (total * world * words.batch, 1, 28, 28), dtype=torch.uint8)
    labels = torch.randint(10, (len(images),))
    device = torch.device(words.device, local) if words.device == "cuda" else torch.device("cpu")
    batches = lit.SharedBatches(images.to(device), labels.to(device), world * words.batch, rank=rank, world=world)
    # On CUDA the host runs ahead; it waits for the device every so many updates only, else it would never do so.
    clock = _clock(min(10, words.updates // 2) if words.device == "cuda" else 1)
    trainer = Trainer(
        accelerator="gpu" if words.device == "cuda" else "cpu",
        devices=int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
        strategy="auto" if world == 1 else lit.ResumableDDP(net, timeout=_TIMEOUT),
        plugins=[LightningEnvironment() if world == 1 else TorchElasticEnvironment()],
        max_epochs=1,
        callbacks=[clock],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
    )
    trainer.fit(module, batches)
    parameters = sum(p.numel() for p in net.parameters())
    return {"seconds": clock.seconds(), "parameters": parameters, "ready": clock.ready}


def _clock(stretch: int) -> Any:
    """A callback that notes when each ``stretch`` updates are done, on CUDA by the device, too."""
    import torch
    from lightning.pytorch import Callback

    class UpdateClock(Callback):
        def __init__(self) -> None:
            self.ends: list[float] = []
            self.ready = 0.0

        def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            done = batch_idx + 1
            if done == 1:
                self.ready = time.time()
            if done >= WARM_UP and (done - WARM_UP) % stretch == 0:
                if module.device.type == "cuda":
                    torch.cuda.synchronize()
                self.ends.append(time.perf_counter())

        def seconds(self) -> list[float]:
            pairs = zip(self.ends, self.ends[1:], strict=False)
            return [(after - before) / stretch for before, after in pairs]

    return UpdateClock()


def links(device: str) -> dict[str, Any]:
    """Seconds in which ranks average tensors of some sizes: [(bytes, median)]."""
    import statistics

    import torch
    import torch.distributed as dist

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
    return {"links": medians}


if __name__ == "__main__":
    main()
