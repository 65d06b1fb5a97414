"""Two "nodes" on one machine: network namespaces that see each other only through a veth pair, torchrun across them."""

import json
import secrets
import subprocess
import sys

import pytest
import torch

from tests.scale.job import WORKER, Job

pytest.importorskip("lightning")

pytestmark = pytest.mark.slow

SETTINGS = {"samples": 100, "batch_size": 20, "hidden": 16, "steps": 5, "epochs": 4, "timeout": 60}


def ip(*words):
    return subprocess.run(["ip", *words], capture_output=True, text=True, timeout=60)


@pytest.fixture
def nodes():
    """Names of two namespaces; 10.77.0.1 and 10.77.0.2 are their only addresses beside the loopback."""
    tag = secrets.token_hex(2)
    names = [f"snn{tag}a", f"snn{tag}b"]
    ends = [f"v{tag}a", f"v{tag}b"]
    try:
        steps = [("netns", "add", name) for name in names]
        steps.append(("link", "add", ends[0], "type", "veth", "peer", "name", ends[1]))
        for i, (name, end) in enumerate(zip(names, ends, strict=True)):
            steps += [
                ("link", "set", end, "netns", name),
                ("-n", name, "addr", "add", f"10.77.0.{i + 1}/24", "dev", end),
                ("-n", name, "link", "set", end, "up"),
                ("-n", name, "link", "set", "lo", "up"),
            ]
        for step in steps:
            try:
                done = ip(*step)
            except FileNotFoundError:
                pytest.skip("no network namespaces here: there is no ip command (package iproute2)")
            if done.returncode:
                pytest.skip(f"no network namespaces here: ip {' '.join(step)} said {done.stderr.strip()!r}")
        yield list(zip(names, ends, strict=True))
    finally:
        for name in names:
            try:
                ip("netns", "del", name)
            except FileNotFoundError:
                break


def test_torchrun_across_two_nodes(nodes, tmp_path):
    def start(node, argument):
        name, end = nodes[node]
        options = ["--nnodes=2", "--nproc-per-node=1", f"--node-rank={node}", "--rdzv-backend=c10d"]
        options += ["--rdzv-endpoint=10.77.0.1:29533", f"--rdzv-id={tmp_path.name}", f"--rdzv-conf=is_host={1 - node}"]
        options += [f"--local-addr=10.77.0.{node + 1}"]
        run = [sys.executable, "-m", "torch.distributed.run", *options, WORKER, json.dumps(argument)]
        env = {"GLOO_SOCKET_IFNAME": end, "TP_SOCKET_IFNAME": end}
        return Job(["ip", "netns", "exec", name, *run], tmp_path, env)

    folder = tmp_path / "notes"
    folder.mkdir()
    argument = {**SETTINGS, "notes": str(folder), "devices": 1, "nodes": 2}
    with start(0, argument) as first, start(1, argument) as second:
        codes = first.wait(), second.wait()
    assert codes == (0, 0), first.output + second.output
    ranks = [torch.load(folder / f"rank{rank}.pt") for rank in range(2)]
    assert ranks[0]["updates"] == ranks[1]["updates"] == 20
    assert all(torch.equal(ranks[0]["weights"][name], value) for name, value in ranks[1]["weights"].items())
    assert set(ranks[0]["batches"][0]).isdisjoint(ranks[1]["batches"][0])
    alone = tmp_path / "alone"
    alone.mkdir()
    with Job([sys.executable, WORKER, json.dumps({**SETTINGS, "notes": str(alone)})], tmp_path) as job:
        assert job.wait() == 0, job.output
    for name, ours in torch.load(alone / "rank0.pt")["weights"].items():
        torch.testing.assert_close(ranks[1]["weights"][name], ours, rtol=1e-4, atol=1e-6)
