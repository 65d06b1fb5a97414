"""Through Lightning, too, a run that was cut off goes on at the next batch, and ends as one that was not."""

import contextlib
import itertools
import warnings

import pytest
import torch
import torch.distributed as dist

pytest.importorskip("lightning")

from lightning.pytorch import Callback, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader, TensorDataset

from snnkit import models, viz
from snnkit.train import RankInfo, lit, recipes
from snnkit.train.lit import AtomicCheckpointIO, ResumableCheckpoint, SignalFlags, run_recipe
from snnkit.train.lit.preemption import explained

from .lit_runs import images, module, net, trainer, weights

pytestmark = pytest.mark.filterwarnings("ignore")

# Five batches an epoch, the last one smaller.
SMALL = {"samples": 150, "batch_size": 32, "hidden": 8, "steps": 3, "epochs": 2, "device": "cpu", "progress": False}
FIGURES = ("train_loss", "train_accuracy", "test_loss", "test_accuracy", "output_rate")


class Cut(Exception):
    pass


class CutBefore(Callback):
    """Ends the process's work before the batch that would make the update after ``updates``."""

    def __init__(self, updates):
        self.updates = updates

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if trainer.global_step == self.updates:
            raise Cut


def equal(ours, theirs):
    return all(torch.equal(a, b) for a, b in zip(ours.values(), theirs.values(), strict=True))


def run(**settings):
    return run_recipe("digits", **{**SMALL, **settings})


@pytest.mark.parametrize(("accumulate", "schedule"), [(1, "cosine"), (2, "one-cycle"), (3, "constant")])
def test_cut_anywhere(tmp_path, accumulate, schedule):
    settings = {"accumulate": accumulate, "schedule": schedule, "shift": 1}
    whole = run(**settings)
    per_epoch = -(-5 // accumulate)
    assert whole.updates == 2 * per_epoch
    for every, cut in itertools.product((None, 2), range(1, whole.updates, 2)):
        file = tmp_path / f"{every}-{cut}.pt"
        with pytest.raises(Cut):
            run(**settings, checkpoint=file, every=every, callbacks=[CutBefore(cut)])
        if file.exists():
            saved = AtomicCheckpointIO().load_checkpoint(file)["global_step"]
            step = every or per_epoch
            assert cut - saved < step or saved % per_epoch == 0
        resumed = run(**settings, checkpoint=file, every=every, resume=True)
        assert equal(resumed.model.state_dict(), whole.model.state_dict()), (every, cut)
        assert resumed.updates == whole.updates and resumed.stopped is None
        for name in FIGURES:
            assert getattr(resumed.history, name) == pytest.approx(getattr(whole.history, name), rel=1e-12), name


def test_validation_within_an_epoch_changes_nothing(tmp_path):
    """With a Trainer of one's own, that validates every two batches and accumulates."""

    def train(file, resume=False, cut=None, accumulate=2):
        torch.manual_seed(0)
        # Its number of updates is read while optimizers are made, which makes Lightning forget where the loaders were.
        module = lit.SpikingModule(models.mlp((64, 8, 10)), steps=3, scheduler="one-cycle", loss="count_cross_entropy")
        keeper = ResumableCheckpoint(SignalFlags(None), str(file), 1)
        trainer = Trainer(
            accelerator="cpu", devices=1, max_epochs=3, val_check_interval=2, accumulate_grad_batches=accumulate,
            callbacks=[*([CutBefore(cut)] if cut else []), keeper], plugins=[AtomicCheckpointIO()], logger=False,
            enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0, default_root_dir=tmp_path,
        )  # fmt: skip
        with SignalFlags(None).listening():
            digits = lit.DigitsDataModule(samples=150, global_batch_size=32)
            trainer.fit(module, digits, ckpt_path=file if resume else None)
        return module.model.state_dict()

    for accumulate in (1, 2):
        whole = train(tmp_path / f"whole{accumulate}.pt", accumulate=accumulate)
        for cut in (2, 5, 7):
            file = tmp_path / f"{accumulate}-{cut}.pt"
            with pytest.raises(Cut):
                train(file, cut=cut, accumulate=accumulate)
            assert equal(train(file, resume=True, accumulate=accumulate), whole), (accumulate, cut)


def test_nothing_is_left_to_do(tmp_path):
    file = tmp_path / "run.pt"
    first = run(checkpoint=file)
    again = run(checkpoint=file, resume=True)
    assert again.history.to_dict() == first.history.to_dict()
    assert equal(again.model.state_dict(), first.model.state_dict())
    longer = run_recipe("digits", device="cpu", progress=False, epochs=3, checkpoint=file, resume=True)
    assert longer.history.epochs == 3 and longer.history.train_loss[:2] == first.history.train_loss


def test_leftovers_of_killed_writers_are_cleared(tmp_path):
    (tmp_path / ".run.pt.123-abcd.part").write_bytes(b"half")
    (tmp_path / ".run.pt.old.123-abcd.part").mkdir()
    (tmp_path / ".other.pt.123-abcd.part").write_bytes(b"half")
    run(epochs=1, checkpoint=tmp_path / "run.pt")
    names = {file.name for file in tmp_path.iterdir()}
    assert names == {"run.pt", "run.pt.json", ".run.pt.old.123-abcd.part", ".other.pt.123-abcd.part"}


def test_what_is_there_is_not_overwritten(tmp_path):
    file = tmp_path / "run.pt"
    run(epochs=1, checkpoint=file)
    with pytest.raises(FileExistsError, match="resume=True"):
        run(epochs=1, checkpoint=file)
    with pytest.raises(ValueError, match="hidden is 8 in the run of"):
        run(epochs=1, checkpoint=file, resume=True, hidden=9)
    with pytest.raises(ValueError, match=r"recipe must be 'digits', that of .*, but it is 'dense'"):
        run_recipe("dense", checkpoint=file, resume=True)


def test_a_checkpoint_of_fit_or_of_another_model(tmp_path):
    file = tmp_path / "run.pt"
    settings = {name: value for name, value in SMALL.items() if name not in ("device", "progress")}
    recipes.run("digits", device="cpu", progress=False, checkpoint=file, **settings)
    with pytest.raises(ValueError, match=r"is a checkpoint of train.fit, and only that can resume from it"):
        run(checkpoint=file, resume=True)
    run(epochs=1, checkpoint=tmp_path / "other.pt", hidden=9)
    (tmp_path / "other.pt").rename(file)
    with pytest.raises(ValueError, match=r"(?s)run.pt does not fit the model: .*size mismatch"):
        run(checkpoint=file, resume=True)


def test_a_checkpoint_holds_nothing_that_could_run_code(tmp_path):
    with pytest.raises(TypeError, match=r"hyper_parameters.* must be .*, but it is a .*function"):
        AtomicCheckpointIO().save_checkpoint({"hyper_parameters": {"encoder": run}}, tmp_path / "x.pt")
    assert not list(tmp_path.iterdir())


def plain_run(folder, kill=None, resume=None, accumulate=1, schedule="constant", seed=0):
    """Three epochs of ten batches, checkpoints every three updates; the module, its figures and those of epochs."""
    often = {"every_n_train_steps": 3, "enable_version_counter": False, "save_on_train_epoch_end": False}
    keep = ModelCheckpoint(folder, "last", **often)
    panel = viz.NotebookPanel()
    panel.on_train_end = lambda *arguments: None
    made = module(net(seed=seed), encoder="poisson", scheduler=schedule)
    callbacks = [keep, panel, *([CutBefore(kill)] if kill else [])]
    whole = lit.TensorDataModule(images(40), images(20, seed=1), global_batch_size=4)
    started = trainer(*callbacks, max_epochs=3, accumulate_grad_batches=accumulate, enable_checkpointing=True)
    with contextlib.suppress(Cut):
        started.fit(made, whole, ckpt_path=resume)
    return weights(made), {name: float(value) for name, value in started.callback_metrics.items()}, panel.series


@pytest.mark.parametrize(
    ("accumulate", "schedule", "kills"),
    [(1, "constant", (4, 12, 29)), (1, "one-cycle", (4, 10, 17)), (1, "cosine", (8, 25)), (3, "one-cycle", (5, 7))],
)
def test_a_killed_run_ends_as_if_nothing_had_happened(tmp_path, accumulate, schedule, kills):
    same = {"accumulate": accumulate, "schedule": schedule}
    expected, figures, series = plain_run(tmp_path / "whole", **same)
    for kill in kills:
        folder = tmp_path / str(kill)
        plain_run(folder, kill=kill, **same)
        (file,) = folder.iterdir()
        begun = torch.load(file, weights_only=True)
        assert begun["global_step"] == kill // 3 * 3
        # Other initial weights are replaced.
        got, *others = plain_run(folder, resume=file, seed=5, **same)
        assert torch.equal(got, expected) and others == [figures, series]


# When the checkpoint is written, how the loader works, and whether a resumed run sees the same order.
LOADERS = {
    "end of an epoch": ({}, {}, True),
    "end of an epoch, workers": ({}, {"num_workers": 2, "multiprocessing_context": "fork"}, True),
    "end of validation": ({"save_on_train_epoch_end": False}, {}, True),
    "within an epoch": ({"every_n_train_steps": 3, "save_on_train_epoch_end": False}, {}, False),
    "before validation": ({"every_n_train_steps": 5, "save_on_train_epoch_end": False}, {}, False),
    "own generator": ({}, {}, False),
}


@pytest.mark.parametrize("case", LOADERS)
def test_a_dataloader_that_shuffles_has_its_order_again_or_the_checkpoint_warns(tmp_path, case):
    (often, options, same), own = LOADERS[case], case == "own generator"

    def train(folder, kill=None, resume=None):
        torch.manual_seed(3 if resume is None else 4)
        drawn = {"generator": torch.Generator()} if own else {}
        loader = DataLoader(TensorDataset(*images(40)), batch_size=8, shuffle=True, **options, **drawn)
        held = DataLoader(TensorDataset(*images(16, seed=1)), batch_size=8)
        made, writer = module(net(seed=3)), ModelCheckpoint(folder, "last", **often)
        callbacks = [writer, *([CutBefore(kill)] if kill else [])]
        with contextlib.suppress(Cut):
            trainer(*callbacks, max_epochs=3, enable_checkpointing=True).fit(made, loader, held, ckpt_path=resume)
        return weights(made)

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        whole = train(tmp_path / "whole")
    assert sum("sees the samples in another order" in str(warning.message) for warning in said) == (not same)
    train(tmp_path / "killed", kill=10)
    (file,) = (tmp_path / "killed").iterdir()
    assert torch.equal(train(tmp_path / "resumed", resume=file), whole) == same


def test_a_trained_module_is_read_back(tmp_path):
    made = module()
    started = trainer()
    started.fit(made, lit.TensorDataModule(images(), global_batch_size=8))
    for name, weights_only in (("whole.ckpt", False), ("weights.ckpt", True)):
        started.save_checkpoint(tmp_path / name, weights_only=weights_only)
        read = lit.SpikingModule.load_from_checkpoint(tmp_path / name, model=net(seed=3), steps=4)
        assert torch.equal(weights(read), weights(made))


def test_a_progress_bar_is_shown_and_callbacks_are_finished(monkeypatch, capfd):
    monkeypatch.delenv("SNNKIT_HEADLESS", raising=False)
    ended = []

    class Note:
        def __call__(self, history, model):
            pass

        def finish(self):
            ended.append(True)

    run_recipe("digits", **{**SMALL, "progress": True, "on_epoch": Note()})
    assert "Epoch" in "".join(capfd.readouterr()) and ended == [True]


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (dist.DistNetworkError("the server socket has failed"), True),
        (dist.DistBackendError("NCCL error"), True),
        (ConnectionResetError("by peer"), True),
        (RuntimeError("[third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer"), True),
        (RuntimeError("Application timeout caused pair closure"), True),
        (RuntimeError("DataLoader timed out after 5 seconds"), False),
        (RuntimeError("could not open a socket: address already in use"), False),
        (ValueError("backend must be gloo"), False),
    ],
)
def test_an_error_of_this_rank_is_no_lost_rank(error, lost):
    with pytest.raises(lit.RankError if lost else type(error)) as raised, explained(RankInfo(0, 2, 0, 2), 3.0):
        raise error
    assert lost or raised.value is error


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"graphed": True}, "graphed must not be True here"),
        ({"devices": 2}, "devices must be 1, as was started, but it is 2"),
        ({"resume": True}, "resume=True needs checkpoint="),
    ],
)
def test_bad_arguments(options, says):
    with pytest.raises(ValueError, match=says):
        run_recipe("digits", **SMALL, **options)
