"""Recipes: what they hold, what can be changed, and that a run is what its settings say, to the bit, killed or not."""

import itertools
import json
import subprocess
import sys

import pytest
import torch

from snnkit import encode, loss, models, train
from snnkit.data.augment import Shift
from snnkit.train import OneCycle, recipes
from snnkit.train.recipe import Recipe, make_optimizer, make_scheduler

SMALL = {"samples": 200, "hidden": 16, "epochs": 3, "steps": 5}
# A batch norm, and everything that draws random numbers or has a state of its own.
CONV = {
    "network": "conv", "channels": 3, "samples": 150, "hidden": 12, "epochs": 6, "steps": 3, "batch_size": 40,
    "optimizer": "sgd", "lr": 0.05, "shift": 1, "amp": True, "schedule": "cosine",
}  # fmt: skip


def run(name="digits", **arguments):
    return recipes.run(name, **{"device": "cpu", "progress": False, **SMALL, **arguments})


def weights(model):
    return torch.cat([value.double().flatten() for value in model.state_dict().values()])


# --- the catalogue ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", recipes.names())
def test_every_recipe_builds_its_network(name):
    assert any(p.requires_grad for p in recipes.get(name).build().parameters())


def test_the_workshop_encodes_as_norse_and_reads_out_the_maximum():
    recipe = recipes.get("workshop")
    net, published = recipe.build(), models.ConvNet()
    assert [tuple(p.shape) for p in net.parameters()] == [tuple(p.shape) for p in published.parameters()]
    images = torch.rand(3, 1, 28, 28)
    sequence = recipe.encoder(net)(images)
    assert torch.equal(sequence, encode.constant_current_lif(3 * images, 32)) and sequence.mean() > 0
    assert recipe.criterion() is loss.membrane_max_cross_entropy
    plain = recipes.get("workshop", encoding="poisson", gain=1.0).encoder(net)
    torch.manual_seed(0)
    expected = encode.poisson(images, 32)
    torch.manual_seed(0)
    assert torch.equal(plain(images), expected)


@pytest.mark.slow
def test_the_workshop_learns():
    changes = {"channels": 12, "hidden": 64, "steps": 12, "gain": 16.0, "lr": 3e-3, "batch_size": 16}
    trained = run("workshop", dataset="digits", **(changes | {"samples": None}))
    assert trained.history.test_accuracy[-1] > 0.25  # chance is a tenth


def test_the_published_recipe():
    recipe = recipes.get("fashion")
    published = models.FashionConvNet()
    assert [tuple(p.shape) for p in recipe.build().parameters()] == [tuple(p.shape) for p in published.parameters()]
    assert (recipe.dataset, recipe.steps, recipe.batch_size, recipe.epochs) == ("fashion", 4, 128, 64)
    model = recipe.build()
    optimizer = make_optimizer(recipe.optimizer, model, recipe.lr)
    group = optimizer.param_groups[0]
    assert isinstance(optimizer, torch.optim.SGD) and (group["lr"], group["momentum"]) == (0.1, 0.9)
    scheduler = make_scheduler(recipe.schedule, optimizer, recipe.epochs)
    assert isinstance(scheduler, torch.optim.lr_scheduler.CosineAnnealingLR) and scheduler.T_max == 64
    assert recipe.amp and recipe.criterion().__name__ == "rate_mse" and recipe.augmentation() is None


def test_settings_can_be_changed_and_go_through_json():
    recipe = recipes.get("mnist-small", lr=0.5, channels=7)
    assert (recipe.lr, recipe.channels) == (0.5, 7) and recipes.get("mnist-small").lr != 0.5
    assert Recipe(**json.loads(json.dumps(recipe.settings()))) == recipe
    # Another network drops what only the old one has.
    recipe = recipes.get("mnist", network="statistical", populations=4, hidden=8)
    assert recipe.channels is None and recipe.populations == 4
    assert recipes.get("statistical", network="dense").populations is None


def test_updates_are_recorded_on_a_gpu_where_that_can_be():
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    recipe = recipes.get("mnist")
    assert recipe.graphed_on(cuda) and not recipe.graphed_on(cpu)
    assert not recipes.get("mnist", graphed=False).graphed_on(cuda)
    assert not recipes.get("mnist", schedule="one-cycle").graphed_on(cuda)


# --- runs ------------------------------------------------------------------------------------------------------------


def test_every_setting_of_fit_arrives(monkeypatch):
    seen = {}

    def spy(model, train_data, test_data, **arguments):
        seen.update(arguments, n=len(train_data[1]), tested=len(test_data[1]))
        return train.History()

    monkeypatch.setattr(recipes, "fit", spy)
    settings = {
        "amp": True, "channels_last": True, "compile": True, "accumulate": 3, "graphed": True,
        "batch_size": 7, "epochs": 2, "seed": 5, "samples": 50,
    }  # fmt: skip
    run(**settings)
    assert {name: seen[name] for name in settings.keys() - {"samples"}} | {"samples": 50} == settings
    assert seen["n"] == 50 and seen["tested"] == 355 and seen["augment"] is None and seen["on_batch"] is None
    x = seen["encode"](torch.rand(2, 1, 8, 8))
    assert x.shape == (5, 2, 1, 8, 8) and x.stride(0) == 0
    run(**settings | {"graphed": None, "schedule": "one-cycle", "lr": 0.5, "shift": 1})
    (cycle,) = seen["on_batch"].callbacks
    assert isinstance(cycle, OneCycle) and seen["augment"] == Shift(1) and seen["graphed"] is False
    assert cycle.optimizer is seen["optimizer"] and cycle.lr == 0.5
    assert cycle.updates == 2 * 3  # epochs of 50 samples, 21 per update


def test_the_recipes_learn():
    assert run("digits", samples=None, hidden=64, epochs=4, steps=10).history.test_accuracy[-1] > 0.85
    conv = {"network": "conv", "channels": 8, "hidden": 32, "steps": 4, "batch_size": 40, "schedule": "one-cycle"}
    conv = run(**conv, samples=None, lr=0.01)
    assert conv.history.test_accuracy[-1] > 0.7


def test_one_cycle_rises_and_falls_with_every_update():
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=9.0)
    cycle = OneCycle(optimizer, 2.0, updates=100)
    rates = [cycle.rate(update) for update in range(101)]
    assert optimizer.param_groups[0]["lr"] == rates[0] == pytest.approx(0.2)
    assert rates[:10] == pytest.approx([0.2 * (i + 1) for i in range(10)])
    assert all(a > b for a, b in itertools.pairwise(rates[9:]))
    assert rates[54] > 1 > rates[55] and 0 < rates[99] < 0.01 and rates[100] == pytest.approx(0)
    cycle(train.BatchInfo(epoch=1, batch=4, batches=50, samples=1, metrics=torch.zeros(3), output=torch.zeros(1)))
    assert optimizer.param_groups[0]["lr"] == rates[55]
    OneCycle(optimizer, 2.0, updates=1)
    assert 0 < optimizer.param_groups[0]["lr"] <= 2.0


# --- checkpoints -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", ["cosine", "one-cycle", "constant"])
def test_stopped_and_resumed_equals_unbroken(tmp_path, schedule):
    def stop(history, model):
        if history.epochs == 2:
            raise KeyboardInterrupt

    settings = CONV | {"schedule": schedule}
    straight = run(**settings)
    file = tmp_path / "new" / "run.pt"
    assert run(**settings, checkpoint=file, on_epoch=stop).history.interrupted
    torch.manual_seed(99)
    resumed = run(checkpoint=file, resume=True, **{name: settings[name] for name in SMALL})
    assert torch.equal(weights(straight.model), weights(resumed.model))
    assert resumed.recipe == straight.recipe
    assert resumed.history.train_loss == straight.history.train_loss


CHILD = """
import json, os, sys
import torch
from snnkit.train import recipes
torch.set_num_threads(1)
settings, file, hang = json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3])
fsync, written = os.fsync, 0

def slow(descriptor):
    global written
    written += 1
    if written == hang:
        print("in the middle of a write", flush=True)
        sys.stdin.read()  # for ever, until it is killed
    return fsync(descriptor)

os.fsync = slow
recipes.run("digits", device="cpu", progress=False, checkpoint=file, resume=os.path.exists(file),
            on_epoch=lambda history, model: print("epoch", history.epochs, flush=True), **settings)
"""


def child(settings, file, hang=0):
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, json.dumps(settings), str(file), str(hang)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.parametrize("moment", [pytest.param("between", marks=pytest.mark.slow), "in a write"])
def test_killed_and_resumed_by_real_processes_equals_unbroken(tmp_path, moment):
    """kill -9: no handler runs, nothing is tidied up."""
    file = tmp_path / "run.pt"
    # The settings are written once, then a checkpoint for each epoch: the fourth write is the third checkpoint.
    victim = child(CONV, file, hang=4 if moment == "in a write" else 0)
    last = "in the middle of a write" if moment == "in a write" else "epoch 2"
    lines = []
    for line in victim.stdout:
        lines.append(line.strip())
        if lines[-1] == last:
            break
    victim.kill()
    victim.communicate()
    assert victim.returncode == -9 and lines[-1] == last
    before = train.load_checkpoint(file)
    if moment == "in a write":
        assert before["epoch"] == 2 and list(tmp_path.glob("*.part")) + list(tmp_path.glob(".*.part"))
    heir = child(CONV, file)
    heir.communicate(timeout=300)
    assert heir.returncode == 0
    torch.set_num_threads(1)
    straight = run(**CONV)
    after = train.load_checkpoint(file)
    assert after["epoch"] == 6 and after["history"]["train_loss"] == straight.history.train_loss
    for name, value in straight.model.state_dict().items():
        assert torch.equal(after["model"][name], value), name


def test_a_checkpoint_that_is_there_is_never_overwritten_by_a_new_run(tmp_path):
    file = tmp_path / "run.pt"
    run(checkpoint=file)
    before = file.read_bytes(), (tmp_path / "run.pt.json").read_bytes()
    with pytest.raises(FileExistsError, match=r"run\.pt exists: resume=True \(--resume\) continues from it"):
        run(checkpoint=file, seed=1)
    assert (file.read_bytes(), (tmp_path / "run.pt.json").read_bytes()) == before


def test_a_run_that_can_not_begin_leaves_nothing_behind(tmp_path):
    with pytest.raises(ValueError, match="samples must be at most"):
        run(checkpoint=tmp_path / "new" / "run.pt", samples=9999)
    assert not (tmp_path / "new").exists()


def test_resume_takes_the_settings_from_the_file(tmp_path):
    file = tmp_path / "run.pt"
    run(checkpoint=file, lr=0.02, batch_size=50)
    longer = recipes.run("digits", checkpoint=file, resume=True, epochs=4, engine="eager", device="cpu", progress=False)
    assert longer.recipe.lr == 0.02 and longer.recipe.hidden == 16 and longer.history.epochs == 4
    assert json.loads((tmp_path / "run.pt.json").read_text())["epochs"] == 4


@pytest.mark.parametrize(
    ("begun", "asked", "words"),
    [
        ({}, {"lr": 0.3}, r"lr is 0.005 in the run of .*run\.pt; it can't be resumed with 0.3"),
        ({"schedule": "cosine"}, {"epochs": 5}, "epochs is 3 in the run .*over which its learning rate falls"),
        ({}, {"name": "dense"}, "recipe must be 'digits', that of .*, but it is 'dense'"),
    ],
)
def test_resume_refuses_another_run(tmp_path, begun, asked, words):
    file = tmp_path / "run.pt"
    run(checkpoint=file, **begun)
    before = file.read_bytes(), (tmp_path / "run.pt.json").read_bytes()
    asked = dict(asked)
    with pytest.raises(ValueError, match=words):
        recipes.run(asked.pop("name", "digits"), checkpoint=file, resume=True, device="cpu", progress=False, **asked)
    assert (file.read_bytes(), (tmp_path / "run.pt.json").read_bytes()) == before


def test_resume_with_a_recipe_asks_for_all_that_it_says(tmp_path):
    file, recipe = tmp_path / "run.pt", recipes.get("digits", **SMALL)
    arguments = {"checkpoint": file, "device": "cpu", "progress": False}
    recipes.run(recipe, **arguments)
    assert recipes.run(recipe, resume=True, **arguments).history.epochs == 3
    with pytest.raises(ValueError, match=r"lr is 0\.005 in the run"):
        recipes.run(recipes.get("digits", **SMALL, lr=0.3), resume=True, **arguments)


def test_resume_without_or_with_damaged_settings(tmp_path):
    file, note = tmp_path / "run.pt", tmp_path / "run.pt.json"
    assert run(checkpoint=file, resume=True).history.epochs == 3  # nothing was there: from the start
    for content in ("{", '{"lr": 1}', "[]", "[" * 100_000):
        note.write_text(content)
        with pytest.raises(ValueError, match=r"run\.pt\.json is damaged, or of another snnkit"):
            run(checkpoint=file, resume=True)
    note.unlink()
    note.mkdir()
    with pytest.raises(ValueError, match=r"run\.pt\.json is damaged, or of another snnkit"):
        run(checkpoint=file, resume=True)
    note.rmdir()
    with pytest.raises(ValueError, match=r"run\.pt\.json, the settings with which .* was trained, is missing"):
        run(checkpoint=file, resume=True)


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"encoding": "latency", "gain": 2.0}, "gain must be at most 1 for the encoding 'latency'"),
        ({"network": "statistical", "populations": 4, "gain": 0.5}, "encoding and gain must be left out"),
        ({"channels": 3}, "channels must be None for the dense network, but it is 3"),
        ({"network": "conv"}, r"channels must be given for the conv network, as channels=8 \(--channels 8\)"),
        ({"network": "statistical", "populations": 5, "hidden": 16}, "hidden must be a multiple"),
        ({"graphed": True, "schedule": "one-cycle"}, "graphed must not be True with the schedule"),
    ],
)
def test_bad_settings_are_named(settings, words):
    with pytest.raises(ValueError, match=words):
        recipes.run("digits", **{"device": "cpu", "progress": False, **settings})
