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

from snnkit import models
from snnkit.lab import viz
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
    foreign = {".run.pt.old.123-0a1b2c3d.part", ".other.pt.123-0a1b2c3d.part", ".run.pt.copy.part"}
    for name in (".run.pt.123-0a1b2c3d.part", *foreign):
        (tmp_path / name).write_bytes(b"half")
    run(epochs=1, checkpoint=tmp_path / "run.pt")
    assert {file.name for file in tmp_path.iterdir()} == {"run.pt", "run.pt.json", *foreign}


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
    with pytest.raises(ValueError, match=r"(?s)run.pt can't be resumed from: it does not .*\[9, 64\] in the f"):
        run(checkpoint=file, resume=True)


def test_a_checkpoint_holds_nothing_that_could_run_code(tmp_path):
    with pytest.raises(TypeError, match=r"hyper_parameters.* must be .*, but it is a .*function"):
        AtomicCheckpointIO().save_checkpoint({"hyper_parameters": {"encoder": run}}, tmp_path / "x.pt")
    assert not list(tmp_path.iterdir())


def spikes(out, targets):
    return out.sum()


def test_a_resumed_run_measures_what_its_history_holds(tmp_path):
    def rates(rec):
        return rec.spikes["2"].mean()

    def go(epochs, resume=None, **options):
        history, keep = lit.HistoryCallback(), ModelCheckpoint(tmp_path, "last", enable_version_counter=False)
        started = trainer(history, keep, max_epochs=epochs, enable_checkpointing=True)
        started.fit(module(**options), lit.TensorDataModule(images(8), None, global_batch_size=4), ckpt_path=resume)
        return history.history

    file = tmp_path / "last.ckpt"
    assert go(1, metric=spikes).metric == "spikes"
    with pytest.raises(ValueError, match=r"last.ckpt can.t be resumed .* metric must be spikes, as in .* it is None"):
        go(2, file)
    with pytest.raises(ValueError, match="regulariser must be None, as in the run that wrote it, but it is given"):
        go(2, file, metric=spikes, regulariser=rates)
    assert len(go(2, file, metric=spikes).train_metric) == 2


def test_an_epoch_in_progress_goes_on_with_its_metric(tmp_path):
    def go(metric, resume=None, *callbacks):
        often = {"every_n_train_steps": 1, "enable_version_counter": False, "save_on_train_epoch_end": False}
        keep = ModelCheckpoint(tmp_path, "last", **often)
        with contextlib.suppress(Cut):
            trainer(keep, *callbacks, enable_checkpointing=True).fit(
                module(metric=metric), lit.TensorDataModule(images(12), None, global_batch_size=4), ckpt_path=resume
            )

    go(spikes, None, CutBefore(2))
    with pytest.raises(ValueError, match=r"last.ckpt can.t be resumed from: metric must be spikes, .* it is None"):
        go(None, tmp_path / "last.ckpt")


def plain_run(folder, kill=None, resume=None, accumulate=1, schedule="constant", seed=0, **bounds):
    """Three epochs of ten batches, checkpoints every three updates; the module, its figures and those of epochs."""
    bounds = bounds or {"max_epochs": 3}
    often = {"every_n_train_steps": 3, "enable_version_counter": False, "save_on_train_epoch_end": False}
    keep = ModelCheckpoint(folder, "last", **often)
    panel = viz.NotebookPanel()
    panel.on_train_end = lambda *arguments: None
    made = module(net(seed=seed), encoder="poisson", scheduler=schedule)
    callbacks = [keep, panel, *([CutBefore(kill)] if kill else [])]
    whole = lit.TensorDataModule(images(40), images(20, seed=1), global_batch_size=4)
    started = trainer(*callbacks, **bounds, accumulate_grad_batches=accumulate, enable_checkpointing=True)
    with contextlib.suppress(Cut):
        started.fit(made, whole, ckpt_path=resume)
    return weights(made), {name: float(value) for name, value in started.callback_metrics.items()}, panel.series


@pytest.mark.parametrize(
    ("accumulate", "schedule", "kills", "bounds"),
    [
        (1, "constant", (4, 12, 29), {}),
        (1, "one-cycle", (4, 10, 17), {}),
        (1, "cosine", (8, 25), {}),
        (1, "cosine", (13,), {"max_epochs": -1, "max_steps": 25}),
        (3, "one-cycle", (5, 7), {}),
    ],
)
def test_a_killed_run_ends_as_if_nothing_had_happened(tmp_path, accumulate, schedule, kills, bounds):
    same = {"accumulate": accumulate, "schedule": schedule, **bounds}
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
    made = module(net(), encoder="latency", scheduler="cosine", seed=5)
    started = trainer()
    started.fit(made, lit.TensorDataModule(images(), global_batch_size=8))
    for name, weights_only in (("whole.ckpt", False), ("weights.ckpt", True)):
        started.save_checkpoint(tmp_path / name, weights_only=weights_only)
        read = lit.SpikingModule.load_from_checkpoint(tmp_path / name, model=net(seed=3), lr=1.0)
        assert torch.equal(weights(read), weights(made))
        assert (read.encoder.func, read.encoder.keywords) == (made.encoder.func, {"steps": 4})
        assert (read.scheduler, read.seed, read.lr, read.criterion) == ("cosine", 5, 1.0, made.criterion)
    with pytest.raises(ValueError, match=r"whole.ckpt can't be loaded: it holds weights, .* the network as model="):
        lit.SpikingModule.load_from_checkpoint(tmp_path / "whole.ckpt")
    with pytest.raises(ValueError, match=r"(?s)whole.ckpt can't be loaded: .*model.1.weight: float32 \[16, 64\] in"):
        lit.SpikingModule.load_from_checkpoint(tmp_path / "whole.ckpt", model=net(64, 9, 10))
    with pytest.raises(FileNotFoundError, match="no checkpoint at"):
        lit.SpikingModule.load_from_checkpoint(tmp_path / "none.ckpt", model=net())


def test_a_run_of_another_length_is_not_resumed(tmp_path):
    plain_run(tmp_path, schedule="cosine")
    with pytest.raises(ValueError, match=r"last.ckpt .*, must be as long as .*\[3, 'epoch'\], but .* \[20, 'step'\]"):
        plain_run(tmp_path, schedule="cosine", resume=tmp_path / "last.ckpt", max_epochs=-1, max_steps=20)


def test_functions_have_to_be_given_when_a_module_is_read_back(tmp_path):
    started, made = trainer(), module(encoder=lambda x: x.repeat(3, 1, 1, 1, 1))
    started.fit(made, lit.TensorDataModule(images(), global_batch_size=8))
    started.save_checkpoint(tmp_path / "run.ckpt")
    with pytest.raises(ValueError, match="encoder was a function, which no file holds: give it as encoder="):
        lit.SpikingModule.load_from_checkpoint(tmp_path / "run.ckpt", model=net())
    read = lit.SpikingModule.load_from_checkpoint(tmp_path / "run.ckpt", model=net(), encoder=made.encoder)
    assert torch.equal(weights(read), weights(made)) and read.encoder is made.encoder


class Fixed(lit.SpikingModule):
    def __init__(self, *, lr=0.5, **more):
        super().__init__(net(), steps=4, lr=lr, **more)


@pytest.mark.parametrize("given", [{}, {"lr": 0.25, "seed": 7}])
def test_what_a_subclass_chooses_itself_is_not_given_to_it_again(tmp_path, given):
    started, made = trainer(), Fixed(**given)
    started.fit(made, lit.TensorDataModule(images(), global_batch_size=8))
    started.save_checkpoint(tmp_path / "run.ckpt")
    read = Fixed.load_from_checkpoint(tmp_path / "run.ckpt")
    assert torch.equal(weights(read), weights(made))
    assert (read.lr, read.seed) == (made.lr, made.seed) == (given.get("lr", 0.5), given.get("seed", made.seed))


def test_a_run_of_a_recipe_is_read_back_by_its_path_alone(tmp_path):
    trained = run(checkpoint=tmp_path / "run.pt", shift=1, schedule="cosine").model
    before = torch.get_rng_state()
    read = lit.SpikingModule.load_from_checkpoint(tmp_path / "run.pt")
    assert torch.equal(torch.get_rng_state(), before)
    assert equal(read.model.state_dict(), trained.state_dict())
    assert (read.recipe.hidden, read.scheduler, read.augment.pixels) == (8, "cosine", 1)


def test_double_precision_is_resumed_exactly(tmp_path):
    """Lightning makes the module double after it has put the weights into it."""

    def train(epochs, **resume):
        made = module(net(seed=epochs))
        started = trainer(max_epochs=epochs, precision="64-true")
        started.fit(made, lit.TensorDataModule(images(), global_batch_size=8), **resume)
        return made, started

    torch.manual_seed(0)
    made, started = train(1)
    started.save_checkpoint(tmp_path / "run.pt")
    again, _ = train(1, ckpt_path=tmp_path / "run.pt")
    assert weights(again).dtype == torch.float64 and torch.equal(weights(again), weights(made))


class Pair(torch.nn.Module):
    """Two layers of one shape, which are made in an order of their own."""

    def __init__(self, *order):
        super().__init__()
        for name in order:
            setattr(self, name, torch.nn.Linear(64 if name == "first" else 10, 10))

    def forward(self, x, state=None):
        return self.second(self.first(x.flatten(2)).tanh()), state


def pair_run(file, *order, epochs=2, cut=None, resume=None, groups=1, **options):
    torch.manual_seed(epochs)
    made = module(Pair(*order), optimizer=options.pop("optimizer", "adam"), **options)
    keeper = ResumableCheckpoint(SignalFlags(None), str(file), None)
    often = {"enable_checkpointing": True, "plugins": [AtomicCheckpointIO()]}
    started = trainer(keeper, lit.HistoryCallback(), max_epochs=epochs, **often)
    whole = lit.TensorDataModule(images(20), images(8, seed=1), global_batch_size=8)
    with SignalFlags(None).listening():
        started.fit(made, whole, ckpt_path=resume)
    return made


def test_a_history_under_its_earlier_name_goes_on(tmp_path):
    pair_run(tmp_path / "run.pt", "first", "second", epochs=1)
    content = torch.load(tmp_path / "run.pt")
    content["callbacks"]["Chronicle"] = content["callbacks"].pop("HistoryCallback")
    torch.save(content, tmp_path / "run.pt")
    pair_run(tmp_path / "last.pt", "first", "second", resume=tmp_path / "run.pt")
    last = torch.load(tmp_path / "last.pt")["callbacks"]["HistoryCallback"]["history"]
    first = content["callbacks"]["Chronicle"]["history"]["train_loss"]
    assert len(last["train_loss"]) == 2 and last["train_loss"][:1] == first


def test_averages_are_matched_by_name(tmp_path):
    straight = pair_run(tmp_path / "straight.pt", "first", "second")
    torch.manual_seed(2)
    pair_run(tmp_path / "run.pt", "first", "second", epochs=1)
    straight_again = pair_run(tmp_path / "other.pt", "first", "second", resume=tmp_path / "run.pt")
    resumed = pair_run(tmp_path / "last.pt", "second", "first", resume=tmp_path / "run.pt")
    for name, parameter in resumed.named_parameters():
        assert torch.equal(parameter, straight_again.get_parameter(name)), name
    assert straight.model.first.weight.shape == resumed.model.first.weight.shape


def put(name, value):
    """A function that puts a value, or what a function makes of it, at a place like "a.0.b"."""

    def change(content):
        *within, last = (int(part) if part.isdigit() else part for part in name.split("/"))
        for part in within:
            content = content[part]
        content[last] = value(content[last]) if callable(value) else value

    return change


WEIGHT, STATE = "state_dict/model.first.weight", "optimizer_states/0/state/0"
CHANGED = {
    "no loops": (put("loops", {}), "loops must have fit_loop, but it is missing"),
    "loops in part": (lambda c: c["loops"]["fit_loop"].pop("epoch_progress"), "fit_loop of loops must have epoch_prog"),
    "counters": (put("loops/fit_loop/epoch_progress/current/ready", -1), "ready of current .* must be like .* -1"),
    "no optimizer": (lambda c: c.pop("optimizer_states"), "it has no optimizer_states, as a file of weights only"),
    "two optimizers": (lambda c: c["optimizer_states"].append({}), "optimizer_states must be a list of 1"),
    "no schedule": (put("lr_schedulers", []), r"lr_schedulers must be a list of 1, but it is \[\]"),
    "no weights": (lambda c: c.pop("state_dict"), "state_dict must be a dict, but it is None"),
    "weights, nan": (put(WEIGHT, lambda w: w * float("nan")), "model.first.weight: NaN or infinity"),
    "weights, int": (put(WEIGHT, torch.Tensor.int), "model.first.weight: int32"),
    "weights, sparse": (put(WEIGHT, torch.Tensor.to_sparse), "model.first.weight: sparse_coo"),
    "averages, shape": (put(f"{STATE}/exp_avg", torch.zeros(3)), r"exp_avg of model.first.weight .* float32 \[3\]"),
    "averages, nan": (put(f"{STATE}/exp_avg_sq", lambda v: v * float("nan")), "exp_avg_sq of .* must be finite"),
    "averages, none": (put("optimizer_states/0/state", {}), "there must be averages after an update"),
    "step": (put(f"{STATE}/step", torch.tensor(-5.0)), "step of model.first.weight must be at least 0"),
    "lr": (put("optimizer_states/0/param_groups/0/lr", float("nan")), "lr of the optimizer must be .* nan"),
    "betas": (put("optimizer_states/0/param_groups/0/betas", (2, 3)), "PyTorch refuses its settings"),
    "params": (put("optimizer_states/0/param_groups/0/params", [0] * 4), "params .* must number each parameter once"),
    "schedule": (put("lr_schedulers/0/base_lrs", [float("nan")]), r"base_lrs of scheduler\[0\] must be like"),
    "length": (
        put("snnkit_schedule", [3, "epoch"]),
        r"must be as long as that which wrote it, \[3, 'ep",
    ),
    "totals": (put("snnkit_figures", torch.zeros(3)), "snnkit_figures must be a tensor of 5 numbers"),
    "history": (
        put("callbacks/HistoryCallback", {"history": 3}),
        "history must be a dict of names and lists, but it is 3",
    ),
    "callbacks": (put("callbacks", 3), "callbacks must be a dict, but it is 3"),
    "data": (put("loops/fit_loop/state_dict/combined_loader/0/seed", 3), "seed must be 3, as in the run to resume"),
    "position": (put("loops/fit_loop/state_dict/combined_loader/0/batches", 99), "batches of state must be at most 3"),
    "step count": (put("global_step", "x"), "global_step must be an integer, but it is 'x'"),
    "version": (put("pytorch-lightning_version", 3), "must be a checkpoint of Lightning's Trainer, but it is none"),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The bytes of a checkpoint."""
    file = tmp_path_factory.mktemp("run") / "run.pt"
    pair_run(file, "first", "second", scheduler="cosine")
    return file.read_bytes()


@pytest.mark.parametrize("change", CHANGED)
def test_a_file_with_other_values_is_not_resumed_and_changes_nothing(tmp_path, written, change, monkeypatch):
    file, (alter, words) = tmp_path / "run.pt", CHANGED[change]
    file.write_bytes(written)
    content = torch.load(file)
    alter(content)
    torch.save(content, file)
    modules = []
    initial = lit.SpikingModule.setup
    monkeypatch.setattr(
        lit.SpikingModule, "setup", lambda self, stage: modules.append((self, weights(self))) or initial(self, stage)
    )
    with pytest.raises(ValueError, match=rf"(?s)run\.pt .*{words}"):
        pair_run(tmp_path / "new.pt", "first", "second", scheduler="cosine", resume=file)
    assert all(torch.equal(weights(made), before) for made, before in modules)


def test_a_stop_at_the_end_of_an_epoch_is_heard_where_updates_bound_the_run(tmp_path):
    """Also in epochs of one batch, whose end is the only place to stop."""
    flags = SignalFlags(None)

    def train(epochs, steps):
        keeper = ResumableCheckpoint(flags, str(tmp_path / "run.pt"), None)
        often = {"enable_checkpointing": True, "plugins": [AtomicCheckpointIO()]}
        started = trainer(keeper, max_epochs=epochs, max_steps=steps, **often)
        flags.received = 3
        try:
            started.fit(module(), lit.TensorDataModule(images(8), global_batch_size=8))
        finally:
            assert started.global_step == 1

    with pytest.raises(lit.Stopped):
        train(-1, 4)
    for bounds in ((-1, 1), (1, -1), (4, 1)):  # it is over anyway
        train(*bounds)


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
