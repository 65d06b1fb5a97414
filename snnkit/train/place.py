"""Which rank of how many this process is: what ``torchrun``, ``srun`` or ``launch`` wrote into its environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from snnkit.data import resolve_device

_BY_HAND = ("bash", "interactive")  # names of jobs in which a person types, by Lightning's convention


@dataclass(frozen=True)
class Place:
    """A process among others.

    Attributes:
        rank, world: of all processes.
        local_rank, per_node: of those on this machine.
        nodes: machines.
        launcher: "torchrun" (or ``launch``), "srun", or "alone".
    """

    rank: int = 0
    world: int = 1
    local_rank: int = 0
    per_node: int = 1
    nodes: int = 1
    launcher: str = "alone"

    @classmethod
    def found(cls, environment: Mapping[str, str] | None = None) -> Place:
        """What ``os.environ`` (or the one given) says; ValueError, naming the variable, where it makes no sense.

        Raises ValueError, too, inside a SLURM job of several tasks where this process isn't one that ``srun`` started:
        it would wait for the others for ever.
        """
        own = os.environ if environment is None else environment
        if "TORCHELASTIC_RUN_ID" in own or ("RANK" in own and "WORLD_SIZE" in own):
            world, rank, local = (_number(own, name) for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK"))
            per_node = _number(own, "LOCAL_WORLD_SIZE", world)
            return cls(rank, world, local, per_node, -(-world // per_node), "torchrun")._checked()
        tasks = _number(own, "SLURM_NTASKS", 1)
        if "SLURM_STEP_ID" in own and own.get("SLURM_JOB_NAME") not in _BY_HAND:
            world = _number(own, "SLURM_STEP_NUM_TASKS", tasks)
            nodes = _number(own, "SLURM_STEP_NUM_NODES", _number(own, "SLURM_NNODES", 1))
            rank, local = _number(own, "SLURM_PROCID"), _number(own, "SLURM_LOCALID")
            return cls(rank, world, local, -(-world // nodes), nodes, "srun")._checked()
        if tasks > 1 and "SLURM_PROCID" in own and own.get("SLURM_JOB_NAME") not in _BY_HAND:
            raise ValueError(
                f"this is a SLURM job of SLURM_NTASKS={tasks} tasks, but the command runs once: put srun before it"
            )
        return cls()

    def _checked(self) -> Place:
        if not (0 <= self.rank < self.world and 0 <= self.local_rank < self.per_node):
            raise ValueError(
                f"the environment of this process makes no sense: rank {self.rank} of {self.world}, "
                f"local rank {self.local_rank} of {self.per_node}"
            )
        if self.per_node * self.nodes != self.world:
            raise ValueError(
                f"every node must have as many ranks; got {self.world} ranks on {self.nodes} nodes, "
                f"{self.per_node} of them here"
            )
        return self

    def check_batch(self, batch_size: int) -> None:
        """ValueError where the ranks can't share a batch evenly."""
        if batch_size % self.world:
            raise ValueError(
                f"batch_size is that of all ranks together, and must be a multiple of their number; got {batch_size} "
                f"for {self.world} ranks"
            )

    def device(self, device: str | torch.device) -> torch.device:
        """That of this rank, for what was asked of all: "auto", "cpu" or "cuda". ValueError where there are too few."""
        # resolve_device("cuda") tries the first device, which every rank would do then.
        target = resolve_device("auto" if str(device) == "cuda" and torch.cuda.is_available() else device)
        if target.type not in ("cpu", "cuda"):
            raise ValueError(f"device must be 'auto', 'cpu' or 'cuda' for ranks; got {str(target)!r}")
        if target.type == "cpu":
            return target
        there = torch.cuda.device_count()
        if self.per_node > there:
            raise ValueError(
                f"{self.per_node} ranks on this machine need a CUDA device each, but PyTorch sees {there} here: start "
                "fewer, or use device='cpu'. Under SLURM each task must see all: no --gpus-per-task, and where the "
                "cluster binds one to each task by itself, srun --gpu-bind=none, or CUDA_VISIBLE_DEVICES=0,1,2,3"
            )
        if target.index is not None and self.world > 1:
            raise ValueError(f"device must be 'cuda', as each rank takes that of its local rank; got {str(target)!r}")
        return torch.device("cuda", self.local_rank if target.index is None else target.index)

    def check(self, devices: int | None, nodes: int | None) -> None:
        """ValueError where other numbers were asked for than the launcher gave."""
        for name, asked, here, how in (
            ("devices", devices, self.per_node, "processes per node"),
            ("nodes", nodes, self.nodes, "nodes"),
        ):
            if asked is not None and asked != here:
                start = {
                    "alone": "start it with snnkit.train.launch, torchrun or srun (`snnkit train --devices` does)",
                    "torchrun": "set --nproc-per-node and --nnodes of torchrun to the same",
                    "srun": "set --ntasks-per-node and --nodes in the batch script to the same",
                }[self.launcher]
                raise ValueError(f"{name} is {asked}, but there are {here} {how}: {start}")


def _number(environment: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = environment.get(name)
    if text is None:
        if default is None:
            raise ValueError(f"{name} is missing in the environment of this process: start it with torchrun or srun")
        return default
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{name} must be a number in the environment of this process; got {text!r}") from None
