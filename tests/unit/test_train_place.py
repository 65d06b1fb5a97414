"""Which rank of how many a process is, by what launchers write into its environment."""

import pytest

from snnkit.train.place import Place

TORCHRUN = {
    "RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "x",
}  # fmt: skip
SLURM = {
    "SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "train", "SLURM_NTASKS": "4", "SLURM_NNODES": "2", "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
}  # fmt: skip
SRUN = {**SLURM, "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_NUM_NODES": "2"}


def test_alone():
    assert Place.found({}) == Place(0, 1, 0, 1, 1, "alone")


def test_torchrun():
    assert Place.found(TORCHRUN) == Place(3, 4, 1, 2, 2, "torchrun")


def test_srun():
    assert Place.found(SRUN) == Place(3, 4, 1, 2, 2, "srun")
    assert (
        Place.found({**SRUN, "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "1", "SLURM_PROCID": "1"}).world == 2
    )


def test_torchrun_within_a_job_of_slurm():
    assert Place.found({**SRUN, **TORCHRUN}).launcher == "torchrun"


def test_a_batch_script_without_srun_is_told():
    with pytest.raises(ValueError, match="SLURM_NTASKS=4 tasks, but the command runs once: put srun before it"):
        Place.found({**SLURM, "SLURM_PROCID": "0"})
    assert Place.found({**SLURM, "SLURM_PROCID": "0", "SLURM_NTASKS": "1"}) == Place()
    assert Place.found({**SLURM, "SLURM_JOB_NAME": "bash"}) == Place(), "a shell that a person types in"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"RANK": "4"}, "rank 4 of 4"),
        ({"RANK": "one"}, "RANK must be a number .* got 'one'"),
        ({"LOCAL_WORLD_SIZE": "3"}, "4 ranks on 2 nodes, 3 of them here"),
        ({"LOCAL_RANK": None}, "LOCAL_RANK is missing"),
    ],
)
def test_an_environment_that_makes_no_sense(change, says):
    changed = {name: value for name, value in {**TORCHRUN, **change}.items() if value is not None}
    with pytest.raises(ValueError, match=says):
        Place.found(changed)


@pytest.mark.parametrize(
    ("place", "asked", "says"),
    [
        (Place(), (2, None), "devices is 2, but there are 1 processes per node: start it with"),
        (Place(0, 4, 0, 2, 2, "torchrun"), (4, 2), "devices is 4, but there are 2 .* --nproc-per-node"),
        (Place(0, 4, 0, 2, 2, "srun"), (2, 1), "nodes is 1, but there are 2 nodes: set --ntasks-per-node"),
    ],
)
def test_other_numbers_than_were_started(place, asked, says):
    with pytest.raises(ValueError, match=says):
        place.check(*asked)
    place.check(None, None)
    place.check(place.per_node, place.nodes)


def test_a_batch_that_ranks_cannot_share():
    Place(0, 4, 0, 4).check_batch(64)
    with pytest.raises(ValueError, match=r"batch_size .* must be a multiple of their number; got 66 for 4 ranks"):
        Place(0, 4, 0, 4).check_batch(66)


def test_devices(monkeypatch):
    place = Place(3, 4, 1, 2, 2, "torchrun")
    assert place.device("cpu").type == "cpu"
    monkeypatch.setattr("snnkit.train.place.resolve_device", lambda device: __import__("torch").device(device))
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert str(place.device("cuda")) == "cuda:1"
    with pytest.raises(ValueError, match="each rank takes that of its local rank; got 'cuda:0'"):
        place.device("cuda:0")
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    with pytest.raises(ValueError, match="2 ranks on this machine need a CUDA device each, but PyTorch sees 1 here"):
        place.device("cuda")
    with pytest.raises(ValueError, match="device must be 'auto', 'cpu' or 'cuda' for ranks; got 'meta'"):
        place.device("meta")
