"""One rank of the scaling benchmark: trains the dense net through Lightning and says how long its updates took.

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
        # Busy neighbours that have nothing to say to each other.
        local = os.environ.get("LOCAL_RANK", "0")
        for name in _PLACE:
            os.environ.pop(name, None)
        if words.device == "cuda":
            seen = os.environ.get("CUDA_VISIBLE_DEVICES")
            os.environ["CUDA_VISIBLE_DEVICES"] = seen.split(",")[int(local)] if seen else local
    answer = links(words.device) if words.what == "links" else updates(words)
    print(ANSWER + json.dumps(answer | {"born": _BORN, "died": time.time()}), flush=True)


def updates(words: Any) -> dict[str, Any]:
    """Seconds of each update after the warm-up, and of what: through the parts that ``lit.run_recipe`` is made of."""
    import torch
    from lightning.fabric.plugins.environments.lightning import LightningEnvironment
    from lightning.fabric.plugins.environments.torchelastic import TorchElasticEnvironment
    from lightning.pytorch import Trainer

    from ..models import mlp
    from ..train import lit
    from ..train.lit.gradients import SteadyDDP
    from ..train.lit.keeper import Keeper
    from ..train.lit.preempt import Notes
    from ..train.place import Place

    place = Place.found()
    torch.manual_seed(0)
    net = mlp((784, words.hidden, 10))
    module = lit.SpikingModule(net, steps=words.steps, loss="count_cross_entropy", rates=False)
    total = WARM_UP + words.updates
    # What is in the images plays no part; there are enough of them for one epoch.
    images = torch.randint(256, (total * place.world * words.batch, 1, 28, 28), dtype=torch.uint8)
    labels = torch.randint(10, (len(images),))
    device = torch.device(words.device, place.local_rank) if words.device == "cuda" else torch.device("cpu")
    batches = lit.SharedBatches(
        images.to(device), labels.to(device), place.world * words.batch, rank=place.rank, world=place.world
    )
    # On CUDA the host runs ahead; it waits for the device every so many updates only, else it would never do so.
    clock = _clock(min(10, words.updates // 2) if words.device == "cuda" else 1)
    with Notes(None).listening() as notes:
        trainer = Trainer(
            accelerator="gpu" if words.device == "cuda" else "cpu",
            devices=place.per_node,
            strategy="auto" if place.world == 1 else SteadyDDP(net, timeout=_TIMEOUT),
            plugins=[LightningEnvironment() if place.world == 1 else TorchElasticEnvironment()],
            max_epochs=1,
            callbacks=[clock, Keeper(notes, None, None, timeout=_TIMEOUT)],
            logger=False,
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

    class Clock(Callback):
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

    return Clock()


def links(device: str) -> dict[str, Any]:
    """Seconds in which ranks average some sizes as ``SteadyDDP`` does it here: [(bytes, median)]."""
    import statistics

    import torch
    import torch.distributed as dist

    from ..train.lit.gradients import SHARED
    from ..train.lit.shared import meet

    torch.set_num_threads(1)
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if device == "cuda" else "gloo")
    shared = None
    if device == "cpu" and SHARED is not False:
        shared, _ = meet([torch.empty(LINK_BYTES[-1] // 4)], _TIMEOUT)
    exchange = dist.all_reduce if shared is None else shared.average
    found = []
    for size in LINK_BYTES:
        data = torch.zeros(size // 4, device=device)
        times = []
        for _ in range(_LINK_ROUNDS):
            dist.barrier()
            start = time.perf_counter()
            exchange(data)
            if device == "cuda":
                torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
        found.append((size, statistics.median(times)))
    dist.destroy_process_group()
    return {"links": found}


if __name__ == "__main__":
    main()
