"""Through Lightning, too, a run that was cut off goes on at the next batch, and ends as one that was not."""

import itertools

import pytest
import torch

pytest.importorskip("lightning")

from lightning.pytorch import Callback, Trainer

from snnkit import models
from snnkit.train import lit, recipes
from snnkit.train.lit import AtomicCheckpointIO, ResumableCheckpoint, SignalFlags, run_recipe

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
            assert getattr(resumed.history, name) == pytest.approx(getattr(whole.history, name), rel=1e-12), (
                every,
                cut,
            )


def test_batches_of_a_resumed_epoch_are_those_left(tmp_path):
    class Seen(Callback):
        def __init__(self):
            self.batches = []

        def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
            self.batches.append((trainer.current_epoch, batch_idx, batch.labels.tolist()))

    whole, before, after = Seen(), Seen(), Seen()
    run(callbacks=[whole])
    file = tmp_path / "run.pt"
    with pytest.raises(Cut):
        run(callbacks=[CutBefore(3), before], checkpoint=file, every=2)
    run(callbacks=[after], checkpoint=file, resume=True)
    assert before.batches == whole.batches[:3] and after.batches == whole.batches[2:]


def test_validation_within_an_epoch_changes_nothing(tmp_path):
    """With a Trainer of one's own, that validates every two batches and accumulates."""

    def train(file, resume=False, cut=None, accumulate=2):
        def schedule(optimizer):
            # Asked for while optimizers are made, it makes Lightning forget where the loaders were.
            assert module.trainer.estimated_stepping_batches > 3
            return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 3)

        torch.manual_seed(0)
        module = lit.SpikingModule(models.mlp((64, 8, 10)), steps=3, scheduler=schedule, loss="count_cross_entropy")
        keeper = ResumableCheckpoint(SignalFlags(None), file, 1)
        trainer = Trainer(
            accelerator="cpu", devices=1, max_epochs=3, val_check_interval=2, accumulate_grad_batches=accumulate,
            callbacks=[*([CutBefore(cut)] if cut else []), keeper], plugins=[AtomicCheckpointIO()], logger=False,
            enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0, default_root_dir=tmp_path,
        )  # fmt: skip
        with SignalFlags(None).listening():
            trainer.fit(module, lit.DigitsDataModule(samples=150, batch_size=32), ckpt_path=file if resume else None)
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


@pytest.mark.parametrize("where", [0.1, 0.5, 0.9])
def test_a_damaged_checkpoint_is_refused(tmp_path, where):
    file = tmp_path / "run.pt"
    run(epochs=1, checkpoint=file)
    content = bytearray(file.read_bytes())
    content[int(len(content) * where)] ^= 1
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"run.pt can't be read as a checkpoint: it is damaged"):
        run(epochs=1, checkpoint=file, resume=True)


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
    with pytest.raises(TypeError, match="storage_options must be None"):
        AtomicCheckpointIO().save_checkpoint({}, tmp_path / "x.pt", storage_options={})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"graphed": True}, "graphed must not be True here"),
        ({"timeout": 0}, "timeout must be greater than 0"),
        ({"devices": 2}, "devices is 2, but there are 1 processes per node"),
        ({"every": 0}, "every must be at least 1"),
        ({"requeue_signal": "KILL"}, "requeue_signal must name a signal that can be handled"),
        ({"resume": True}, "resume=True needs checkpoint="),
        ({"samples": 9999}, "samples must be at most 1442"),
    ],
)
def test_bad_arguments(options, says):
    with pytest.raises(ValueError, match=says):
        run(**options)
