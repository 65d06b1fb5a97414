"""Norse's workshop through Lightning: encoder, conv net, maximum over time; then int8, a program, and curves."""

from functools import partial

import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import TensorBoardLogger

from snnkit import data, device, encode, export, models, quantize
from snnkit.train import lit

from .lit_runs import trainer

pytestmark = pytest.mark.filterwarnings("ignore")


def current(x):
    return encode.constant_current_lif(16 * x, 12)


@pytest.mark.slow
def test_the_workshop(tmp_path):
    torch.manual_seed(0)
    net = models.ConvNet(size=8, widths=(12, 30, 64))
    device.optimize_memory_usage(net)
    module = lit.SpikingModule(net, encoder=current, loss="membrane_max_cross_entropy", lr=3e-3)
    keep = ModelCheckpoint(tmp_path / "best", monitor="val/acc", mode="max")
    speed = lit.HistoryCallback()
    run = trainer(
        keep, speed, max_epochs=3, precision="bf16-mixed", accumulate_grad_batches=2, gradient_clip_val=1.0,
        logger=TensorBoardLogger(tmp_path), log_every_n_steps=5, enable_checkpointing=True,
    )  # fmt: skip
    digits = lit.DigitsDataModule(global_batch_size=8, samples=800)
    run.fit(module, digits)
    accuracy = float(run.callback_metrics["val/acc"])
    assert accuracy > 0.25  # chance is a tenth

    assert len(speed.history.samples_per_second) == 3
    scalars = _scalars(tmp_path)
    assert {"train/loss", "train/loss_step", "val/acc", "rate/1", "dead/8"} <= set(scalars)
    assert len(scalars["val/acc"]) == 3 and scalars["val/acc"][-1] == pytest.approx(accuracy)
    assert len(scalars["train/loss_step"]) == 3 * 50 // 5
    best = lit.SpikingModule.load_from_checkpoint(
        keep.best_model_path, model=models.ConvNet(size=8, widths=(12, 30, 64))
    )
    assert not torch.equal(best.model[0].weight, models.ConvNet(size=8, widths=(12, 30, 64))[0].weight)

    images, labels = data.load("digits", "test")
    sequence = current(data.to_unit(images[:64]))
    small, report = quantize.quantize(module.model)
    assert report.bytes_after < report.bytes_before
    compared = quantize.compare(module.model, small, (images, labels), encode=current)
    assert compared.accuracy_after > accuracy - 0.05
    program = export.export(small, sequence)
    torch.export.save(program, tmp_path / "net.pt2")
    read = torch.export.load(tmp_path / "net.pt2")
    with torch.no_grad():
        out, _ = read.module()(sequence, export.resting_state(read, 64))
        torch.testing.assert_close(out, small(sequence)[0], rtol=1e-3, atol=1e-3)


def test_the_repeated_image_is_still_seen_once():
    """Lightning's path keeps what makes static input fast: the first layer works once, not T times."""
    calls = []
    net = models.mlp((64, 16, 10), engine="eager")
    net[1].register_forward_hook(lambda layer, args, out: calls.append(tuple(args[0].shape)))
    module = lit.SpikingModule(net, encoder=partial(encode.repeat, steps=9), loss="count_cross_entropy")
    digits = lit.DigitsDataModule(global_batch_size=32, samples=64)
    trainer(limit_val_batches=0).fit(module, digits)
    assert set(calls) == {(32, 64)}


def _scalars(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (file,) = folder.glob("lightning_logs/*/events*")
    events = EventAccumulator(str(file)).Reload()
    return {tag: [event.value for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
