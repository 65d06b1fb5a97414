# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown] tags=["badge"]
# [![Open In Colab](drawings/open_in_colab.svg)](https://colab.research.google.com/github/snnkit/snnkit/blob/main/notebooks/15_scaling_out.ipynb)

# %% [markdown] tags=["slide"]
# # 15 · Scaling out with Lightning
#
# At some point one GPU, or one night, is not enough. In this notebook a spiking network leaves your kernel. Two processes
# train it, and you kill them. At the end you have a script for a cluster, and know how many of its GPUs are worth
# requesting.
#
# **Afterwards you can**
#
# - write a LightningModule for a spiking network, and get devices, logs and checkpoints as arguments;
# - show that two processes compute the same gradient as one, and start them from a notebook;
# - kill a run of several processes and resume it to the same weights, to the last bit;
# - correct an sbatch script, line by line;
# - predict how fast a run will be on 2, 8 or 1000 GPUs, and check the prediction where you can.
#
# | | |
# |---|---|
# | Time | 80 minutes, and 10 more for the optional parts |
# | GPU minutes | 0. Everything runs on a CPU with two processes; GPUs are used where there are any |
# | Before this | 04 training, 13 memory (accumulating gradients). You have seen a convolution |
# | Needs | `lightning` and `torchmetrics`; where they are missing: `pip install "snnkit[scale] @ git+https://github.com/snnkit/snnkit"` |

# %% tags=["bootstrap"] cellView="form"
# @title Setup: run this cell first
import importlib.util
import os
import sys

_snnkit = "snnkit @ git+https://github.com/snnkit/snnkit@main"

if importlib.util.find_spec("snnkit") is None:
    if "COLAB_RELEASE_TAG" in os.environ or "google.colab" in sys.modules:
        # Colab ships all that snnkit needs but lightning, lightning-utilities, torchmetrics; --no-deps leaves every package there as it is.
        _wanted = f"'{_snnkit}'"
        _wanted += " lightning"
        _wanted += " lightning-utilities"
        _wanted += " torchmetrics"
        get_ipython().run_line_magic("pip", f"install -q --no-deps {_wanted}")  # noqa: F821
        importlib.invalidate_caches()
    else:
        raise ModuleNotFoundError(
            "The kernel of this notebook has no snnkit. Start Jupyter by `snnkit lab` (in a clone: `make lab`), "
            f'or install it here: %pip install "{_snnkit}"'
        )

import snnkit

print("snnkit", snnkit.__version__)

# %% tags=["parameters"]
QUICK: bool = True  # False: more updates, MNIST if it is on this machine, and the scaling benchmark is run here
SOLVE: bool = False  # True: the exercises are filled in with their solutions
SEED: int = 0  # seed of the weights and of the order of the images
DEVICE: str = "auto"  # "auto", "cpu" or "cuda"
RANKS: int = 2  # processes that train together

# %%
import sys
import tempfile
from pathlib import Path

import torch
from lightning.pytorch import LightningModule, Trainer, callbacks, loggers

from snnkit import data, device, encode, loss, measure, models, neuron, nn, records, train
from snnkit.lab import bench, course, hardware, viz
from snnkit.lab.course import attempt, hint, outcome, predict, quiz, scorecard, solution
from snnkit.train import lit, slurm

train.seed_everything(SEED)
course.start("scaling_out", solve=SOLVE)
figures, scaling = viz.figures, hardware.scaling
where = data.resolve_device(DEVICE)
cores = measure.cores()
many_gpus = where.type == "cuda" and torch.cuda.device_count() >= RANKS
rank_device = "gpu" if many_gpus else "cpu"  # NCCL needs a GPU for each rank
torch.set_num_threads(1)  # the same as in the ranks
workplace = tempfile.TemporaryDirectory(prefix="scaling_out_")  # removed when the kernel ends
folder = Path(workplace.name)

DATASET = "mnist" if not QUICK and data.available("mnist") else "digits"
SIZE, STEPS = (28, 32) if DATASET == "mnist" else (8, 32)
WIDTHS = (20, 50, 500) if DATASET == "mnist" else (12, 30, 128)
BATCH = 128 if DATASET == "mnist" and where.type == "cuda" else 32  # of all ranks together
EPOCHS = 1 if DATASET == "mnist" and where.type == "cpu" else 4
LR = 2e-3 if DATASET == "mnist" else 5e-3
DATA = lit.MNISTDataModule if DATASET == "mnist" else lit.DigitsDataModule
SOME = {"samples": 4000} if DATASET == "mnist" and where.type == "cpu" else {}  # of 60 000, or it takes an hour
print(f"this kernel trains on {where}; {RANKS} ranks will train on {rank_device} ({cores} cores); data: {DATASET}")

RING = 4


def ring(step):
    """How many ranks' gradients are in each piece at each rank, after so many steps."""
    counts = torch.ones(RING, RING, dtype=torch.int64)
    for k in range(1, step + 1):
        before = counts.clone()
        for rank in range(RING):
            piece = (rank - k) % RING  # that the left neighbour sends
            counts[rank, piece] = before[rank - 1, piece] + (before[rank, piece] if k < RING else 0)
    phase = "before" if step == 0 else "adding up" if step < RING else "handing on the sums"
    pieces, names = ([f"{what} {i}" for i in range(RING)] for what in ("piece", "rank"))
    look = {"zmin": 0, "zmax": RING, "xgap": 3, "ygap": 3, "colorscale": viz.theme.INK}
    figure = figures.panels(1, 1).add_heatmap(z=counts, x=pieces, y=names, colorbar_title_text="ranks added", **look)
    title = f"Step {step}, {phase}: {int((counts == RING).sum())} of {RING * RING} are complete"
    return figure.update_layout(title={"text": title}, height=300).update_yaxes(autorange="reversed")


def updates_of(outputs):
    """The numbers of the updates that rank 0 has printed."""
    return [int(line.split()[1]) for line in outputs[0] if line.startswith("update")]


def update_seconds(one):
    """Median over updates, without the first ones."""
    ends = [spans[-1][2] for spans in one["spans"]][4:]
    return torch.tensor(ends, dtype=torch.float64).diff().median().item()


# %% [markdown]
# ![Three ranks, each with the same weights and its own samples. Each computes gradients of its own. An all-reduce replaces them by their mean, so that every rank makes the same update.](drawings/ranks_and_gradients.svg)

# %% [markdown]
# ## 1 · What is shared, and what is not
#
# In *data parallel* training every process, a *rank*, has the whole network and a part of the batch. Each computes the
# gradient of its part. Then they add their gradients up, so that all have the sum. This is an *all-reduce*. The ranks
# below stand in a ring, and their gradients are cut into four pieces. At each step a rank sends one piece to the next.
# Move the slider from 0 to 6.

# %% tags=["slide"]
viz.show(viz.frames(ring, "step", range(2 * RING - 1), start=2))

# %% [markdown]
# No update sends weights: they begin equal and take equal steps. The state of a *spiking* network also stays on its rank,
# as a membrane belongs to a sample.
#
# But the mean must be the mean over all samples. DDP (*DistributedDataParallel*, PyTorch's engine for this [2]) divides
# the sum of the gradients by the number of ranks:
#
# $$g = \frac{1}{R} \sum_{r=1}^{R} g_r, \qquad \text{but we need} \quad g = \frac{1}{M} \sum_{i=1}^{M} \nabla L_i. \tag{1}$$
#
# for $R$ ranks and $M$ samples. Both are equal if all ranks have the same number of samples, which is rarely true for the
# last batch of an epoch.
#
# **Predict first.** There are 5 samples and 4 ranks. One rank has two samples, and the others one each: which weight does
# its mean loss need?

# %%
predict("scaling_out.a")

# %% [markdown]
# ### Exercise 15.1 · Share a batch (6 minutes, ●○○)
#
# `batch` is a list of samples. Return this rank's part of it, and the `weight` for the *mean* loss of this part, so
# that DDP's mean is the mean over all samples. It must also work if the number of samples is not divisible by the
# number of ranks, and if there are fewer samples than ranks. Stuck? `hint("scaling_out.1")`.


# %% tags=["exercise"]
def share(batch, rank, ranks):
    """This rank's part of a batch (a list), and the factor for the mean loss of that part."""
    mine = ...
    weight = ...
    return mine, weight


share = attempt("scaling_out.1", share)

# %% [markdown]
# This kernel now acts as four ranks, one after the other, with 30 digits.

# %%
images, labels = (part[:30] for part in data.load("digits"))


def code(images, gain=4.0):
    """Each pixel drives a neuron of the encoder with a constant current; returns spikes [T, B, ...]."""
    return encode.constant_current_lif(gain * images, STEPS)


def gradient_of(samples, net):
    """The gradient of the mean loss of these samples, as one vector."""
    out, _ = net(code(data.to_unit(images[samples])))
    mean = loss.membrane_max_cross_entropy(out, labels[samples])
    return torch.cat([g.flatten() for g in torch.autograd.grad(mean, net.parameters())])


net = models.ConvNet(size=8, widths=(12, 30, 128))
whole, parts = gradient_of(list(range(30)), net), [share(list(range(30)), rank, 4) for rank in range(4)]
weighted = sum(weight * gradient_of(mine, net) for mine, weight in parts) / 4
unweighted = sum(gradient_of(mine, net) for mine, _ in parts) / 4
off = [((gradient - whole).norm() / whole.norm()).item() for gradient in (weighted, unweighted)]
print(f"the gradient is off by {off[0]:.0e} of its length with your weights, by {off[1]:.0e} if all weights are 1")
outcome("scaling_out.a", max(weight for _, weight in (share(list(range(5)), rank, 4) for rank in range(4))))

# %% [markdown] tags=["slide"]
# <details>
# <summary><b>What to notice</b></summary>
#
# With weights it is the gradient of the whole batch, up to rounding. Without them it is off by a few per cent, without any
# warning. snnkit's loader distributes batches as you did.
#
# </details>
#
# ## 2 · A LightningModule, piece by piece
#
# Lightning [3] provides the training loop: devices, precision, ranks, logs, checkpoints. It needs a class that answers
# three questions. What is the output (`forward`)? What is the loss of a batch (`training_step`)? Which optimizer
# updates which weights (`configure_optimizers`)?
#
# The network follows Norse's workshop for supercomputers [1]. Each pixel is a constant current into an encoding neuron,
# for 32 steps. Then come two convolutions and two linear layers. The ten output neurons never spike. The loss is the
# cross-entropy of the **maximum over time** of each membrane:
#
# $$z_k = \max_{t \le T} v_k[t], \qquad L = -\ln \frac{e^{z_y}}{\sum_j e^{z_j}} \tag{2}$$
#
# **Predict first.** How many of the 32 steps of an output neuron get a gradient directly from the loss? And how can the
# other steps influence learning at all?

# %%
predict("scaling_out.b")


# %%
class Workshop(LightningModule):
    """The complete module, in a few lines."""

    def __init__(self):
        super().__init__()
        self.net = models.ConvNet(size=SIZE, widths=WIDTHS)

    def forward(self, images):
        out, _ = self.net(code(data.to_unit(images)))  # membranes [T, B, 10]; without a state, all start at rest
        return out

    def training_step(self, batch, index):
        images, labels, weight = batch
        return weight * loss.membrane_max_cross_entropy(self(images), labels)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=LR)


# %% [markdown]
# There is no `.to(device)`, no loop, no `backward` and no word about ranks. `lit.SpikingModule` is this class for any
# network, encoder, loss and optimizer.
#
# Everything else is an **argument of the Trainer**:
#
# | you want | you write |
# |---|---|
# | 4 GPUs on each of 2 nodes | `devices=4, num_nodes=2, strategy="ddp"` |
# | mixed precision (notebook 13) | `precision="bf16-mixed"` or `"16-mixed"` |
# | large batches in small parts (13) | `accumulate_grad_batches=4` |
# | the best network so far, on disk | `callbacks=[ModelCheckpoint(monitor="val/acc", mode="max")]` |

# %%
train.seed_everything(SEED)
net = models.ConvNet(size=SIZE, widths=WIDTHS)
module = lit.SpikingModule(net, encoder=code, loss="membrane_max_cross_entropy", lr=LR)
narrow = device.Precision.choose(where, where.type == "cuda").dtype  # bfloat16 where the GPU has it
precision = {None: "32-true", torch.bfloat16: "bf16-mixed", torch.float16: "16-mixed"}[narrow]
best, panel = callbacks.ModelCheckpoint(folder / "best", monitor="val/acc", mode="max"), viz.NotebookPanel()
logger = loggers.CSVLogger(folder, name="curves")  # or TensorBoardLogger
settings = {"max_epochs": EPOCHS, "precision": precision, "logger": logger, "callbacks": [panel, best]}
quiet = {"enable_model_summary": False, "enable_progress_bar": False, "num_sanity_val_steps": 0}
accelerator = "gpu" if where.type == "cuda" else "cpu"
with lit.quiet():
    trainer = Trainer(accelerator=accelerator, devices=1, **settings, **quiet)
    trainer.fit(module, DATA(global_batch_size=BATCH, **SOME))
print(f"test accuracy {trainer.callback_metrics['val/acc']:.1%}; best checkpoint: {Path(best.best_model_path).name}")

# %% tags=["slide"]
module.to("cpu").eval()
seen, answers = (part[:1] for part in data.load(DATASET, "test"))
out = module(seen)  # [T, 1, 10]
(from_loss,) = torch.autograd.grad(loss.membrane_max_cross_entropy(out, answers), out)
membranes, right = out.detach()[:, 0], int(answers[0])  # [T, 10]
order = [right, *(k for k in membranes.amax(0).argsort(descending=True).tolist() if k != right)][:4]
curves = {f"{k}" + (" (right)" if k == right else ""): membranes[:, k] for k in order}
peak = {f"maximum of {right}": int(membranes[:, right].argmax())}
axes = {"x_title": "time step", "y_title": "membrane potential"}
title = f"The neuron of the right digit, {right}, {'rises' if int(membranes.amax(0).argmax()) == right else 'does not rise'} highest"
viz.show(figures.lines(curves, x=range(STEPS), title=title, shape="hv", marks=peak, **axes))
reached = int((from_loss[:, 0, right] != 0).sum())
outcome("scaling_out.b", "one" if reached == 1 else f"all {STEPS}" if reached == STEPS else "about half")

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# Only the step of the maximum gets a gradient from the loss, and here it is one of the last. But the membrane at this step
# is a leaky sum of all earlier inputs. Through it the gradient flows back in time.
#
# </details>
#
# ## 3 · Two processes
#
# Can you now write `Trainer(devices=2, strategy="ddp")` in this cell? In a script, yes. In a notebook, **never**:
#
# - To start rank 1, Lightning's `ddp` runs *the same program again*. The program of a notebook is Jupyter's kernel,
#   which does not know which cells you have run.
# - The strategy for notebooks, `ddp_notebook`, *forks* the kernel, and CUDA does not work after a fork. It fails as soon as
#   one cell has used the GPU, even if only to read its name.
#
# The clean way is to write a script to disk and to launch new processes. Each reads its role from environment variables:
# `RANK` (its number), `WORLD_SIZE` (the number of processes), `MASTER_ADDR` and `MASTER_PORT` (where they meet).
# `torchrun` sets them, SLURM has other names for them, and `train.launch` sets them here.
#
# The script repeats section 2. `lit.RankRecorder` notes what each rank does, and when. The important line is marked.

# %%
SCRIPT = """import os
import sys

import torch
import torch.distributed as dist
from lightning.pytorch import Trainer

from snnkit import encode, models, train
from snnkit.train import lit


def run(config, batch, ranks=1):
    def code(images):
        return encode.constant_current_lif(4 * images, config["steps"])

    train.seed_everything(config["seed"])  # the same weights on every rank
    net = models.ConvNet(size=config["size"], widths=config["widths"])
    module = lit.SpikingModule(net, encoder=code, loss="membrane_max_cross_entropy", lr=config["lr"])
    recorder = lit.RankRecorder()
    strategy = "ddp" if ranks > 1 else "auto"  # <- the only change
    with lit.quiet():
        trainer = Trainer(devices=ranks, strategy=strategy, callbacks=[recorder], **config["trainer"])
        trainer.fit(module, getattr(lit, config["data"])(global_batch_size=batch, seed=config["seed"]))
    return recorder.seen()


if __name__ == "__main__":
    folder, rank, ranks = sys.argv[1], os.environ["RANK"], int(os.environ["WORLD_SIZE"])
    config = torch.load(f"{folder}/config.pt")
    torch.save(run(config, config["batch"], ranks), f"{folder}/rank{rank}.pt")
    if ranks > 1:
        dist.destroy_process_group()  # end the communication threads before Python exits
"""
_ = (folder / "one_rank.py").write_text(SCRIPT)

# %%
config = {"data": DATA.__name__, "size": SIZE, "steps": STEPS, "widths": WIDTHS, "batch": BATCH, "seed": SEED, "lr": LR}
updates = 24 if QUICK or rank_device == "cpu" else 60
silent = dict.fromkeys(("logger", "enable_checkpointing", "enable_model_summary", "enable_progress_bar"), False)
config["trainer"] = {"accelerator": rank_device, "num_nodes": 1, "max_steps": updates, "limit_val_batches": 0, **silent}
torch.save(config, folder / "config.pt")
together = train.launch([sys.executable, "-W", "ignore", folder / "one_rank.py", folder], RANKS, timeout=600)
ranks = [torch.load(folder / f"rank{rank}.pt", weights_only=True) for rank in range(RANKS)]
print(f"{RANKS} ranks, {together.seconds:.1f} s, including {RANKS} starts of Python and PyTorch")
for rank, one in enumerate(ranks):
    labels = one["labels"][0].tolist()
    print(f"first update, rank {rank}: {len(labels)} digits, {labels[:8]} …, loss {one['losses'][0]:.3f}")

# %% [markdown] tags=["slide"]
# These are two programs with different samples and different losses. Do they train the same network?
#
# **Predict first.** One process trains with the same samples per update. Will the two ranks have the same weights after
# all updates? And will the single process have the weights of the ranks?

# %%
predict("scaling_out.c")
predict("scaling_out.d")

# %% tags=["slide"]
sys.path.insert(0, str(folder))
import one_rank

alone = one_rank.run(config, BATCH)  # the same file, by this kernel, as one rank
g, g0 = alone["gradient"], ranks[0]["gradient"]
print(f"(a) first gradient, one process against {RANKS} ranks: off by {((g - g0).norm() / g.norm()).item():.0e}")
weights = [torch.stack(one["weights"]) for one in (alone, *ranks)]  # [updates, weights] of each process
equal = all(torch.equal(rank, weights[1]) for rank in weights[1:])
apart = (weights[0] - weights[1]).norm(dim=1) / weights[0].norm(dim=1)
print(f"(b) weights of the ranks equal, to the last bit: {equal}")
print(f"(c) one process against {RANKS} ranks: off by {apart[0]:.0e} after 1 update, {apart[-1]:.0e} at the end")
look = {"x_title": "update", "y_title": "distance, relative to the weights", "log": "y"}
title = f"By rounding alone, 1 and {RANKS} ranks drift apart: {apart[0]:.0e} to {apart[-1]:.0e}"
viz.show(figures.lines({"weights": apart.clamp(min=1e-12)}, title=title, **look))
outcome("scaling_out.c", "yes, to the last bit" if equal else "no, each learns from other samples")
far = apart[-1].item()
answer = "to the last bit" if far == 0 else "up to rounding, about 1e-7" if far < 1e-5 else "no, they drift apart"
outcome("scaling_out.d", answer)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - (a) The first gradient is that of the two ranks, up to rounding. Data parallel training computes the right gradient.
# - (b) Yes, to the bit. This is necessary: if one rank rounded differently, the weights would drift apart, and nothing
#   would detect it.
# - (c) *For a while.* Adding the same numbers in another order rounds differently. Sooner or later a membrane within
#   rounding error of its threshold fires in one run and not in the other. So the number of ranks is part of the recipe:
#   runs repeat **exactly** on the same number, and *statistically* on another.
#
# </details>
#
# ### Where the time goes (optional, 3 minutes)
#
# This *trace* shows the fastest of their updates, by the clock of each rank.


# %%
spans = ranks[0]["spans"]
number = min(range(5, len(spans)), key=lambda k: spans[k][-1][2] - spans[k][0][1])
zero = min(one["spans"][number][0][1] for one in ranks)
lanes = {}
for rank, one in enumerate(ranks):
    for lane, on_network in ((f"rank {rank}", False), (f"network {rank}", True)):
        lanes[lane] = [
            (what, (start - zero) * 1e3, (end - zero) * 1e3)
            for what, start, end in one["spans"][number]
            if (what == "all-reduce") == on_network
        ]
viz.show(figures.spans(lanes, title="An all-reduce begins while backward still runs"))

# %% [markdown] tags=["slide"]
# <details>
# <summary><b>What to notice</b></summary>
#
# - An all-reduce begins while backward still runs, and backward does not end before the all-reduce is finished: the last
#   part of backward is waiting. (DDP sends gradients in *buckets*, as soon as one is full.)
# - Both ranks leave an all-reduce together, but they do not enter it together. The first one waits. An update takes as
#   long as its slowest rank needs. Of a thousand ranks, one is always slow.
#
# </details>
#
# ## 4 · Kill and resume
#
# A run of a week must be able to die at *any* moment and lose only minutes. This needs three things:
#
# 1. **All** of the state is saved, else a resumed run is a different run. Notebook 17 takes this apart.
# 2. A checkpoint exists **completely or not at all**.
# 3. When one rank dies, the others end as well, instead of waiting for its gradients for ever.
#
# Which samples come next is a part of the state. The cheapest way to save it is to save nothing: the order of an epoch
# follows from the seed and the number of the epoch alone.
#
# ### Exercise 15.2 · Which samples come next (5 minutes, ●●○)
#
# A run resumes at `update`, counted from 0. `order(epoch)` is the list of all samples in the order of this epoch. Return
# the samples of this rank for this update, a list. The last batch of an epoch may be smaller. Stuck?
# `hint("scaling_out.2")`.


# %% tags=["exercise"]
def next_samples(update, order, batch, rank, ranks):
    """The samples of this rank for an update, from the numbers alone."""
    updates = -(-len(order(0)) // batch)  # in an epoch, rounded up
    return ...


next_samples = attempt("scaling_out.2", next_samples)

# %% [markdown] tags=["slide"]
# ### What broke?
#
# Ivo saves with `torch.save(state, "run.pt")`, always to the same name. The job was killed while it saved.

# %% tags=["slide-code"]
file = folder / "plain.pt"
torch.save({"weights": weights[1]}, file)
file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])  # killed in the middle of torch.save
for name, load in {"torch.load": torch.load, "snnkit": train.load_checkpoint}.items():
    try:
        load(file)
    except Exception as error:
        said = str(error).split(". ")[0].split(" (")[0].replace(str(folder), "…")
        print(f"{name}: {type(error).__name__}: " + said.replace(": ", ":\n    "))

# %% [markdown]
# `torch.save` destroys the old checkpoint before the new one is complete. The run is lost *because* it was saved. The
# fix: write to another name, force it to disk, then `os.replace`, a single (atomic) step for the file system. snnkit does
# this, and verifies a checksum of every tensor when it reads.
#
# ### The drill
#
# Now with real processes, the workshop's recipe, and a checkpoint every 10 updates. First comes an uninterrupted run. Then
# the same processes begin once more, and rank 1 kills itself in the middle, with signal 9 (`kill -9`), which no process can
# catch. (In a shell: `snnkit train workshop --devices 2 --checkpoint run.pt --every 10 --resume`.)

# %%
DRILL = """import os
import signal
import sys

import torch
import torch.distributed as dist
from lightning.pytorch import Callback

from snnkit.train import lit

settings, last, checkpoints = torch.load(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
how = {"every": 10, "resume": True, "progress": False} | settings


class Kill(Callback):
    def on_train_batch_end(self, trainer, *_):
        print("update", trainer.global_step, flush=True)
        if trainer.global_step == last and trainer.global_rank == 1 and checkpoint.endswith("killed.pt"):
            os.kill(os.getpid(), signal.SIGKILL)


for checkpoint in checkpoints:
    lit.run_recipe("workshop", checkpoint=checkpoint, callbacks=[Kill()], **how)
if dist.is_initialized():
    dist.destroy_process_group()
"""
(folder / "drill.py").write_text(DRILL)
settings = {"dataset": DATASET, "channels": WIDTHS[0], "hidden": WIDTHS[2], "gain": 4.0, "steps": STEPS, "lr": LR}
settings |= {"batch_size": BATCH, "epochs": 1, "seed": SEED, "samples": 1442 if DATASET == "digits" else 40 * BATCH}
torch.save(settings | {"device": "cuda" if many_gpus else "cpu"}, folder / "settings.pt")


def drill(*names, last=0):
    """Launch a run for each name of a checkpoint, one after the other; in "killed" rank 1 dies after the update `last`."""
    words = [folder / "drill.py", folder / "settings.pt", str(last), *(folder / f"{name}.pt" for name in names)]
    return train.launch([sys.executable, "-W", "ignore", *words], RANKS, timeout=600)


for old in folder.glob("*.pt.json"):  # in case this cell runs a second time
    old.unlink()
    old.with_suffix("").unlink(missing_ok=True)
try:
    drill("unbroken", "killed", last=27)
except train.LaunchError as error:
    done = updates_of(error.outputs)
    print(f"killed: rank {error.rank} was ended by signal {-(error.code or 0)}; rank 0 had come to update {done[-1]}")

# %% [markdown] tags=["slide"]
# Rank 0 waited in an all-reduce for gradients that would never come, and ended, too. On GPUs the ranks talk
# through *NCCL*, NVIDIA's library. Without a launcher it may notice nothing until a time-out, by default ten
# minutes in PyTorch and thirty in Lightning, during which all GPUs of the job wait.
#
# **Predict first.** A checkpoint was due every 10 updates, and the kill came at 27. At which update will the run
# continue? How much work is lost, and how does that depend on `every`?

# %%
predict("scaling_out.e")

# %%
resumed = drill("killed")
done = updates_of(resumed.outputs)
print(f"resumed: updates {done[0]} to {done[-1]}; unfinished files: {len([*folder.glob('*.part')])}")
ends = [torch.load(folder / f"{name}.pt", weights_only=True)["state_dict"] for name in ("unbroken", "killed")]
same = [torch.equal(ends[0][name], ends[1][name]) for name in ends[0]]
print(f"equal to the unbroken run, to the last bit: {sum(same)} of {len(same)} tensors of weights")
outcome("scaling_out.e", done[0])

# %% [markdown] tags=["slide"]
# <details>
# <summary><b>What to notice</b></summary>
#
# The order of the samples is that of your exercise. Random encoders and dropout are seeded from (seed, epoch, batch,
# rank) before each batch. State that need not be saved cannot be forgotten.
#
# </details>
#
# ## 5 · A job queue
#
# On a cluster you do not start processes yourself. You describe what you need in a *batch script*, and SLURM [4] starts
# them when it is your turn. **sbatch** submits the script, and **srun** in it starts one process per GPU on all nodes.
# Change a field, and read its effect:

# %%
viz.sbatch_form(
    "snnkit train workshop --checkpoint run.pt --every 200",
    nodes=2,
    gpus_per_node=4,
    time="02:00:00",
    signal_seconds=120,
    partition="booster",
    account="snn",
)

# %% [markdown]
# 1. Request 4 nodes. Which lines change, and which *need not*, because they are computed from others?
# 2. Set the time limit to 2 minutes. What does the form say? Switch `requeue` off: what else disappears?
#
# 120 s before the time limit SLURM sends `SIGUSR1`. Each rank **finishes the current update** and informs the others. All
# stop after the same update and save once, rank 0 runs `scontrol requeue`, and all end. When it is the job's turn again,
# the same command loads the checkpoint and continues: your drill, but automatically.
#
# ### Exercise 15.3 · Three mistakes (6 minutes, ●●○)
#
# This script was submitted on Friday evening: two hours on 2 nodes with 4 GPUs each, to be requeued. On Monday nothing
# had been learned. SLURM had accepted every line of it. Correct three mistakes.

# %% tags=["exercise"]
script = r"""#!/bin/bash
#SBATCH --job-name=snnkit
#SBATCH --account=snn
#SBATCH --partition=booster
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=4
#SBATCH --time=02:00
#SBATCH --signal=SIGUSR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.out

set -e
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_PORT=29500
export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK

srun --kill-on-bad-exit=1 --cpus-per-task="$SLURM_CPUS_PER_TASK" \
  snnkit train workshop --checkpoint run.pt --every 200 --resume
"""

script = attempt("scaling_out.3", script)

# %%
print(f"mistakes in the script that is used from here on: {len(slurm.check(script))}")
print("To submit it, copy the script to a login node of the cluster: sbatch script.sh")

# %% [markdown] tags=["slide"]
# ## 6 · How far does it scale?
#
# Back to the ring of section 1, with $R$ ranks and pieces. After $R - 1$ steps each rank has the complete sum of one piece.
# After $R - 1$ more, all ranks have all sums [5].
#
# ![Four GPUs in a ring, each with four pieces of a gradient. At first each has its own; all send a piece to the next one at the same time. After three steps each GPU has the complete sum of one piece; after six, every GPU has every sum.](drawings/ring_all_reduce.svg)
#
# **Predict first.** A large gradient, so that latency does not count. From 10 to 100 ranks: how many times longer does
# the ring take? Which part of the time grows if the gradient is small?

# %%
predict("scaling_out.f")

# %% [markdown]
# ### Exercise 15.4 · The price of adding up (5 minutes, ●○○)
#
# A message takes a latency (in seconds), plus its size (in bytes) divided by the bandwidth (in bytes per second).
# `size` is that of the whole gradient. How long does the ring take? Stuck? `hint("scaling_out.4")`.


# %% tags=["exercise"]
def ring_seconds(ranks, size, latency, bandwidth):
    """Seconds in which a ring of `ranks` adds up `size` bytes of each of them, so that all have the sum."""
    return ...


ring_seconds = attempt("scaling_out.4", ring_seconds)

# %%
gradient_bytes = 4 * alone["gradient"].numel()
FULL = sum(weight.numel() for weight in models.ConvNet().parameters())  # images of 28 × 28
links = {"NVLink 3": "nvlink3", "InfiniBand HDR200": "infiniband-hdr200", "10 Gbit Ethernet": "ethernet-10g"}
counts = [2**k for k in range(1, 11)]
curves = {}
for name, key in links.items():
    link = scaling.LINKS[key]
    curves[name] = [1e3 * ring_seconds(n, 4 * FULL, link.latency, link.bandwidth) for n in counts]
title = "Few ranks wait for the bandwidth, many for the latency"
viz.show(figures.lines(curves, x=counts, x_title="ranks", y_title="time (ms)", log="xy", title=title))
outcome("scaling_out.f", ring_seconds(100, 1e9, 0.0, 1e9) / ring_seconds(10, 1e9, 0.0, 1e9))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# With few ranks the bandwidth dominates, and more ranks at most double that part: each rank sends $2 (R - 1) / R$ times the
# gradient, which is less than twice. With many ranks, the latency of $2 (R - 1)$ steps dominates.
#
# </details>
#
# ### Predict, then measure
#
# There are two ways to use more ranks. **Weak** scaling: the batch per rank is constant, and the total batch grows with
# the ranks (Gustafson [6]). **Strong** scaling: the total batch is constant, and each rank gets less (Amdahl [7]).
# Efficiency is the measured speed divided by the ideal speed; in weak scaling
#
# $$E(R) = \frac{t(1)}{t(R)}, \qquad t(R) = \text{computation} + \text{waiting for gradients}, \tag{3}$$
#
# with the seconds $t(R)$ of an update on $R$ ranks. The prediction uses the time of one rank alone, the bytes of the
# gradient, and the cores of this machine.


# %%
half = one_rank.run(config, BATCH // RANKS)
t_alone, t_twice, t_ranks = update_seconds(half), update_seconds(alone), max(update_seconds(r) for r in ranks)
fixed = min(max(2 * t_alone - t_twice, 0.0), t_alone) if RANKS == 2 else 0.0
work = scaling.Workload(f"ConvNet on {DATASET}", BATCH // RANKS, t_alone, gradient_bytes, fixed_s=fixed)
here = scaling.this_machine(cores)
if many_gpus:  # ranks share no cores, and communication overlaps with computation
    here = here.with_settings(cores=None, overlap=1.0)
before = scaling.predict(work, here, RANKS)
print(f"{RANKS} ranks, {BATCH // RANKS} each: predicted {before.step_s * 1e3:.1f} ms, measured {t_ranks * 1e3:.1f} ms")
print(f"efficiency: predicted {before.efficiency:.0%}, measured {t_alone / t_ranks:.0%}")
counts = range(1, 2 * max(cores, RANKS) + 1)
lines = {"predicted": scaling.curve(work, here, counts)}
both = [scaling.Measured(1, t_alone), scaling.Measured(RANKS, t_ranks)]
title = f"{RANKS} ranks: efficiency {before.efficiency:.0%} predicted, {t_alone / t_ranks:.0%} measured"
viz.show(figures.scaling_efficiency(both, lines, cores=here.cores, title=title))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# On a CPU the lines bend where there are more ranks than cores: then the ranks take turns. Left of that, the ranks share caches,
# memory and clock speed, which the prediction does not know.
#
# </details>
#
# ### The kit's benchmark (optional, 2 minutes)
#
# It measures in rounds: one rank and several ranks take turns. With `QUICK = False` it runs here, for 1 rank and for
# `RANKS`. The two short runs above, on a busy machine, are weak evidence.

# %%
if not QUICK:
    kind = rank_device.replace("gpu", "cuda")
    few = bench.scaling.Arguments(kind, (1, RANKS), hidden=1000, steps=25, batch=256, updates=30, repeats=3)
    measured_here = [bench.scaling.benchmark(few, say=lambda line: None)]
else:
    measured_here = []
for record in [*measured_here, *(records.load(name) for name in records.names("scaling"))]:
    print(bench.heading(record), bench.scaling.results(record), sep="\n")

# %% [markdown]
# *off* is the error of the prediction. For another machine, expect more.
#
# ### Explorer: choose a machine
#
# The cluster is JUWELS Booster: nodes of 4 GPUs joined by NVLink, each with 4 adapters of 200 Gbit/s [8]. The network
# is ours at full size. One number cannot be looked up: the time of an update on *one* rank. So we measure it on this
# device. With `faster` you choose how many times as fast the GPU of the cluster is.
#
# 1. The weak-scaling curve bends late. With which controls can you make it bend at ten ranks?
# 2. Strong scaling: at how many ranks is half of the machine wasted? What does a larger `batch` change?
# 3. `ethernet-10g`, and a GPU 1000 times as fast as this device: how much of its speed can you use?

# %%
pair = (4, 8) if where.type == "cpu" else (64, 128)
workshop = models.ConvNet().to(where)
pictures, classes = torch.rand(pair[1], 1, 28, 28, device=where), torch.arange(pair[1], device=where) % 10


def learn(count):
    """One update of so many images, without the optimizer's part."""
    out, _ = workshop(code(pictures[:count]))
    return torch.autograd.grad(loss.membrane_max_cross_entropy(out, classes[:count]), workshop.parameters())


candidates = {count: (lambda count=count: learn(count)) for count in pair}
times = measure.race(candidates, repeats=3, warmup=1, clock=measure.clock_for(where))
a, b = (times[count].median for count in pair)
per_sample = max(b - a, 0.2 * b) / (pair[1] - pair[0])
fixed = max(b - per_sample * pair[1], 0.0)


# %%
def efficiency(network="infiniband-hdr200", batch=64, faster=100, fixed=fixed, per_sample=per_sample):
    """Weak and strong scaling of the network at full size on nodes of JUWELS Booster, joined by this network."""
    machine = scaling.JUWELS_BOOSTER
    if network != "infiniband-hdr200":
        machine = machine.with_settings(name=network, between=scaling.LINKS[network], adapters=1)

    def job(samples):
        """An update of one rank of that machine."""
        seconds = (fixed + per_sample * samples) / faster
        return scaling.Workload("workshop", samples, seconds, 4 * FULL, fixed_s=fixed / faster)

    counts, together = [2**k for k in range(12)], 32 * batch
    weak = scaling.curve(job(batch), machine, counts)
    shared = [n for n in counts if n <= together]
    strong = scaling.curve(job(together), machine, shared, scaling="strong")
    lines = {f"weak: {batch} on each rank": weak, f"strong: {together:,} in all": strong}
    title = f"1024 ranks: {weak[10].samples_per_s:,.0f} samples/s, weak; {weak[10].efficiency:.0%} of the ideal speed"
    return figures.scaling_efficiency(predicted=lines, title=title)


viz.explore(
    efficiency,
    network=["infiniband-hdr200", "ethernet-100g", "ethernet-10g"],
    batch=[16, 32, 64, 128, 256],
    faster=[1, 10, 100, 1000],
)

# %% [markdown]
# ### A plan (optional, 3 minutes)
#
# 2 nodes, 8 GPUs, 20 epochs of MNIST. What will it cost? (We assume a GPU 100 times as fast as a CPU here.)

# %%
faster, samples = (100 if where.type == "cpu" else 1), 128
seconds = (fixed + per_sample * samples) / faster
job = scaling.Workload("the network at full size", samples, seconds, 4 * FULL)
run = scaling.predict(job, scaling.JUWELS_BOOSTER, 8)
updates = 20 * -(-60_000 // run.samples)  # rounded up
minutes = updates * run.step_s / 60
print(f"batch       {run.samples:,} ({samples} on each of 8 ranks), efficiency {run.efficiency:.1%}")
print(f"update      {run.step_s * 1e3:.3g} ms, {run.exposed_s * 1e3:.3g} of them waiting for the network")
print(f"time        {minutes:.3g} minutes for {updates:,} updates: 20 epochs of 60 000 images")
print(f"GPU hours   {8 * minutes / 60:.3g}")
print(f"on one GPU  {20 * -(-60_000 // samples) * seconds / 60:.3g} minutes")

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# *time*: the queue will take longer than the job. This network does not need a supercomputer, and it is good to know that
# before you apply for computing time.
#
# *batch*: 8 ranks with 128 samples are a batch of 1024. An epoch has an eighth of the updates, and each is a mean over
# eight times the samples. The rule of thumb is to raise the learning rate in proportion to the batch, after a *warm-up*,
# some epochs in which it rises slowly [9]. It works up to a batch size that is not known in advance.
#
# </details>
#
# ## 7 · In the group (optional, 6 minutes)
#
# Discuss in pairs:
#
# 1. Your network has 400 MB of weights, and an update takes 50 ms on one GPU. Is 10 Gbit Ethernet fast enough for a
#    cluster? (Use `ring_seconds`.)
# 2. The membranes of a recurrent network carry state from one batch to the next (truncated backpropagation, notebook 13).
#    Which rank must get which samples? What does that mean for shuffling, and for a resume on another number of ranks?
# 3. A batch norm sees only the samples of its rank. Below which batch per rank would you worry, and what could you do?
# 4. Checkpoints take 20 s, each node fails once a week, and you have 100 nodes. How often do you save?
#
# **A toy problem to continue with.** All this also works with your own data, for example XOR in time: two cues with a
# silence between them, and the answer is whether they differ. Make `delay` longer until training fails, and repair it.

# %%
cues, answers = data.xor_in_time(800, steps=24, delay=8, seed=SEED)  # [T, N, 10]
train.seed_everything(SEED)
memory = nn.Sequential(torch.nn.Linear(10, 64), neuron.Leaky(0.95), torch.nn.Linear(64, 2), neuron.Leaky(0.95))
problem = lit.TensorDataModule((cues.transpose(0, 1), answers), validation=200, global_batch_size=25, seed=SEED)
toy = lit.SpikingModule(memory, encoder="sequence", loss="count_cross_entropy", lr=2e-2)
with lit.quiet():
    trainer = Trainer(accelerator="cpu", max_epochs=6 if QUICK else 20, num_sanity_val_steps=0, **silent)
    trainer.fit(toy, problem)
print(f"after {trainer.current_epoch} epochs: {float(trainer.callback_metrics['val/acc']):.0%} right; chance is 50 %")

# %% [markdown]
# ## Quiz

# %%
quiz("scaling_out")

# %%
scorecard("scaling_out")

# %% [markdown]
# ## Where next
#
# Using more chips of the same kind is one way to more speed. Using another chip is the other.
# **[16 · IPU against CUDA](16_ipu_cuda.ipynb)** asks which numbers in papers about hardware can be compared at all.
#
# Meanwhile, in a shell: `snnkit slurm --help`, `snnkit bench scaling`.
#
# **Worth reading**
#
# 1. C. Pehle, J. E. Pedersen, *Norse: a library for deep learning with spiking neural networks* (2021), and its workshop notebooks.
#    [doi:10.5281/zenodo.4422025](https://doi.org/10.5281/zenodo.4422025), [norse/notebooks](https://github.com/norse/notebooks)
# 2. S. Li et al., *PyTorch distributed: experiences on accelerating data parallel training*, VLDB (2020).
#    [doi:10.14778/3415478.3415530](https://doi.org/10.14778/3415478.3415530)
# 3. W. Falcon and the PyTorch Lightning team, *PyTorch Lightning* (2019). [doi:10.5281/zenodo.3828935](https://doi.org/10.5281/zenodo.3828935)
# 4. A. B. Yoo, M. A. Jette, M. Grondona, *SLURM: simple Linux utility for resource management*, JSSPP (2003).
#    [doi:10.1007/10968987_3](https://doi.org/10.1007/10968987_3)
# 5. P. Patarasuk, X. Yuan, *Bandwidth optimal all-reduce algorithms for clusters of workstations*, J. Parallel Distrib. Comput. 69 (2009).
#    [doi:10.1016/j.jpdc.2008.09.002](https://doi.org/10.1016/j.jpdc.2008.09.002)
# 6. J. L. Gustafson, *Reevaluating Amdahl's law*, Commun. ACM 31 (1988). [doi:10.1145/42411.42415](https://doi.org/10.1145/42411.42415)
# 7. G. M. Amdahl, *Validity of the single processor approach to achieving large scale computing capabilities*, AFIPS (1967).
#    [doi:10.1145/1465482.1465560](https://doi.org/10.1145/1465482.1465560)
# 8. Jülich Supercomputing Centre, [*JUWELS Booster overview*](https://apps.fz-juelich.de/jsc/hps/juwels/booster-overview.html)
# 9. P. Goyal et al., *Accurate, large minibatch SGD: training ImageNet in 1 hour* (2017). [arXiv:1706.02677](https://arxiv.org/abs/1706.02677)
