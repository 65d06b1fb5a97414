"""Every snippet of the workshop's pages runs: ours always, other libraries' where they are installed."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
import torch

from snnkit.tools.project import find
from snnkit.workshop import handouts

ROOT = find(Path(__file__).parent).root
SHEET = (ROOT / handouts.CHEATSHEET).read_text(encoding="utf-8")
KNOWN = (ROOT / "workshop" / "if_you_know.md").read_text(encoding="utf-8")
PEERS = ("norse", "snntorch", "spikingjelly")


def snippets(text: str) -> list[tuple[int, str, str]]:
    """(line, kind, code) of each Python block; "```python norse" is of the kind norse."""
    blocks = re.finditer(r"(?ms)^```python *(\w*)\n(.*?)^```", text)
    return [(text.count("\n", 0, block.start()) + 1, block[1], block[2]) for block in blocks]


def run(text: str, *kinds: str) -> dict:
    """Execute the snippets of these kinds, one after the other in one namespace; what they leave in it."""
    namespace: dict = {"__name__": "snippets"}
    for line, kind, code in snippets(text):
        if kind in kinds:
            # Empty lines in front, so that a traceback names the line of the page.
            exec(compile("\n" * line + code, "page", "exec"), namespace)
    return namespace


def section(title: str) -> str:
    """A section of the page for people who know another library."""
    return next(part for part in KNOWN.split("\n## ") if part.startswith(title))


@pytest.fixture(autouse=True)
def no_progress_bars(monkeypatch):
    monkeypatch.setenv("SNNKIT_HEADLESS", "1")


def test_the_cheatsheet_runs_from_top_to_bottom(capsys):
    left = run(SHEET, "")
    assert left["history"].test_accuracy[-1] > 0.7
    assert left["out"].shape == (20, 8, 64)
    assert "bytes stored for backward" in capsys.readouterr().out


def test_our_snippets_run_without_any_other_library(capsys):
    left = run(KNOWN, "snnkit", "spytorch")
    assert left["value"].isfinite()
    assert "LIF" in capsys.readouterr().out  # engine.explain


def test_the_loop_of_spytorch_and_ours_give_the_same_spikes_and_gradients():
    left = run(KNOWN, "snnkit", "spytorch")
    assert left["out"].sum() >= 0 and left["ours"].shape == (20, 4, 5)
    x, weight = 3 * left["x"], left["weight"].abs()
    theirs = left["run_layer"](x.transpose(0, 1), weight, alpha=0.8, beta=0.9).transpose(0, 1)
    ours, _ = left["zenke"](x @ weight)
    assert 0.05 < theirs.mean() < 0.95
    assert (ours == theirs).float().mean() > 0.99  # einsum and @ may add up in another order
    u = torch.linspace(-2, 2, 41)
    slopes = []
    for spike in (left["SurrogateSpike"].apply, left["spike"]):
        leaf = u.clone().requires_grad_()
        spike(leaf).sum().backward()
        slopes.append(leaf.grad)
    assert torch.allclose(*slopes)


@pytest.mark.parametrize("peer", PEERS)
def test_their_snippets_run_and_agree_with_ours(peer):
    if importlib.util.find_spec(peer) is None:
        pytest.skip(f"{peer} is not installed: make peers")
    body = section({"norse": "Norse", "snntorch": "snnTorch", "spikingjelly": "SpikingJelly"}[peer])
    left = run(KNOWN.partition("\n## Norse")[0] + "\n" + body, "snnkit", peer)
    claims = [line for line in body.splitlines() if "the same spikes" in line]
    assert len(claims) == 1
    assert torch.equal(left["ours"], left["theirs"]) and left["ours"].sum() > 0
    if "ours_loss" in left:
        assert torch.allclose(left["ours_loss"], left["theirs_loss"])
