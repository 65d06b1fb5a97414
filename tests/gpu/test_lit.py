"""Lightning's path on a GPU: data on the device, no waiting in a step, number formats, losses that are not finite."""

import pytest
import torch
import torch.distributed as dist

pytest.importorskip("lightning")

from lightning.pytorch import Callback

from snnkit.train import lit
from snnkit.train.distributed import free_port
from tests.unit.lit_runs import images, module, trainer, weights

pytestmark = pytest.mark.filterwarnings("ignore")


def on(device, *callbacks, **options):
    return trainer(*callbacks, accelerator="gpu" if device.type == "cuda" else "cpu", devices=1, **options)


class Strict(Callback):
    """Forbids PyTorch to wait for the device, from the third batch on."""

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if batch_idx == 2:
            torch.cuda.set_sync_debug_mode("error")

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if batch_idx == trainer.num_training_batches - 2:
            torch.cuda.set_sync_debug_mode("default")


def test_a_step_does_not_wait_for_the_device(cuda):
    try:
        whole = lit.TensorDataModule(images(100), global_batch_size=10)
        on(cuda, Strict(), log_every_n_steps=1000).fit(module(), whole)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_data_and_metrics_are_on_the_device(device):
    seen = []

    class Look(Callback):
        def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
            seen.append(batch.samples.device.type)

    whole = lit.TensorDataModule(images(), images(20, seed=1), global_batch_size=8)
    run = on(device, Look(), lit.HistoryCallback())
    made = module(lr=1e-4)  # Adam turns rounding of gradients near 0 into whole steps
    run.fit(made, whole)
    assert set(seen) == {device.type}
    assert run.callback_metrics["val/acc"] >= 0
    on_cpu = module(lr=1e-4)
    trainer().fit(on_cpu, lit.TensorDataModule(images(), global_batch_size=8))
    torch.testing.assert_close(weights(made).cpu(), weights(on_cpu), rtol=1e-2, atol=1e-3)


def test_ranks_on_devices_of_their_own_are_wrapped_and_train(device, monkeypatch):
    """One rank alone, as torchrun starts it: what DistributedDataParallel does with devices shows without a second."""
    place = {"RANK": 0, "LOCAL_RANK": 0, "WORLD_SIZE": 1, "LOCAL_WORLD_SIZE": 1, "GROUP_RANK": 0}
    place |= {"TORCHELASTIC_RUN_ID": "one", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    for name, value in place.items():
        monkeypatch.setenv(name, str(value))
    made = module()
    before = weights(made).cpu()
    try:
        run = on(device, strategy=lit.ResumableDDP(made.model, 60.0))
        run.fit(made, lit.TensorDataModule(images(), global_batch_size=8))
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
    assert run.global_step and not torch.equal(before, weights(made).cpu())


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "16-mixed"])
@pytest.mark.parametrize("clip", [None, 1.0])
def test_number_formats_and_fused_optimizers(device, precision, clip):
    if device.type == "cpu" and precision == "16-mixed":
        pytest.skip("Lightning has it for GPUs only")
    run = on(device, precision=precision, gradient_clip_val=clip)
    made = module()
    before = weights(made)
    run.fit(made, lit.TensorDataModule(images(), global_batch_size=8))
    assert not torch.equal(weights(made).cpu(), before) and run.callback_metrics["train/loss"].isfinite()
    assert bool(run.optimizers[0].defaults.get("fused")) == (not ("mixed" in precision and clip))
