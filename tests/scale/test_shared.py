"""Gradients that go through shared memory: the same numbers, only where it can be had, and nothing left of it."""

import json
import os
import platform
import sys
from pathlib import Path

import pytest

from snnkit.train.launch import free_port, launch
from tests.scale.job import LIMIT, ROOT, Job

pytest.importorskip("lightning")
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="elsewhere ranks share no memory"
)

RANK = Path(__file__).with_name("shared_rank.py")
ENV = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


def told(lines):
    """What a rank said last."""
    return json.loads([line for line in lines if line.startswith("told: ")][-1].removeprefix("told: "))


def ranks(number, *words):
    done = launch([sys.executable, str(RANK), *map(str, words)], number, timeout=LIMIT, env=ENV)
    return [told(output) for output in done.outputs]


@pytest.mark.parametrize("number", [2, 3, 4])
def test_means_are_those_in_the_order_of_ranks_to_the_bit(number):
    before = set(os.listdir("/dev/shm"))
    for answer in ranks(number, "numbers"):
        assert answer["maps"] > 0, "it was no shared memory"
    assert set(os.listdir("/dev/shm")) == before


@pytest.mark.parametrize("number", [2, 3])
def test_gradients_of_several_buckets_are_those_of_one_process(number):
    for answer in ranks(number, "buckets"):
        assert answer["buckets"] > 1


def test_it_is_used_where_it_can_be_had_and_wanted():
    for answer in ranks(2, "chosen"):
        assert "torch.bfloat16" in answer.pop("refused")
        assert answer == {
            "default": True, "where_possible": True, "double": True, "off": False, "half": False,
            "one_rank_says_no": False, "hook": False,
        }  # fmt: skip


def test_all_ranks_do_without_it_where_one_has_to():
    for answer in ranks(2, "apart"):
        assert answer["elsewhere"] == "the ranks are not all on one machine, in one container"
        assert answer["closed"] == "rank 1: permission denied"
        assert answer["full"].startswith("rank 0: no ") and "No space left" in answer["full"]


@pytest.mark.parametrize("how", ["killed", "number taken"])
def test_a_rank_that_is_gone_is_named_long_before_the_time_limit(how, tmp_path):
    before = set(os.listdir("/dev/shm"))
    answer = told(alone(how, tmp_path))
    assert "is gone, remote process has terminated" in answer["error"]
    assert answer["after"] < 250
    assert set(os.listdir("/dev/shm")) == before


def test_a_rank_that_is_silent_is_named_after_the_time_limit(tmp_path):
    answer = told(alone("silent", tmp_path, limit=2))
    assert "timed out after 2 s of waiting for rank 2 (process " in answer["error"]
    assert answer["after"] >= 2


def alone(how, folder, limit=500):
    """What rank 0 of three said, of which the last is gone or silent; a launcher would end the others at once."""
    port = str(free_port())
    place = {"WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "lo"}
    words = [sys.executable, RANK, "lost", how, limit]
    with (
        Job(words, folder, {**place, "RANK": "2"}),
        Job(words, folder, {**place, "RANK": "1"}),
        Job(words, folder, {**place, "RANK": "0"}) as first,
    ):
        assert first.wait() == 0, first.output
        return first.output.splitlines()
