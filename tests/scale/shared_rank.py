"""One rank for test_shared: averages gradients through shared memory, as its first argument says, and tells by JSON."""

import json
import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from snnkit.train.lit import shared
from snnkit.train.lit.gradients import SteadyDDP


def tell(**values):
    print("told: " + json.dumps(values), flush=True)


def values_of(rank, n, dtype, step):
    return torch.randn(n, dtype=dtype, generator=torch.Generator().manual_seed(100 * step + rank))


def mean(made):
    """In the order of the ranks."""
    total = made[0].clone()
    for other in made[1:]:
        total += other
    return total / len(made)


def numbers(rank, world):
    """Means of several lengths, again and again, to the bit; slots of 1 KiB, so that some go in pieces."""
    shared._MOST = 1024
    for dtype in (torch.float32, torch.float64):
        exchange, why = shared.meet([torch.empty(5000, dtype=dtype)], 60.0)
        assert exchange is not None, why
        for step in range(20):
            for n in (1, world - 1, 255, 256, 257, 5000):
                own = values_of(rank, n, dtype, step)
                exchange.average(own)
                assert torch.equal(own, mean([values_of(r, n, dtype, step) for r in range(world)])), (dtype, n, step)
    tell(maps=Path("/proc/self/maps").read_text().count("snnkit gradients"))


def buckets(rank, world):
    """DDP with several buckets, in which the slots hold no bucket whole: gradients of one process with all samples."""
    shared._MOST = 4096
    for dtype in (torch.float32, torch.float64):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(40, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 3)).to(dtype)
        alone = nn.Sequential(nn.Linear(40, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 3)).to(dtype)
        alone.load_state_dict(net.state_dict())
        wrapped = DistributedDataParallel(net, bucket_cap_mb=0.01, gradient_as_bucket_view=True)
        exchange, why = shared.meet(net.parameters(), 60.0)
        assert exchange is not None, why
        seen = []

        def hook(state, bucket, exchange=exchange, seen=seen):
            seen.append(bucket.index())
            return exchange.hook(state, bucket)

        wrapped.register_comm_hook(None, hook)
        for step in range(4):
            x = torch.randn(world * 6, 40, dtype=dtype, generator=torch.Generator().manual_seed(step))
            for module, batch in ((wrapped, x[6 * rank : 6 * rank + 6]), (alone, x)):
                module.zero_grad()
                module(batch).square().mean().backward()
            for ours, theirs in zip(net.parameters(), alone.parameters(), strict=True):
                torch.testing.assert_close(ours.grad, theirs.grad)
        assert max(seen) > 0, "one bucket only"
    tell(buckets=max(seen) + 1)


def chosen(rank, world):
    """What SteadyDDP takes, by its settings and its network."""
    from lightning.pytorch import LightningModule, Trainer
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    class Module(LightningModule):
        def __init__(self, net):
            super().__init__()
            self.net = net

        def training_step(self, batch, index):
            return sum(p.float().sum() for p in self.net.parameters())

        def train_dataloader(self):
            return [torch.zeros(1)]

        def configure_optimizers(self):
            return None

    def used(net, **options):
        strategy = SteadyDDP(net, 60.0, **options)
        trainer = Trainer(
            accelerator="cpu", devices=world, strategy=strategy, max_epochs=1, logger=False, enable_progress_bar=False,
            enable_checkpointing=False, enable_model_summary=False, use_distributed_sampler=False,
        )  # fmt: skip
        trainer.fit(Module(net))
        return strategy.exchange is not None

    linear = nn.Linear(3, 2)
    refused = ""
    try:
        used(nn.Linear(3, 2).to(torch.bfloat16), shared=True)
    except ValueError as error:
        refused = str(error)
    half = nn.Linear(3, 2).to(torch.bfloat16)
    tell(
        default=used(linear),
        where_possible=used(linear, shared=None),
        double=used(nn.Linear(3, 2).double(), shared=True),
        off=used(linear, shared=False),
        half=used(half, shared=None),
        one_rank_says_no=used(linear, shared=False if rank else None),
        hook=used(linear, shared=None, ddp_comm_hook=allreduce_hook),
        refused=refused,
    )


def apart(rank, world):
    """Ranks of which one is somewhere else, or can't map the memory: none of them uses it."""
    told = {}
    name = shared.socket.gethostname
    if rank == 1:
        shared.socket.gethostname = lambda: "elsewhere"
    told["elsewhere"] = shared.meet([torch.empty(8)], 60.0)[1]
    shared.socket.gethostname = name
    opened = shared._opened
    if rank == 1:
        shared._opened = lambda path: (-1, "permission denied")
    told["closed"] = shared.meet([torch.empty(8)], 60.0)[1]
    shared._opened = opened
    if rank == 0:
        shared.os.posix_fallocate = lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device"))
    told["full"] = shared.meet([torch.empty(8)], 60.0)[1]
    tell(**told)


def lost(rank, world):
    """The last rank goes away, stops, or is gone while another process has its number, as the second argument says."""
    exchange, why = shared.meet([torch.empty(1000)], float(sys.argv[3]))
    assert exchange is not None, why
    own = torch.ones(1000)
    exchange.average(own)
    tell(ready=True)
    if rank == world - 1:
        if sys.argv[2] == "killed":
            os.kill(os.getpid(), 9)
        time.sleep(600)
    if sys.argv[2] == "number taken":
        shared.born = lambda pid: 1
    begun = time.monotonic()
    try:
        exchange.average(own)
    except ConnectionError as error:
        tell(error=str(error), after=time.monotonic() - begun)
    os._exit(0)


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=120))
    globals()[sys.argv[1]](dist.get_rank(), dist.get_world_size())
    dist.barrier()
    dist.destroy_process_group()
