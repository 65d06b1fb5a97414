"""What the workshop's pages tell people to type exists, and every snippet runs; of other libraries where installed."""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
from pathlib import Path

import click
import pytest
import torch

from snnkit.lab import course
from snnkit.lab.course import exercise as registry, order
from snnkit.lab.tools.project import find
from snnkit.lab.workshop import handouts

from .test_readme import calls, parsed

ROOT = find(Path(__file__).parent).root
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in (ROOT / "workshop").rglob("*.md")
}
each_page = pytest.mark.parametrize("name", PAGES)


@each_page
def test_every_command_is_one(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "FOLDER").mkdir()
    bundle = tmp_path / "build" / "workshop" / "snnkit-workshop.zip"
    bundle.parent.mkdir(parents=True)
    for file in (bundle, tmp_path / "job.sh"):
        file.touch()
    for words in calls("snnkit", PAGES[name]):
        if not words:
            continue  # `snnkit` alone: the name of the kit
        try:
            parsed(words)
        except click.exceptions.Exit:
            assert "--help" in words or "-h" in words
        except click.ClickException as error:
            pytest.fail(f"{name}: snnkit {shlex.join(words)}: {error.format_message()}")


@pytest.mark.parametrize("name", [name for name in PAGES if "budget" not in name])  # its hours look like keys
def test_every_exercise_that_is_named_exists(name):
    known = {order.label(one.key) for name in registry.notebooks() for one in registry.exercises(name)}
    text = re.sub(r"(?ms)^```.*?^```", "", PAGES[name])
    for label in re.findall(r"(?<![\d.,/])(\d\d\.\d)(?![\d.%–]| ?×)", text):
        assert label == order.named(label) or label in known, f"{name} names an exercise {label}"


def test_the_functions_that_pages_name_exist():
    for page, text in PAGES.items():
        for attribute in re.findall(r"`course\.(\w+)\(", text):
            assert hasattr(course, attribute), f"{page} names course.{attribute}"


# --- what the troubleshooting page quotes is what the kit says --------------------------------------------------------

TROUBLES = [line for line in PAGES["workshop/troubleshooting.md"].splitlines() if line.startswith("|")]
QUOTED = sorted({quote for line in TROUBLES for quote in re.findall("“([^”]+)”", line)})


@pytest.fixture(scope="module")
def said():
    """Every text of the kit and its notebooks, one behind the other; the fixed parts of f-strings stand apart."""
    texts: list[str] = []
    for file in [*(ROOT / "snnkit").rglob("*.py"), *(ROOT / "notebooks" / "src").glob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return "\0".join(texts)


def test_the_kit_says_what_is_quoted(said):
    assert len(QUOTED) > 15 and [quote for quote in QUOTED if quote not in said] == []


# --- snippets ---------------------------------------------------------------------------------------------------------

SHEET, KNOWN = PAGES[handouts.CHEATSHEET], (ROOT / "docs" / "coming_from.md").read_text(encoding="utf-8")
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


def test_no_line_of_code_on_the_cheatsheet_wraps():
    """A column of A4 holds 62 characters of its code."""
    code = re.findall(r"(?ms)^```\w*\n(.*?)^```", SHEET)
    assert len(code) > 5 and [line for line in "".join(code).splitlines() if len(line) > 61] == []


def test_the_cheatsheet_runs_from_top_to_bottom(capsys, monkeypatch):
    monkeypatch.setenv("SNNKIT_HEADLESS", "1")  # no progress bars
    left = run(SHEET, "")
    assert left["history"].test_accuracy[-1] > 0.7
    assert left["out"].shape == (20, 8, 64)
    assert "bytes stored for backward" in capsys.readouterr().out


def test_the_loop_of_spytorch_and_ours_give_the_same_spikes_and_gradients(capsys):
    left = run(KNOWN, "snnkit", "spytorch")
    assert left["value"].isfinite() and "LIF" in capsys.readouterr().out  # engine.explain
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
    assert left["curve"].shape == (32,) and left["curve"][-1] > 0.9  # the converted network


@pytest.mark.parametrize("peer", PEERS)
def test_their_snippets_run_and_agree_with_ours(peer):
    if importlib.util.find_spec(peer) is None:
        pytest.skip(f"{peer} is not installed: make peers")
    body = section({"norse": "Norse", "snntorch": "snnTorch", "spikingjelly": "SpikingJelly"}[peer])
    left = run(KNOWN.partition("\n## Norse")[0] + "\n" + body, "snnkit", peer)
    claims = [line for line in body.splitlines() if "the same spikes" in line]
    assert len(claims) == 1
    assert torch.equal(left["ours"], left["theirs"]) and left["ours"].sum() > 0
    for name, pair in PAIRS[peer].items():
        torch.manual_seed(1)
        ours, theirs = pair(left)
        assert torch.allclose(ours, theirs.to(ours), atol=1e-5), name
        assert ours.any(), name


def weights_of(ours, theirs):
    """``ours`` with the weights of ``theirs``, in the order in which both have them."""
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        mine.data.copy_(other.data)
    return ours


def values(left):
    """Losses and accuracies, ours and theirs, in the order of the page."""
    return tuple(
        torch.stack([value.squeeze().double() for value in left[f"{whose}_losses"]]) for whose in ("ours", "theirs")
    )


def stepped(cell, x, *state):
    """Spikes of a cell of snnTorch, which is called step by step."""
    outs = []
    for x_t in x:
        out, *state = cell(x_t, *state)
        outs.append(out)
    return torch.stack(outs)


def fed_back(cell, x):
    """Spikes of a recurrent cell of snnTorch, which also gets its last ones."""
    outs, state = [], cell.reset_mem()
    for x_t in x:
        state = cell(x_t, *state)
        outs.append(state[0])
    return torch.stack(outs)


def reset(net):
    from spikingjelly.activation_based import functional

    functional.reset_net(net)
    return net


# What the page pairs, on random input: name to (ours, theirs) of what its snippets left. Two rates agree within chance.
X = torch.rand(20, 4, 8, generator=torch.Generator().manual_seed(2))
IMAGES = torch.rand(6, 2, 1, 8, 8, generator=torch.Generator().manual_seed(3))
PAIRS = {
    "norse": {
        "a network": lambda left: (
            weights_of(left["net"], left["theirs_net"])(20 * X)[0], left["theirs_net"](20 * X)[0],
        ),
        "one step at a time": lambda left: (left["state"].v, left["theirs_step"].v),
        "parameters": lambda left: (left["cell"](9 * X)[0], left["theirs_cell"](9 * X)[0]),
        "poisson": lambda left: tuple((left[name].mean(0) - left["images"]).abs().mean() < 0.15 for name in SPIKES),
        "constant current": lambda left: (
            left["encode"].constant_current_lif(3 * X[0], 20), left["norse"].ConstantCurrentLIFEncoder(20)(3 * X[0])
        ),
        "population": lambda left: (left["fields"], left["their_fields"]),
        "first spikes": lambda left: (left["firsts"], left["their_firsts"]),
        "signed spikes": lambda left: tuple(
            (left[name].mean(0) - left["signed"]).abs().mean() < 0.15 for name in ("signs", "their_signs")
        ),
        "refractory period": lambda left: (left["resting_state"].v, left["their_state"].lif.v),
        "adaptation": lambda left: (left["spikes_with_adaptation"], left["their_spikes_with_adaptation"]),
    },
    "snntorch": {
        "a network": lambda left: (
            weights_of(left["net"], left["hidden"])(5 * X)[0], stepped_in_place(left["utils"], left["hidden"], 5 * X),
        ),
        "losses": values,
        "reset to zero": lambda left: (
            left["cell"](X)[0], stepped(left["theirs_cell"], X, left["theirs_cell"].init_leaky()),
        ),
        "synapse": lambda left: (
            left["synaptic"](X)[0], stepped(left["their_synaptic"], X, *left["their_synaptic"].reset_mem()),
        ),
        "recurrence": lambda left: (
            weights_of(left["layer"], left["their_layer"].recurrent)(X)[0], fed_back(left["their_layer"], X),
        ),
        "one to one": lambda left: (left["loop"](X)[0], fed_back(left["their_loop"], X)),
        "rate": lambda left: tuple((left[n].mean(0) - left["pixels"]).abs().mean() < 0.15 for n in RATES),
        "latency": lambda left: (left["times"], left["their_times"]),
        "delta": lambda left: (left["changes"], left["their_changes"]),
        "delta with padding": lambda left: (left["starts"], left["their_starts"]),
        "rates over time": lambda left: tuple(
            (left[name] - left["x"]).mean((0, 1)).abs().max() < 0.2 for name in ("moving", "their_moving")
        ),
        "latency that begins later": lambda left: (left["late"], left["their_late"]),
        "batch norm through time": lambda left: (
            left["norms"](X), torch.stack([norm(x_t) for norm, x_t in zip(left["their_norms"], X, strict=True)])
        ),
    },
    "spikingjelly": {
        "layers over time": lambda left: (
            weights_of(left["net"], left["theirs_net"])(3 * IMAGES)[0], reset(left["theirs_net"])(3 * IMAGES),
        ),
        "learned time constant": lambda left: (left["cell"](3 * X)[0], left["theirs_node"](3 * X)),
        "losses": values,
        "votes": lambda left: (left["votes"], left["their_votes"]),
        "latency": lambda left: (left["latencies"], left["their_latency"]),
        "phase": lambda left: (left["phases"], left["their_phase"]),
        "population": lambda left: (left["population"], left["their_population"]),
        "a conversion": lambda left: (left["outputs"], left["theirs_outputs"]),
    },
}  # fmt: skip
SPIKES, RATES = ("spikes", "their_spikes"), ("rates", "their_rates")


def stepped_in_place(utils, net, x):
    """Spikes of a network of snnTorch that holds its state."""
    utils.reset(net)
    return torch.stack([net(x_t)[0] for x_t in x])
