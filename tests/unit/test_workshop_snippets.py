"""Every snippet of the workshop's pages runs: ours always, other libraries' where they are installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch

from snnkit.tools.project import find
from snnkit.workshop import cheatsheet
from snnkit.workshop.markdown import Page

ROOT = find(Path(__file__).parent).root
SHEET = Page.read(ROOT / cheatsheet.FILE, ROOT)
KNOWN = Page.read(ROOT / "workshop" / "if_you_know.md", ROOT)
PEERS = ("norse", "snntorch", "spikingjelly")


def run(page: Page, *kinds: str) -> dict:
    """Execute the Python snippets of these kinds, one after the other in one namespace; what they leave in it."""
    namespace: dict = {"__name__": "snippets"}
    for code in page.codes:
        if code.words[:1] == ("python",) and (code.words[1:] or ("",))[0] in kinds:
            # Empty lines in front, so that a traceback names the line of the page.
            exec(compile("\n" * (code.line - 1) + code.text, page.name, "exec"), namespace)
    return namespace


@pytest.fixture(autouse=True)
def no_progress_bars(monkeypatch):
    monkeypatch.setenv("SNNKIT_HEADLESS", "1")


def test_the_cheatsheet_runs_from_top_to_bottom(capsys):
    left = run(SHEET, "")
    assert left["history"].test_accuracy[-1] > 0.7
    assert left["out"].shape == (20, 8, 64)
    assert "bytes kept for backward" in capsys.readouterr().out


def test_what_the_cheatsheet_says_of_chunks_is_true():
    left = run(Page("sheet", SHEET.text.partition("## Neurons")[0]), "")
    whole, _ = left["cell"](left["x"])
    assert torch.equal(whole, torch.cat([left["first"], left["rest"]]))


def test_each_library_has_its_heading_and_snippets_on_both_sides():
    for title, kind in {
        "Norse": "norse",
        "snnTorch": "snntorch",
        "SpikingJelly": "spikingjelly",
        "SpyTorch": "spytorch",
    }.items():
        section = KNOWN.section(title)
        assert section is not None and section.level == 2
        lines = {number for number, _ in section.lines}
        last = max(lines)
        inside = [code.words[1] for code in KNOWN.codes if section.line < code.line < last]
        assert inside.count(kind) >= 2 and inside.count("snnkit") >= 3


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
    section = KNOWN.section({"norse": "Norse", "snntorch": "snnTorch", "spikingjelly": "SpikingJelly"}[peer])
    assert section is not None
    text = KNOWN.text.splitlines()
    head = text[: KNOWN.section("Norse").line - 1]  # pyright: ignore[reportOptionalMemberAccess]
    body = text[section.line : section.lines[-1][0]]
    left = run(Page(KNOWN.name, "\n".join(head + body)), "snnkit", peer)
    claims = [line for line in body if "the same spikes" in line]
    assert len(claims) == 1
    assert torch.equal(left["ours"], left["theirs"]) and left["ours"].sum() > 0
    if "ours_loss" in left:
        assert torch.allclose(left["ours_loss"], left["theirs_loss"])
