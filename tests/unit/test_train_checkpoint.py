"""Checkpoints: complete, atomic, exact to resume from, and harmless to open."""

import os
import pickle
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import torch
from torch import nn

from snnkit import train
from snnkit.train import checkpoint as module

from .test_train_step import loss

SAMPLES = torch.randn(60, 5, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(60) % 3


class Net(nn.Module):
    def __init__(self, hidden=7):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, hidden), nn.BatchNorm1d(hidden), nn.Dropout(0.3), nn.Linear(hidden, 3))

    def forward(self, x, state=None):
        return self.net(x.flatten(0, 1)).unflatten(0, x.shape[:2]), state


def noisy(x):
    return x + torch.randn(2, *x.shape)  # draws from the global generator: resuming has to restore it


def new(seed=0, hidden=7, optimizer=torch.optim.Adam, **kwargs):
    torch.manual_seed(seed)
    model = Net(hidden)
    return model, optimizer(model.parameters(), lr=0.01, **kwargs)


def fit(model, optimizer, loss=loss, **kwargs):
    return train.fit(
        model, (SAMPLES, LABELS), encode=noisy, loss=loss, optimizer=optimizer, batch_size=16, device="cpu",
        progress=False, **kwargs,
    )  # fmt: skip


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


def test_round_trip(tmp_path):
    model, optimizer = new()
    history = fit(model, optimizer, epochs=2)
    extra = {"note": ("a", 1, None), 5: 6}
    where = tmp_path / "new" / "folder" / "run.pt"
    path = train.save_checkpoint(where, model, optimizer, epoch=2, history=history, extra=extra)
    other, its_optimizer = new(1)
    content = train.load_checkpoint(path, other, its_optimizer)
    assert same(model, other)
    assert torch.equal(optimizer.state_dict()["state"][0]["exp_avg"], its_optimizer.state_dict()["state"][0]["exp_avg"])
    assert content["epoch"] == 2 and content["extra"] == extra
    assert train.History.from_dict(content["history"]) == history


def test_a_schedule_goes_on(tmp_path):
    def made():
        model, optimizer = new(optimizer=torch.optim.SGD)
        return model, optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)

    model, optimizer, scheduler = made()
    for _ in range(3):
        optimizer.step()
        scheduler.step()
    path = train.save_checkpoint(tmp_path / "run.pt", model, optimizer, scheduler, epoch=3)
    other, its_optimizer, its_scheduler = made()
    content = train.load_checkpoint(path, other, its_optimizer, scheduler=its_scheduler)
    assert content["scheduler_class"] == "CosineAnnealingLR" and its_scheduler.last_epoch == 3
    for _ in range(3):
        optimizer.step()
        scheduler.step()
        its_optimizer.step()
        its_scheduler.step()
    assert (
        optimizer.param_groups[0]["lr"] == its_optimizer.param_groups[0]["lr"] == pytest.approx(0.01 * 0.3455, rel=0.01)
    )
    another = torch.optim.lr_scheduler.StepLR(its_optimizer, 1)
    before = everything(other, its_optimizer, another)
    bare = train.save_checkpoint(tmp_path / "bare.pt", model)
    for file, words in (
        (path, "the class must be 'CosineAnnealingLR', but it is 'StepLR'"),
        (bare, "without scheduler="),
    ):
        with pytest.raises(ValueError, match=words):
            train.load_checkpoint(file, other, scheduler=another)
    assert before == everything(other, its_optimizer, another)


# -- resuming --------------------------------------------------------------------------------------------------------

SETUPS = {"adam": {}, "sgd with momentum": {"optimizer": torch.optim.SGD, "momentum": 0.9}}


@pytest.mark.parametrize("setup", SETUPS.values(), ids=SETUPS)
@pytest.mark.parametrize("with_scheduler", [False, True], ids=["", "scheduler"])
def test_two_and_two_epochs_equal_four(tmp_path, setup, with_scheduler):
    def run(epochs, seed=0, **kwargs):
        model, optimizer = new(seed, **setup)
        scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [1, 3], 0.1) if with_scheduler else None
        history = fit(model, optimizer, epochs=epochs, seed=11, scheduler=scheduler, **kwargs)
        return model, history

    straight, history = run(4)
    run(2, checkpoint=tmp_path / "run.pt")
    torch.manual_seed(99)
    resumed, resumed_history = run(4, seed=5, checkpoint=tmp_path / "run.pt", resume=True)
    assert same(straight, resumed)
    assert resumed_history.train_loss == history.train_loss and resumed_history.epochs == 4


class Scaled(nn.Module):
    """A loss that learns a number of its own."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, out, targets):
        return nn.functional.cross_entropy(self.scale * out.sum(0), targets)


def test_a_loss_that_learns_is_resumed_with_the_model(tmp_path):
    def run(epochs, **kwargs):
        model, learned = new()[0], Scaled()
        optimizer = torch.optim.Adam([*model.parameters(), *learned.parameters()], lr=0.1)
        fit(model, optimizer, epochs=epochs, seed=11, loss=learned, **kwargs)
        return learned.scale.item()

    straight = run(4)
    half = run(2, checkpoint=tmp_path / "run.pt")
    assert run(4, checkpoint=tmp_path / "run.pt", resume=True) == straight != half != 1
    with pytest.raises(ValueError, match="not in the model: parameter 0 of the optimizer that is not the model's"):
        fit(*new(), checkpoint=tmp_path / "run.pt", resume=True)


def test_resume_refuses_what_fit_did_not_write(tmp_path):
    model, optimizer = new()
    train.save_checkpoint(tmp_path / "weights.pt", model, optimizer)
    with pytest.raises(ValueError, match=r"weights\.pt must hold all .* no cuda_rng, .*: it was not written by fit"):
        fit(model, optimizer, checkpoint=tmp_path / "weights.pt", resume=True)
    fit(model, optimizer, checkpoint=tmp_path / "run.pt")
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    with pytest.raises(ValueError, match=r"run\.pt can't be .*: scheduler must be None, as in .* it is StepLR"):
        fit(model, optimizer, scheduler=scheduler, checkpoint=tmp_path / "run.pt", resume=True)
    # Their lists in the history would have gaps.
    with pytest.raises(ValueError, match=r"run\.pt can't be .*: metric must be None, as in .* it is rate"):
        fit(model, optimizer, metric=rate, checkpoint=tmp_path / "run.pt", resume=True)
    fit(model, optimizer, metric=rate, checkpoint=tmp_path / "rate.pt")
    with pytest.raises(ValueError, match=r"metric must be rate, as in .* it is None"):
        fit(model, optimizer, checkpoint=tmp_path / "rate.pt", resume=True)
    assert fit(model, optimizer, metric=rate, epochs=2, checkpoint=tmp_path / "rate.pt", resume=True).epochs == 2


def rate(out, targets):
    return out.mean()


class Pair(nn.Module):
    """Two layers of one shape, which are made in an order of their own, and run in another."""

    def __init__(self, *order, size=3):
        super().__init__()
        for name in order:
            setattr(self, name, nn.Linear(5 if name == "first" else 3, size if name == "first" else 3))

    def forward(self, x, state=None):
        return self.second(self.first(x)), state


def strip_names(content):
    for group in content["optimizer"]["param_groups"]:
        del group["param_names"]


ADAM = {"fused": True}


@pytest.mark.parametrize("groups", [1, 2])
def test_averages_are_matched_by_name(tmp_path, groups):
    """Of two layers that are made in another order, fused Adam would otherwise read past the end of the smaller."""

    def run(epochs, *order, **kwargs):
        torch.manual_seed(len(kwargs))
        model = Pair(*order)
        halves = [model.first, model.second] if groups == 2 else [model]
        optimizer = torch.optim.Adam([{"params": half.parameters()} for half in halves], lr=0.01, **ADAM)
        fit(model, optimizer, epochs=epochs, seed=1, **kwargs)
        return model

    straight = run(3, "first", "second", checkpoint=tmp_path / "straight.pt")
    run(2, "first", "second", checkpoint=tmp_path / "run.pt")
    resumed = run(3, "second", "first", checkpoint=tmp_path / "run.pt", resume=True)
    assert all(torch.equal(p, straight.get_parameter(name)) for name, p in resumed.named_parameters())


def test_an_older_file_is_matched_by_position_if_all_shapes_agree(tmp_path):
    file = tmp_path / "run.pt"
    straight = fit_pair(3, "first", "second")
    fit_pair(2, "first", "second", checkpoint=file)
    content = torch.load(file)
    strip_names(content)
    torch.save(content, file)
    assert same(fit_pair(3, "first", "second", checkpoint=file, resume=True), straight)
    torch.save(content, file)
    with pytest.raises(
        ValueError, match=r"run\.pt .* exp_avg of second.weight must be float32 \[3, 3\], as .* \[3, 5\]"
    ):
        fit_pair(3, "second", "first", checkpoint=file, resume=True)


def test_how_an_optimizer_computes_belongs_to_the_machine(tmp_path):
    """Not to the run: fused kernels refuse ``differentiable``, which the file may have from another."""
    file = tmp_path / "run.pt"
    straight = fit_pair(3, "first", "second")
    fit_pair(2, "first", "second", checkpoint=file)
    content = torch.load(file)
    for group in content["optimizer"]["param_groups"]:
        group.update(fused=False, foreach=True, capturable=True, differentiable=True)
    torch.save(content, file)
    assert same(fit_pair(3, "first", "second", checkpoint=file, resume=True), straight)


def fit_pair(epochs, *order, **kwargs):
    torch.manual_seed(0)
    model = Pair(*order)
    fit(model, torch.optim.Adam(model.parameters(), lr=0.01, **ADAM), epochs=epochs, seed=1, **kwargs)
    return model


# -- atomic ----------------------------------------------------------------------------------------------------------


def test_a_full_disk_is_told_with_the_name_of_the_file(tmp_path):
    code = f"""
import resource, signal, torch
from snnkit import train
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
for size in (10, 2000):  # PyTorch reports them in two ways
    try:
        train.save_checkpoint({str(tmp_path / "run.pt")!r}, torch.nn.Linear(size, 800))
    except OSError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"[Errno 27] File too large: '{tmp_path / 'run.pt'}'"] * 2
    assert not list(tmp_path.iterdir())


def deep():
    value = []
    for _ in range(5000):
        value = [value]
    return value


def with_note():
    value = torch.zeros(1)
    value.note = print
    return value


@pytest.mark.parametrize(
    "extra, words",
    [
        ({"f": print}, r"extra\['f'\] must be made of .* but it is a builtins.builtin_function_or_method"),
        ({"a": {"b": np.zeros(3)}}, r"extra\['a'\]\['b'\] must be .* but it is a numpy.ndarray"),
        ({object: 1}, "extra key must be made of"),
        ({"n": 2**3000}, r"extra\['n'\] must be an int of at most 2000 bits"),
        ({"deep": deep()}, "extra must not be nested so deeply"),
        ({"t": with_note()}, r"extra\['t'\].note must be made of .* but it is a builtins.builtin_function"),
        ("abc", "extra must be a dict or None, but it is 'abc'"),
        *(({"epoch": epoch}, "epoch must be .* but it is") for epoch in (-3, 2.7, 1e308, True)),
        *(({"history": history}, "history must be a History or a dict or None, but it is") for history in (np.inf, [])),
    ],
)
def test_only_what_can_be_loaded_is_saved(tmp_path, extra, words):
    entries = extra if set(extra) <= {"epoch", "history"} else {"extra": extra}
    with pytest.raises((TypeError, ValueError), match=words):
        train.save_checkpoint(tmp_path / "run.pt", new()[0], **entries)
    assert list(tmp_path.iterdir()) == []


# -- files that are not what they should be --------------------------------------------------------------------------


class Bomb:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize("write", [torch.save, lambda thing, path: path.write_bytes(pickle.dumps(thing))])
def test_a_pickle_bomb_does_not_go_off(tmp_path, write):
    path, marker = tmp_path / "bomb.pt", tmp_path / "it-ran"
    write({"format": module.FORMAT, "model": Bomb(marker)}, path)
    with pytest.raises(ValueError, match=r"bomb\.pt can't be read as a checkpoint"):
        train.load_checkpoint(path)
    assert not marker.exists()
    # The test itself can fail: read the careless way, this file does run code.
    if write is torch.save:
        torch.load(path, weights_only=False)
        assert marker.exists()


def test_wherever_it_is_cut_the_file_is_named(tmp_path):
    path = train.save_checkpoint(tmp_path / "run.pt", *new())
    raw = path.read_bytes()
    for size in (*range(0, len(raw), 199), len(raw) - 1):
        path.write_bytes(raw[:size])
        with pytest.raises(ValueError, match=r"run\.pt can't be read as a checkpoint"):
            train.load_checkpoint(path)


def test_one_bit_of_a_weight_is_noticed(tmp_path):
    model, _ = new()
    path = train.save_checkpoint(tmp_path / "run.pt", model)
    raw = bytearray(path.read_bytes())
    weight = model.net[0].weight.detach().numpy().tobytes()
    assert raw.count(weight) == 1
    raw[raw.index(weight) + 5] ^= 1
    path.write_bytes(raw)
    with pytest.raises(ValueError, match=r"run\.pt can't be read as a checkpoint.*does not have its checksum"):
        train.load_checkpoint(path)


@pytest.mark.parametrize(
    "name, value, words",
    [
        ("model", [1], r"model must be a dict, but it is \[1\]"),
        ("model", {"net.0.weight": 3}, r"net\.0\.weight: no tensor \(int\) in the file, "),
        ("extra", None, "extra must be a dict, but it is None"),
        ("epoch", "two", "epoch must be an integer, but it is 'two'"),
        ("epoch", -1, "epoch must be at least 0, but it is -1"),
        ("optimizer", {"state": None, "param_groups": []}, "holds no state of one"),
    ],
)
def test_entries_of_another_kind_are_named_and_change_nothing(tmp_path, name, value, words):
    path = train.save_checkpoint(tmp_path / "run.pt", *new())
    torch.save(torch.load(path) | {name: value}, path)
    model, optimizer = new(1)
    before = [p.clone() for p in model.parameters()]
    with pytest.raises(ValueError, match=rf"(?s)run\.pt .*{words}"):
        train.load_checkpoint(path, model, optimizer)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


# The name of an entry, or of one within another; its new value; the error.
TAMPERED = [
    ("epoch", 10**12, r"epoch must be the length of the lists of history, \[1\], but it is 10000"),
    ("history", None, "history must be a dict of names and lists, but it is None"),
    ("history.x", [], "an entry of history must be one of .*, but it is 'x'"),
    ("history.seconds", ["a"], "seconds of history must be a list of numbers, but 'a' is in it"),
    ("history.seconds", 3, "seconds of history must be a list of numbers, but it is 3"),
    ("history.seconds", [], r"lists of history, \[0, 1\], but it is 1"),
    ("extra.rng", torch.zeros(3), r"rng must be the state of a random generator, but it is a Tensor of shape \[3\]"),
    ("extra.order", "x", "order must be the state of a random generator, but it is 'x'"),
    ("extra.generators", 3, "generators must be a list, but it is 3"),
    ("extra.generators", [1], "number of random generators .* must be 1, as in the run .*, but it is 0"),
    ("extra.cuda_rng", 3, "cuda_rng must be a list, but it is 3"),
    ("extra.others", [1], r"others must be a dict, but it is \[1\]"),
    ("extra.others", {"x": torch.ones(1)}, "it does not fit the model:\n  not in the model: x"),
    ("extra.scaler", [1], r"scaler must be a dict, but it is \[1\]"),
    ("extra.scheduler", {"last_epoch": "x"}, "scheduler must have step_size, but it is missing"),
    ("extra.scheduler_class", "Step" * 99, "scheduler must be StepStep.*…, as in the run .* but it is StepLR"),
]


@pytest.mark.parametrize(("name", "value", "words"), TAMPERED)
def test_a_tampered_run_is_not_resumed_and_changes_nothing(tmp_path, name, value, words):
    path = tmp_path / "run.pt"

    def run(seed, **kwargs):
        model, optimizer = new(seed)
        before = [p.clone() for p in model.parameters()]
        try:
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
            fit(model, optimizer, scheduler=scheduler, checkpoint=path, **kwargs)
        finally:
            assert all(map(torch.equal, before, model.parameters())) == kwargs.get("resume", False)

    run(0)
    content = torch.load(path)
    *within, last = name.split(".")
    (content[within[0]] if within else content)[last] = value
    torch.save(content, path)
    with pytest.raises(ValueError, match=rf"run\.pt can't be resumed from: .*{words}"):
        run(1, epochs=2, resume=True)


@pytest.mark.parametrize(
    ("scale", "words"), [(-1.0, "greater than 0, but it is -1.0"), ("x", "a number, but it is 'x'")]
)
def test_a_tampered_scale_of_the_loss(tmp_path, scale, words):
    run = module.RunState(*new(), None, torch.amp.GradScaler("cpu"), torch.Generator())
    run.save(tmp_path / "run.pt", train.History())
    assert run.restore(run.read(tmp_path / "run.pt")) == train.History()
    content = torch.load(tmp_path / "run.pt")
    content["extra"]["scaler"]["scale"] = scale
    torch.save(content, tmp_path / "run.pt")
    with pytest.raises(ValueError, match=f"scale of scaler must be {words}"):
        run.read(tmp_path / "run.pt")


def weights(change):
    return lambda content: content["model"].update({"net.0.weight": change(content["model"]["net.0.weight"])})


def averages(change, key="exp_avg"):
    def put(content):
        entry = content["optimizer"]["state"][0]
        entry[key] = change(entry[key])

    return put


def settings(**values):
    return lambda content: content["optimizer"]["param_groups"][0].update(values)


def schedule(**values):
    return lambda content: content["extra"]["scheduler"].update(values)


def filled(value):
    return lambda tensor: torch.full_like(tensor, value)


KINDS = {
    "sparse_coo float32": torch.Tensor.to_sparse,
    "without values": lambda tensor: tensor.to("meta"),
    "qint8": lambda tensor: torch.quantize_per_tensor(tensor, 0.1, 0, torch.qint8),
    "nested float32": lambda tensor: torch.nested.nested_tensor([tensor[0], tensor[1]]),
    "complex64": lambda tensor: tensor.to(torch.complex64),
    "int64": torch.Tensor.long,
    "float64": torch.Tensor.double,
    r"float32 \[7, 4\]": lambda tensor: tensor[:, 1:].clone(),
    r"no tensor \(str\)": lambda tensor: "x",
}
# What was done to the file, and the error.
CHANGED = {
    **{f"weights, {kind}": (weights(to), rf"net.0.weight: .*{kind}.* in the file") for kind, to in KINDS.items()},
    **{f"averages, {kind}": (averages(to), rf"exp_avg of net.0.weight .*{kind}") for kind, to in KINDS.items()},
    "weights, nan": (weights(filled(np.nan)), "net.0.weight: NaN or infinity in the file"),
    "averages, nan": (averages(filled(np.nan)), "exp_avg of net.0.weight must be finite"),
    "averages, negative": (averages(filled(-1.0), "exp_avg_sq"), "exp_avg_sq of net.0.weight must be at least 0"),
    "step, -5": (averages(filled(-5.0), "step"), "step of net.0.weight must be at least 0, but it holds -5"),
    "step, nan": (averages(filled(np.nan), "step"), "step of net.0.weight must be finite"),
    "step, text": (averages(lambda step: "x", "step"), r"step of net.0.weight .*no tensor \(str\)"),
    "step, [2]": (averages(lambda step: step.repeat(2), "step"), r"step of net.0.weight .*float32 \[2\]"),
    "step, meta": (averages(lambda step: step.to("meta"), "step"), "step of net.0.weight .*without values"),
    "a key": (lambda content: content["optimizer"]["state"][0].pop("exp_avg"), "exp_avg of net.0.weight .* missing"),
    "one emptied": (lambda content: content["optimizer"]["state"][0].clear(), "step of net.0.weight .* it is missing"),
    "all emptied": (lambda content: content["optimizer"]["state"].clear(), "there must be averages after an update"),
    "entry": (lambda content: content["optimizer"]["state"].update({0: 3}), "state of net.0.weight .* but it is 3"),
    "number": (lambda content: content["optimizer"]["state"].update({99: {}}), "params .* number each parameter once"),
    "groups": (lambda content: content["optimizer"].pop("param_groups"), "it holds no state of one"),
    "lr, nan": (settings(lr=np.nan), "lr of the optimizer must be like .*, but it is nan"),
    "lr, inf": (settings(lr=np.inf), "lr of the optimizer must be like .*, but it is inf"),
    "lr, -1": (settings(lr=-1.0), "PyTorch refuses its settings .*learning rate: -1.0"),
    "lr, text": (settings(lr="x"), "lr of the optimizer must be like .*, but it is 'x'"),
    "lr, none": (lambda content: content["optimizer"]["param_groups"][0].pop("lr"), "must have lr, but it is missing"),
    "betas, (2, 3)": (settings(betas=(2, 3)), "PyTorch refuses its settings .*beta parameter at index 0: 2"),
    "betas, one": (settings(betas=(0.9,)), r"betas of the optimizer must be like \(0.9, 0.999\), but it is \(0.9,\)"),
    "amsgrad": (settings(amsgrad=3), "amsgrad of the optimizer must be like False, but it is 3"),
    "params": (
        settings(params=[0] * 6),
        "params of the optimizer must number each parameter once, but they are .*0, 0",
    ),
    "params, texts": (settings(params=list("abcdef")), "params of the optimizer must number each parameter once"),
    "names": (settings(param_names=["x"] * 6), r"group 0 must hold \['x', .* but it holds \['net.0.weight'"),
    "schedule, nan": (schedule(gamma=np.nan), "gamma of scheduler must be like 0.1, but it is nan"),
    "schedule, text": (schedule(last_epoch="x"), "last_epoch of scheduler must be like 0, but it is 'x'"),
    "schedule, -5": (schedule(last_epoch=-5), "last_epoch of scheduler must be like 0, but it is -5"),
    "schedule, rates": (schedule(base_lrs=[0.1, 0.1]), "base_lrs of scheduler must be like .*, but it is .0.1, 0.1"),
    "schedule, key": (lambda content: content["extra"]["scheduler"].pop("gamma"), "scheduler must have gamma"),
    "generator": (lambda content: content["extra"].update(rng=torch.zeros(9).to("meta")), "rng must be the state of a"),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The bytes of a checkpoint."""
    path = tmp_path_factory.mktemp("run") / "run.pt"
    model, optimizer = new(**ADAM)
    fit(model, optimizer, scheduler=torch.optim.lr_scheduler.StepLR(optimizer, 1), checkpoint=path)
    return path.read_bytes()


def everything(*things):
    """All that resuming would change, to the bit."""
    return [torch.get_rng_state().tolist(), *(repr(thing.state_dict()) for thing in things)]


@pytest.mark.filterwarnings("ignore")  # of PyTorch, about quantised and nested tensors
@pytest.mark.parametrize("change", CHANGED)
def test_a_file_with_other_values_is_not_resumed_and_changes_nothing(tmp_path, written, change):
    path, (alter, words) = tmp_path / "run.pt", CHANGED[change]
    path.write_bytes(written)
    content = torch.load(path)
    alter(content)
    torch.save(content, path)
    model, optimizer = new(1, **ADAM)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    before = everything(model, optimizer, scheduler)
    with pytest.raises(ValueError, match=rf"(?s)run\.pt can't be resumed from: .*{words}"):
        fit(model, optimizer, scheduler=scheduler, epochs=2, seed=3, checkpoint=path, resume=True)
    assert everything(model, optimizer, scheduler) == before


def test_attributes_of_a_schedule_are_not_replaced(tmp_path):
    path = tmp_path / "run.pt"

    def run(epochs, **kwargs):
        model, optimizer = new()
        parts = [torch.optim.lr_scheduler.StepLR(optimizer, 1) for _ in range(2)]
        fit(
            model, optimizer, epochs=epochs, seed=0, **kwargs,
            scheduler=torch.optim.lr_scheduler.SequentialLR(optimizer, parts, [1]),
        )  # fmt: skip
        return model

    run(1, checkpoint=path)
    content = torch.load(path)
    for state in (content["extra"]["scheduler"], content["extra"]["scheduler"]["_schedulers"][1]):
        state.update(step=3, optimizer="x")
    torch.save(content, path)
    assert same(run(3, checkpoint=path, resume=True), run(3))


def test_an_error_of_the_model_itself_leaves_everything_as_it_was(tmp_path, written):
    class Picky(Net):
        def load_state_dict(self, state, *arguments, **options):
            super().load_state_dict(state, *arguments, **options)
            if torch.equal(state["net.0.weight"], saved):
                raise RuntimeError("not these")

    (tmp_path / "run.pt").write_bytes(written)
    saved = torch.load(tmp_path / "run.pt")["model"]["net.0.weight"]
    model = Picky()
    optimizer = torch.optim.Adam(model.parameters(), **ADAM)
    before = everything(model, optimizer)
    with pytest.raises(ValueError, match=r"run\.pt can't be loaded: RuntimeError: not these"):
        train.load_checkpoint(tmp_path / "run.pt", model, optimizer)
    assert everything(model, optimizer) == before


OPTIMIZERS = [
    kind
    for kind in vars(torch.optim).values()
    if isinstance(kind, type) and kind not in (torch.optim.Optimizer, torch.optim.LBFGS, torch.optim.SparseAdam)
]


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_what_each_optimizer_keeps_is_known(tmp_path, kind):
    def fresh():
        torch.manual_seed(0)
        model = nn.Linear(3, 2, bias=False)
        return model, kind(model.parameters(), **({"momentum": 0.9} if kind is torch.optim.SGD else {}))

    model, optimizer = fresh()
    for _ in range(2):
        model(torch.ones(1, 3)).sum().backward()
        optimizer.step()
    path = train.save_checkpoint(tmp_path / "run.pt", model, optimizer)
    others = fresh()
    train.load_checkpoint(path, *others)
    assert everything(*others) == everything(model, optimizer)
    content = torch.load(path)
    largest = max(content["optimizer"]["state"][0].items(), key=lambda item: item[1].numel())[0]
    del content["optimizer"]["state"][0][largest]
    torch.save(content, path)
    with pytest.raises(ValueError, match=f"{largest} of weight must be .* but it is missing"):
        train.load_checkpoint(path, *others)


def packed(path):
    with zipfile.ZipFile(path) as archive:
        parts = {entry.filename: archive.read(entry) for entry in archive.infolist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, bytes(1 << 26) if name.endswith("data/0") else content)


def laughs(path):
    value = [0] * 9
    for _ in range(12):
        value = [value] * 9
    torch.save({"format": module.FORMAT, "extra": value}, path)


BOMBS = {
    "packed": (packed, "the size of its parts must be at most"),
    "lists of one list": (laughs, "the size of the lists in it must be at most"),
    "one number for ever": (lambda path: torch.save(torch.zeros(1).expand(2**44), path), "the size of a tensor in it"),
}


@pytest.mark.parametrize(("change", "words"), BOMBS.values(), ids=BOMBS)
def test_a_file_that_announces_more_than_it_has_is_refused(tmp_path, change, words):
    path = train.save_checkpoint(tmp_path / "run.pt", *new())
    change(path)
    with pytest.raises(ValueError, match=rf"run\.pt can't be read as a checkpoint.*{words}"):
        train.load_checkpoint(path)


@pytest.mark.parametrize("place", ["html", "cuda:77", 3.5, None])
def test_a_place_that_is_none_is_not_called_a_damaged_file(tmp_path, place):
    path = train.save_checkpoint(tmp_path / "run.pt", *new())
    with pytest.raises((TypeError, ValueError), match="map_location"):
        train.load_checkpoint(path, map_location=place)


def test_foreign_files_are_named(tmp_path):
    path = tmp_path / "weights.pt"
    for content in (new()[0].state_dict(), torch.zeros(3), {"format": "other"}):
        torch.save(content, path)
        with pytest.raises(ValueError, match=r"weights\.pt must be a checkpoint written by save_checkpoint"):
            train.load_checkpoint(path)
    torch.save({"format": module.FORMAT, "epoch": 1}, path)
    with pytest.raises(ValueError, match="not a complete checkpoint: model must be a dict, but it is None"):
        train.load_checkpoint(path)


def test_a_checkpoint_that_does_not_fit_changes_nothing(tmp_path):
    path = train.save_checkpoint(tmp_path / "run.pt", *new())
    for other in (Net(hidden=8), nn.Linear(5, 3)):
        before = [p.clone() for p in other.parameters()]
        with pytest.raises(ValueError, match=r"run\.pt can't be loaded: it does not fit the model") as caught:
            train.load_checkpoint(path, other)
        assert all(torch.equal(a, b) for a, b in zip(before, other.parameters(), strict=True))
    assert "missing in the file: weight" in str(caught.value) and "not in the model: net.0.weight" in str(caught.value)
    with pytest.raises(ValueError, match=r"net\.0\.weight: float32 \[7, 5\] in the file, float32 \[8, 5\]"):
        train.load_checkpoint(path, Net(hidden=8))

    model, _ = new(1)
    before = [p.clone() for p in model.parameters()]
    with pytest.raises(ValueError, match="does not fit the optimizer"):
        train.load_checkpoint(path, model, torch.optim.Adam([model.net[0].weight]))
    bare = train.save_checkpoint(tmp_path / "bare.pt", new()[0])
    with pytest.raises(ValueError, match="holds no optimizer state"):
        train.load_checkpoint(bare, model, torch.optim.Adam(model.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_another_optimizer_changes_nothing(tmp_path):
    path = tmp_path / "run.pt"
    fit(*new(optimizer=torch.optim.SGD), checkpoint=path)
    model, adam = new(1)
    before, groups = [p.clone() for p in model.parameters()], str(adam.state_dict())
    with pytest.raises(
        ValueError, match=r"run\.pt .* not fit the optimizer: the class must be 'SGD', but it is 'Adam'"
    ):
        fit(model, adam, epochs=2, checkpoint=path, resume=True)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert str(adam.state_dict()) == groups
    fit(model, adam)  # it still works


@pytest.mark.parametrize(
    "path, error, words",
    [
        ("", ValueError, "is a folder"),
        ("file/run.pt", ValueError, "is not a folder"),
        ("x" * 999, ValueError, "can't be written"),
        ("pipe", ValueError, "only a regular file can be replaced"),
        (3, TypeError, "must be a path"),
    ],
)
def test_a_path_that_can_not_be_written_is_told_before_anything_happens(tmp_path, path, error, words):
    (tmp_path / "file").write_text("")
    os.mkfifo(tmp_path / "pipe")
    path = tmp_path / path if isinstance(path, str) else path
    model, optimizer = new()
    before = [p.clone() for p in model.parameters()]
    with pytest.raises(error, match=f"checkpoint .*{words}"):
        fit(model, optimizer, checkpoint=path)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    with pytest.raises(error, match=f"path .*{words}"):
        train.save_checkpoint(path, model)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["file", "pipe"]
    assert (tmp_path / "pipe").is_fifo()


def test_a_folder_without_permission_is_named_before_anything_happens(tmp_path, monkeypatch):
    monkeypatch.setattr(module.os, "access", lambda path, mode: False)  # root may write anywhere
    with pytest.raises(ValueError, match=r"checkpoint can't be written at .* is not a folder that you may write into"):
        fit(*new(), checkpoint=tmp_path / "new" / "run.pt")
    with pytest.raises(ValueError, match="checkpoint can't be written"):
        fit(*new(), checkpoint="~no-such-user/run.pt")
    assert not list(tmp_path.iterdir())
