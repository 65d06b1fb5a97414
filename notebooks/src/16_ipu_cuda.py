# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown] tags=["badge"]
# [![Open In Colab](drawings/open_in_colab.svg)](https://colab.research.google.com/github/snnkit/snnkit/blob/main/notebooks/16_ipu_cuda.ipynb)

# %% [markdown] tags=["slide"]
# # 16 · IPU against CUDA
#
# *Up to 10 times faster than CUDA*, says snnTorch's page about a chip that few people have ever used. You have neither
# that chip nor the program of that comparison, and can still find out a lot. You measure what it was compared with, model
# both machines, and test the model where it can be tested.
#
# **Afterwards you can**
#
# - explain a bulk-synchronous machine, and convert a network for it;
# - tell which part of a speed-up comes from the chip, which from the program, and which from an unfair comparison;
# - predict the time of a training step, and state the error of the prediction;
# - say which rankings hold under all assumptions of a model, and which are open.
#
# | | |
# |---|---|
# | Time | 65 minutes, and 10 more for the optional parts |
# | GPU minutes | 0. Everything runs on a CPU; where there is a GPU the same cells use it |
# | Before this | 11 fused neurons (launches, bytes, rooflines); 13 helps |

# %% tags=["bootstrap"] cellView="form"
# @title Setup: run this cell first
import importlib.util
import os
import sys

_snnkit = "snnkit @ git+https://github.com/snnkit/snnkit@main"

if importlib.util.find_spec("snnkit") is None:
    if "COLAB_RELEASE_TAG" in os.environ or "google.colab" in sys.modules:
        # Colab ships all that snnkit needs; --no-deps leaves every package there as it is.
        _wanted = f"'{_snnkit}'"
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
QUICK: bool = True  # False: the tutorial's batch of 128, twelve networks to predict, more sizes
SOLVE: bool = False  # True: the exercises are filled in with their solutions
SEED: int = 0  # seed of weights, inputs and batches
DEVICE: str = "auto"  # "auto", "cpu" or "cuda"

# %%
import math
import textwrap
from functools import partial

import torch

from snnkit import data, device, encode, engine, measure, models, records, surrogate, train
from snnkit.lab import course, viz
from snnkit.lab.bench import compare, training, workloads
from snnkit.lab.course import attempt, hint, outcome, predict, quiz, scorecard, solution
from snnkit.lab.hardware import chips, ipu, roofline

train.seed_everything(SEED)
course.start("ipu_cuda", solve=SOLVE)
figures = viz.figures
where = data.resolve_device(DEVICE)
torch.set_num_threads(1)  # one core, so that we time the work and not the start of threads
BATCH = 32 if QUICK else 128
print(f"on {where}, batches of {BATCH}")
STEPS, HIDDEN = 8, 100  # of the networks of section 3, smaller than the tutorial's: the rules are the same
free = roofline.Assumptions()  # each with its range


def middle(batch):
    """The supersteps around the second matrix product."""
    work = roofline.tutorial(batch)
    forward = [op for op in work.running if op.phase == "forward" and op.numel > 1]
    product = [i for i, op in enumerate(forward) if op.flops][1]
    return figures.supersteps(work, forward[product - 8 : product + 10])


class OldNet(torch.nn.Module):
    """784-hidden-10 of neurons that store their state; `cell(fire)` makes one."""

    def __init__(self, hidden, fire, cell):
        super().__init__()
        self.fc1, self.lif1 = torch.nn.Linear(784, hidden), cell(fire)
        self.fc2, self.lif2 = torch.nn.Linear(hidden, 10), cell(fire)

    def forward(self, x):
        self.lif1.mem, self.lif2.mem = x.new_zeros(1), x.new_zeros(1)
        return torch.stack([self.lif2(self.fc2(self.lif1(self.fc1(x)))) for _ in range(STEPS)], 1)


def of_counts(out, y):
    """Cross-entropy of the spike counts, out [B, T, 10]."""
    return torch.nn.functional.cross_entropy(out.sum(1), y)


class Net(torch.nn.Module):
    """784-hidden-10 over time, from x [B, 784] to spikes [B, T, 10]: no module stores state."""

    def __init__(self, hidden, step, fire):
        super().__init__()
        self.fc1, self.fc2 = torch.nn.Linear(784, hidden), torch.nn.Linear(hidden, 10)
        self.step, self.fire = step, fire

    def forward(self, x):
        current = self.fc1(x)  # the image is static, so once is enough
        mem1, mem2, out = current * 0, x.new_zeros(x.shape[0], 10), []
        for _ in range(STEPS):
            hidden, mem1 = self.step(mem1, current, self.fire)
            spikes, mem2 = self.step(mem2, self.fc2(hidden), self.fire)
            out.append(spikes)
        return torch.stack(out, 1)


def both(batch=128, hidden=1000, steps=25, precision="float32", ipu_chip="GC200", gpu_chip="A100"):
    """Samples per second of the tutorial's network, predicted."""
    found = roofline.rates(roofline.tutorial(batch, hidden, steps), ipu_chip, gpu_chip, precision, free)
    numbers = [figures.Marked(name, "predicted", one.value, one.low, one.high) for name, one in found.items()]
    mine, title = found.pop(f"{ipu_chip} (IPU)", None), f"{ipu_chip}: this does not fit, or a figure is not known"
    if mine:
        over = [f"{(mine / one).value:.2g} times {name.split(', ')[1]}" for name, one in found.items()]
        title = f"{ipu_chip} at the likely values: {', '.join(over) or 'nothing to compare with'}"
    return figures.marked(numbers, "samples/s", title=title) if numbers else figures.panels(1, 1, ["nothing fits"])


def what_if(
    mode="eager", batch=128, launch_us=8.0, step_us=0.1, sync_cycles=150, vertices=1.0, gpu_chip="A100", others="likely"
):
    """The rate of a GC200 over that of a GPU: with all assumptions at one value each, and over their ranges."""
    chosen = {"launch": launch_us * 1e-6, "gpu_step_seconds": step_us * 1e-6}
    chosen |= {"ipu_sync_cycles": sync_cycles, "ipu_vertices": vertices}
    base = free if others == "likely" else free.best_for("ipu" if "IPU" in others else "gpu")
    setting, every = (
        roofline.rates(roofline.tutorial(batch), gpu_chip=gpu_chip, assumptions=one)
        for one in (base.with_(**chosen), free)
    )
    mine, span = (one["GC200 (IPU)"] / one[f"{gpu_chip}, {mode}"] for one in (setting, every))
    numbers = [figures.Marked("your setting", "predicted", mine.value)]
    numbers += [figures.Marked("all ranges", "predicted", span.value, span.low, span.high)]
    title = f"GC200 over {gpu_chip}, {mode}, batch {batch}: {mine.value:.2g} times as fast"
    return figures.marked(numbers, "times as fast", title=title, one="as fast")


def measured(batches, engine="eager"):
    """Batch to (10 %, median, 90 %) seconds of a training step, with the clock that was used in the fit."""
    steps = {}
    for batch in batches:
        step = workloads.Ours(engine)(compare.tutorial(batch=batch), device.Precision.choose(where, False)).step
        steps[str(batch)] = step
    took = roofline.times(steps, roofline.clock_of(where), 3 if QUICK else 7)
    return {int(batch): seconds for batch, seconds in took.items()}


# %% [markdown] tags=["slide"]
# ## 1 · A chip with its memory beside its processors
#
# An *intelligence processing unit*, IPU, consists of 1472 *tiles*: each a processor with its own program and its own
# 624 KiB, where all data of a training step are. They work in lockstep, *bulk-synchronously* [4]. In a *superstep* every
# tile computes on what it holds, then all wait for the slowest, then all exchange what others need.
#
# ![Left, sixteen tiles, each a processor with its own memory and its own program. Right, two supersteps of four tiles over time: the tiles compute for different times, wait for the slowest, then all exchange data, and the next superstep begins.](drawings/tiles_and_supersteps.svg)
#
# **Predict first.** One step of `Leaky` is about nine elementwise operations. A batch of 128 gives each tile 87 values
# of the hidden layer. By what factor do the cycles of one grow if the batch doubles?

# %%
predict("ipu_cuda.b")

# %% [markdown]
# The middle of a forward pass: the end of the hidden layer, the product with the second layer's weights, the start of the
# output layer.


# %% tags=["slide"]
viz.show(viz.frames(middle, "batch", [8, 64, 128, 256], start=2))


# %%
cycles = {}
for batch in (8, 64, 128, 256):
    work = roofline.tutorial(batch)
    op = next(op for op in work.running if op.name == "mul" and op.numel == 1000 * batch)
    parts = roofline.ipu(roofline.Work("one", batch, (op,), (), 0, 0, 0)).parts
    cycles[batch], values = parts["elementwise"].value * chips.get("GC200").value("clock"), -(-op.numel // 1472)
    print(f"beta · mem, batch {batch:3}: {cycles[batch]:4.0f} cycles for {values:3} values per tile (predicted)")
outcome("ipu_cuda.b", cycles[256] / cycles[128])

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - Twice the batch takes far less than twice the cycles: most of a small superstep is the fixed cost of starting six
#   worker threads. So the IPU has a launch overhead, too, of a fraction of a microsecond. A GPU's takes some
#   microseconds (assumed: 4 to 15, section 6).
# - At batch 128 the second layer has 1280 values, fewer than there are tiles, so some tiles only wait.
# - Nothing in the figure is an access to off-chip memory.
#
# </details>

# %% [markdown]
# For a training step the model of this kit adds up the parts of the figure:
#
# $$t = \sum_{\text{operations}} \frac{c_\text{compute} + c_\text{sync} + c_\text{exchange}}{f} + \frac{t_\text{host}}{k} + t_\text{input} \tag{1}$$
#
# with $c$ in cycles, $f$ the clock in Hz, and $k$ training steps between two transfers from the host, which sends the
# batch in $t_\text{input}$. Some of its constants are assumed; section 6 shows the ranges.

# %%
wholes = {}
for batch in (16, 128, 1024):
    prediction = roofline.ipu(roofline.tutorial(batch), "GC200")
    wholes[f"batch {batch}"] = {name: seconds.value * 1e6 / batch for name, seconds in prediction.parts.items()}
viz.show(figures.shares(wholes, "µs", title="GC200: a sample of a large batch takes less time (predicted)"))

# %% [markdown] tags=["slide"]
# ## 2 · The claim
#
# snnTorch's tutorial on IPUs [1] trains a network of 784-1000-10 `Leaky` neurons over 25 steps, in batches of 128. It
# announces *"up to 10x improvements over CUDA accelerated SNNs in mixed-precision training throughput across a variety
# of neuron models"*.
#
# **Predict first.** Which four things must you know before you believe or repeat such a sentence? Which of them decides
# most?

# %%
predict("ipu_cuda.a")

# %% [markdown]
# Every number here is marked: **measured** by this notebook, **predicted** by a model, **published** by others with their
# source, or **derived** from published numbers by arithmetic. **Nothing in this notebook has ever run on an IPU.** These
# are the published ratios that we know of:

# %% tags=["slide"]
claims = []
for one in compare.CLAIMS:
    mark, value = "derived" if one.derived else "published", None if one.low < one.high else one.low
    claims.append(figures.Marked(one.who, mark, value, one.low, one.high))
least, most = min(claim.low for claim in compare.CLAIMS), max(claim.high for claim in compare.CLAIMS)
title = f"What others have published: {least:g} to {most:g} times as fast"
viz.show(figures.marked(claims, "times as fast", title=title, one="as fast"))

# %%
for claim in compare.CLAIMS:
    print(f"{claim.who}, times as fast: {claim.said} ({claim.source})")
    print(textwrap.fill(claim.what, 100, initial_indent="    ", subsequent_indent="    "))
outcome("ipu_cuda.a")

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - The first three rows are about a *chip*: an IPU against a GPU. The last two are about a *program*: fused code
#   against eager snnTorch, on the same GPU. They are larger than the tutorial's 10.
# - What the claim does not say: which GPU, what ran on it, which batch, and which precision. No result file and no script
#   for the GPU was published. Of the underlying paper [2] only the text could be retrieved: "5 to 10 times", and "on par"
#   where each neuron is connected only to itself.
#
# </details>

# %% [markdown]
# Can you run it yourself? The tutorial used *PopTorch*, Graphcore's backend for PyTorch, which needs exactly PyTorch
# 2.0.1, the Poplar SDK with its compiler *PopART*, and an IPU. Its last release is 3.4 of October 2023 [3]. And with SDKs from 3.0 on, the tutorial's
# script stops at its first forward pass: a neuron branches on a value in a buffer (snnTorch, issue 236).

# %% [markdown] tags=["slide"]
# ## 3 · Convert the network
#
# A network must have a form that the chip can run. Below is a neuron in the style of snnTorch at the time of the tutorial:
# it stores its state in a buffer, and a switch in another buffer selects the kind of reset. PyTorch runs a network of
# them (`OldNet`, in the cell of the imports).


# %%
class OldLeaky(torch.nn.Module):
    """A neuron in the style of 2022: its membrane and its switches are buffers."""

    def __init__(self, fire, beta=0.9):
        super().__init__()
        self.fire, self.beta = fire, beta
        self.register_buffer("mem", torch.zeros(1))
        self.register_buffer("reset_to_zero", torch.tensor(0))

    def forward(self, x):
        reset = (self.mem > 1.0).to(x.dtype)
        if self.reset_to_zero == 0:
            self.mem = self.beta * self.mem + x - reset
        else:
            self.mem = (self.beta * self.mem + x) * (1 - reset)
        return self.fire(self.mem - 1.0)


arctan = partial(surrogate.ATan(), strict=True)  # the usual surrogate: an autograd.Function
pictures, classes = torch.rand(16, 784), torch.arange(16) % 10
ipu.check(OldNet(HIDDEN, arctan, OldLeaky), (pictures, classes), of_counts)

# %% [markdown]
# `ipu.check` tests ten rules of PopTorch, taken from its documentation and its sources. It runs the model on tensors
# without values, as PopTorch does when it records the graph. The model breaks three rules, each of them twice:
#
# - At `if self.reset_to_zero == 0` there is no value to test. This is issue 236.
# - `self.mem = …` replaces the buffer by another tensor, which a *static graph*, recorded once, does not allow.
# - An `autograd.Function` is used. More about this below.
#
# The first two disappear if the neuron is a *function* from state to state.
#
# ### Exercise 16.1 · A neuron without internal state (5 minutes, ●●○)
#
# Write one step of `Leaky`. The membrane $v$ (`mem` in snnTorch, and here) and `x` are [B, N]; `fire(u)` returns spikes
# where u > 0. If the incoming membrane is above the threshold, the threshold is subtracted in this step. No gradient
# flows through the reset.
#
# $$r = H(v - \theta), \qquad v \leftarrow \beta\,v + x - r\,\theta, \qquad s = H(v - \theta)$$
#
# The check runs your step in a network and tests the network with `ipu.check`. Stuck? `hint("ipu_cuda.1")`.


# %% tags=["exercise"]
def leaky(mem, x, fire, beta=0.9, threshold=1.0):
    """One step of `Leaky`: (its spikes, the membrane after it)."""
    mem = ...  # the reset: 1.0 where the incoming membrane is above its threshold, else 0.0
    return fire(mem - threshold), mem


leaky = attempt("ipu_cuda.1", leaky)


# %%
ipu.check(Net(HIDDEN, leaky, arctan), (pictures, classes), of_counts)

# %% [markdown]
# One broken rule is left, and it is the easiest to miss: PopTorch records the *forward* pass and differentiates it
# itself. The `backward` of an `autograd.Function`, where libraries of spiking networks define their surrogate
# gradients, is never called.
#
# **Predict first.** What gradient does a comparison have, `u > 0`? What would a network learn with only this
# gradient?

# %%
predict("ipu_cuda.c")

# %% [markdown]
# So the surrogate must be in the forward pass, without changing its values: add a zero that has a gradient, as in the
# build of notebook 02.
#
# ### Exercise 16.2 · A spike in plain operations (3 minutes, ●●○)
#
# `smooth(u)` is a smooth step, such as a sigmoid. Return exactly 0.0 or 1.0, with the gradient of `smooth(u)`. Stuck?
# `hint("ipu_cuda.2")`.


# %% tags=["exercise"]
def spike(u, smooth):
    """1.0 where u > 0, else 0.0, with the gradient of smooth(u)."""
    step = (u > 0).to(u.dtype)
    return step + ...


spike = attempt("ipu_cuda.2", spike)

# %%
plain = partial(spike, smooth=surrogate.ATan().primitive)  # the function whose derivative is ATan's
u = torch.linspace(-2, 2, 101).requires_grad_()
outcome("ipu_cuda.c", 0 if not (u > 0).to(u.dtype).requires_grad else 2)
ready = Net(HIDDEN, leaky, plain)
for rule, verdict in ipu.check(ready, (pictures, classes), of_counts).rules.items():
    print(f"{rule}: {verdict}")

# %% [markdown]
# ### The loss, too (optional)
#
# Two points remain, which `check` could not detect because we passed it the loss and a suitable batch. A training step
# of PopTorch is *one call*, so the loss must be part of the model, and marked. And one call is divided into
# micro-batches, so nothing may depend on the size of the batch. (The tutorial has `x.view(batch_size, -1)`.)
#
# #### Exercise 16.3 · The loss in the model (4 minutes, ●●○)
#
# `model(x)` returns the network's output, `model(x, y)` the output and the loss; x is [B, 1, 28, 28], for any B. Mark
# the loss with `ipu.identity_loss(value, "none")`, which is PopTorch's function of this name if PopTorch is imported.
# Stuck? `hint("ipu_cuda.3")`.


# %% tags=["exercise"]
class Training(torch.nn.Module):
    """A network and its loss in one model: `out = model(x)`, and `out, loss = model(x, y)`."""

    def __init__(self, net, loss):
        super().__init__()
        self.net, self.loss = net, loss

    def forward(self, x, y=None):
        out = self.net(...)  # pictures [B, 1, 28, 28], for any B; the network takes [B, 784]
        if y is None:
            return out
        return out, ...


Training = attempt("ipu_cuda.3", Training)

# %%
images = pictures.reshape(16, 1, 28, 28)
print(ipu.check(Training(ready, of_counts), (images, classes), device_iterations=4))
print("\nThe same with 15 pictures in 4 micro-batches:")
print(*ipu.check(Training(ready, of_counts), (images[:15], classes[:15]), device_iterations=4).errors, sep="\n")

# %% [markdown]
# ### The same network?
#
# It is ready, as far as this can be checked without an IPU. Does it still compute the same? Compare it with the
# library's network, which has the same weights and the kit's own neurons:

# %%
ours = models.mlp((784, HIDDEN, 10), surrogate=surrogate.ATan(), flatten=False)
with torch.no_grad():
    for mine, theirs in zip(ready.parameters(), ours.parameters(), strict=True):
        theirs.copy_(mine.mul_(4))  # large enough to fire
    yours, library = ready(pictures), ours(encode.repeat(pictures, STEPS))[0].transpose(0, 1)
print(f"{int(library.sum())} spikes; both networks agree in {(yours == library).float().mean():.2%} of all places")

# %% [markdown]
# It is *the same* network in another form. By PopTorch's documentation
# `poptorch.trainingModel(Training(Net(...), of_counts))` would train it on an IPU. This was never tried.

# %% [markdown] tags=["slide"]
# ## 4 · The other side of the ratio
#
# A ratio has two numbers. *CUDA* in the claim probably means snnTorch in eager PyTorch: a loop over time in Python, several
# kernels per layer and step. This side you can measure. There is a second difference: the image is static, so the first
# layer gives the same currents at every step. The tutorial computes them 25 times; a compiler that has the whole graph
# might compute them once, as this kit does. So there are four runs, not two.
#
# **Predict first.** Eager or fused, first layer at every step or once: sort the four by time. How many times as fast is
# the first as the last?

# %%
predict("ipu_cuda.d")


# %% tags=["slide"]
often = {"layer 1 every step": False, "layer 1 once": True}
runs = [
    workloads.Candidate(
        f"{name}, {how}", "snnkit", workloads.Ours(chosen, static=static), default=how == "layer 1 once"
    )
    for name, chosen in (("eager", "eager"), ("fused", "auto"))
    for how, static in often.items()
]
workload = compare.tutorial(batch=BATCH)
available = compare.candidates(where, workload, peers=True)
runs += [one for one in available if one.library == compare.SNNTORCH]  # eager snnTorch, where it is installed
timings = training.measure(workload, device.Precision.choose(where, False), runs, 3 if QUICK else 7)
rows = {row["contestant"]: row for row in timings.rows}
seconds = {name: row["median_s"] for name, row in rows.items()}
timed = [
    figures.Marked(name, "measured", row["median_s"] * 1e3, row["p10_s"] * 1e3, row["p90_s"] * 1e3, "10 to 90 %, here")
    for name, row in rows.items()
]
every, once = often
together = seconds[f"eager, {every}"] / seconds[f"fused, {once}"]
title = f"Fused, and layer 1 once: {together:.1f} times as fast on this {where.type.upper()}, batch {BATCH}"
viz.show(figures.marked(timed, "ms per training step", title=title))

by_fusing, by_once = (seconds[f"eager, {every}"] / seconds[name] for name in (f"fused, {every}", f"eager, {once}"))
print(f"{together:5.1f} times: two changes together (measured)")
print(f"{by_once:5.1f} times: layer 1 once, eager for both (measured)")
print(f"{by_fusing:5.1f} times: fused, {every} for both (measured)")
print(f"{seconds[f'eager, {once}'] / seconds[f'fused, {once}']:5.1f} times: fused, {once} for both (measured)")
if compare.SNNTORCH not in rows:
    print("(snnTorch is not installed here, so our eager engine is in its place; `make peers` installs it.)")
if reason := engine.missing_compiler(where.type):
    print(f"(Nothing can be fused here: {reason}.)")

# %%
outcome("ipu_cuda.d", together)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# Four ratios from one experiment, all measured, all true. Only the last two are fair comparisons. The first mixes a
# better program with less work. Fusing saves about as many milliseconds in either case, so it gains more where layer 1
# is computed once: less time is left. That is why the first ratio is larger than the second times the third.
#
# </details>

# %% [markdown]
# How much of eager's time is *launching* kernels rather than running them? Count them, and time the smallest one.

# %%
launches = roofline.tutorial(BATCH, hoisted=False).launches
number = torch.zeros(1, device=where)
smallest = measure.race({"add": lambda: number + number}, repeats=7, clock=measure.clock_for(where))["add"].median
slow = seconds[f"eager, {every}"]
print(f"{launches} operations, {smallest * 1e6:.2f} µs for the smallest (measured)")
print(f"launching them: {launches * smallest * 1e3:.2f} ms of {slow * 1e3:.2f} ms, {launches * smallest / slow:.1%}")

work = roofline.tutorial(128, hoisted=False)
for name in ("T4", "A100", "H200"):
    prediction = roofline.gpu(work, name)
    share = prediction.parts["launch"].value / prediction.seconds.value
    print(f"{name:5} eager, batch 128 (predicted): {prediction.seconds * 1e3} ms, {share:.0%} of it for launches")

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - On one core of a CPU launching hardly counts at these sizes. The products of layer 1 take much of the time, followed by
#   *memory traffic*, which fusion saves (notebook 11).
# - On a GPU the model predicts the opposite. A T4 of 2018 needs only a third more time than an H200 of 2024. What the claim
#   calls *CUDA* is, at this size, mostly the time in which Python launches kernels. A fused kernel removes it, or a *CUDA
#   graph*, which replays all kernels of a step by one launch.
#
# </details>

# %% [markdown]
# `snnkit bench compare` runs this experiment for all batches and widths. Records that come with the kit:

# %%
stored = [name for name in records.names() if records.load(name)["kind"] == "compare"]
for name in stored:
    record = records.load(name)
    viz.show(figures.comparison(record))
    print(compare.summary(record).split("\npublished")[0])

# %% [markdown] tags=["slide"]
# ## 5 · A model that can be tested
#
# For machines that you do not have, you need a model, and its error is unknown. So first build one of the machine that
# you *do* have, in the same way: count the operations of a training step, compute the cost of each from what it computes
# and moves, add up. The costs come from micro-benchmarks: elementwise operations, copies, products, calls. **None of them
# is a network.** The model predicts all networks before any of them runs.
#
# **Predict first.** How large is the largest error, in per cent of the measured time?

# %%
predict("ipu_cuda.e")

# %%
machine = roofline.fit(where, repeats=3 if QUICK else 7)
print(f"{machine.device}; launch is the smallest operation with autograd")
for key, figure in machine.figures.items():
    print(f"{key.replace('_', ' ')}: {figure}")

# %% tags=["slide"]
nets = roofline.holdout_nets()[:4] if QUICK else roofline.holdout_nets()
report = roofline.validate(machine, nets=nets, repeats=3 if QUICK else 5)
numbers = []
for row in report.rows:
    lane = f"{row.net}, {row.engine}"
    for mark, one in (("predicted", row.predicted * 1e3), ("measured", row.measured * 1e3)):
        numbers.append(figures.Marked(lane, mark, one.value, one.low, one.high, f"{row.error:+.0%}"))
worst = max(abs(row.error) for row in report.rows)
title = f"First predicted, then measured: at most {worst:.0%} off"
viz.show(figures.marked(numbers, "ms per training step", title=title))

# %%
print(report)
outcome("ipu_cuda.e", 100 * worst)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - The errors are printed, the largest one too. A prediction without its error is only an opinion.
# - The bars show the spread of the micro-benchmarks. They *can be smaller than the errors*: repeating a measurement
#   says nothing about what the model leaves out.
# - Is `drift` far from 1? Then your machine ran faster or slower during the networks than during the fit.
#
# </details>
#
# ### Exercise 16.4 · Where launches stop mattering (5 minutes, ●●○)
#
# At batch 1 nearly all of eager's time is fixed: launching operations, updating weights. The cost of the samples grows
# with the batch: $t(B) = t_0 + B/r$, as in notebook 13. The crossover $B^* = t_0\,r$ is the batch at which both parts are equal. Below it a
# faster chip helps little, but a better program helps a lot.
#
# `small` and `large` are (batch, seconds) of two batches. If the time does not grow at all, the answer is `math.inf`;
# it is never below 0. Stuck? `hint("ipu_cuda.4")`.


# %% tags=["exercise"]
def crossover(small, large):
    """The batch at which the growing part equals the fixed part; each argument is (batch, seconds)."""
    per_sample = ...  # seconds that one more sample takes
    fixed = ...  # seconds of a batch of 0
    return fixed / per_sample


crossover = attempt("ipu_cuda.4", crossover)

# %% [markdown]
# First the prediction of the fitted model, then the test: at the predicted crossover the fixed part should be half of
# the time.

# %%
SMALL, LARGE = 1, 8192 if where.type == "cuda" else 128 if QUICK else 256


def predicted(batch, engine="eager"):
    return machine.predict(roofline.tutorial(batch), engine).seconds


guess = crossover((SMALL, predicted(SMALL).value), (LARGE, predicted(LARGE).value))
there = min(max(round(guess), SMALL + 1), LARGE - 1) if math.isfinite(guess) else LARGE // 2
took = measured([SMALL, there, LARGE])
actual = crossover((SMALL, took[SMALL].value), (LARGE, took[LARGE].value))
fixed = took[SMALL].value * actual / (actual + SMALL)
print(f"crossover: predicted at a batch of {guess:.1f}, measured at {actual:.1f}")
print(f"at batch {there}: predicted {predicted(there) * 1e3} ms, measured {took[there] * 1e3} ms")
print(f"the fixed part is {fixed * 1e3:.2f} ms of it, {fixed / took[there].value:.0%} (measured)")
batches = [batch for batch in (1, 4, 16, 64, 256, 1024) if batch < LARGE] + [LARGE]
curves = {
    "eager, predicted": (batches, [predicted(batch).value * 1e3 for batch in batches]),
    "eager, measured": (list(took), [one.value * 1e3 for one in took.values()]),
}
if machine.fused:
    fused = next(iter(machine.fused))
    curves["fused, predicted"] = batches, [predicted(batch, fused).value * 1e3 for batch in batches]
look = {"x_title": "batch", "y_title": "ms per training step", "log": "xy", "faint": ["eager, predicted"]}
title = f"Up to a batch of about {actual:.0f}, the fixed part decides"
viz.show(figures.lines(curves, title=title, levels={"fixed part": fixed * 1e3}, **look))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# Left of the crossover the curve is flat: a batch of 4 costs little more than a batch of 1. On a GPU the fixed part is
# much the same, since Python launches the kernels, and the rest is much faster. So up to the tutorial's batch of 128 the
# time hardly grows, and it is nearly the same for three very different chips (predicted). The claim was made at this
# size: it says little about any of them.
#
# </details>

# %% [markdown] tags=["slide"]
# ## 6 · Two machines that you do not have
#
# The same counts, with the costs that are known for the chips: vendors' figures, mostly second-hand. Launch costs,
# efficiencies and the cost of a synchronisation are not known. Each is a named *assumption* with a range:

# %%
for name, one in free.items():
    line = f"{name:24} {f'{one.range} {one.unit}':27} {one.meaning}"
    print(textwrap.fill(line, 112, subsequent_indent=53 * " "))

# %% [markdown]
# **Predict first.** The IPU against fused kernels in a CUDA graph, at six sizes. What holds under all assumptions?

# %%
predict("ipu_cuda.f")

# %% [markdown]
# **Explorer: both machines.** The bars reach from the worst case of all assumptions to the best. Layer 1 is computed
# once in all cases.
#
# 1. At the tutorial's size (128, 1000, 25): compared with which GPU mode is the IPU faster under all assumptions?
# 2. Make the batch 1024, then the hidden layer 4096. Which machine gains?
# 3. Change the GPU from T4 to H200 and watch *eager*. Then watch *fused graph*.


# %%
sizes = {"batch": [1, 16, 128, 512, 1024], "hidden": [128, 512, 1000, 4096], "steps": [5, 25, 50]}
machines = {"ipu_chip": list(chips.names("ipu")), "gpu_chip": list(chips.names("gpu"))}
viz.explore(both, **sizes, precision=["float32", "float16"], **machines)

# %% [markdown]
# The next figure includes all uncertainty. Each band reaches from the *worst* case for the IPU over the *best* case for
# the GPU to the opposite. A band that crosses the dashed line cannot be decided without the hardware.

# %% tags=["slide"]
bands = {}
for mode in ("eager", "graph", "fused graph"):
    for batch in (16, 128, 1024):
        for hidden in (1000, 4096):
            found = roofline.rates(roofline.tutorial(batch, hidden), assumptions=free)
            if "GC200 (IPU)" in found:
                bands[f"{mode}, {batch} x {hidden}"] = found["GC200 (IPU)"] / found[f"A100, {mode}"]
marked = [figures.Marked(name, "predicted", None, one.low, one.high) for name, one in bands.items()]
ahead, behind = (sum(test(one) for one in bands.values()) for test in (lambda r: r.low > 1, lambda r: r.high < 1))
title = f"GC200 over A100: ahead in {ahead} of {len(bands)}, behind in {behind}, the rest open"
viz.show(
    figures.marked(marked, "times the samples per second; rows: GPU mode, batch x hidden", title=title, one="as fast")
)

# %%
print(f"IPU faster under all assumptions: {ahead}; GPU faster: {behind}; open: {len(bands) - ahead - behind}")
fused_graph = [one for name, one in bands.items() if name.startswith("fused graph")]
verdicts = {
    "the IPU is faster": all(r.low > 1 for r in fused_graph),
    "the GPU is faster": all(r.high < 1 for r in fused_graph),
}
outcome("ipu_cuda.f", next((verdict for verdict, holds in verdicts.items() if holds), "open at all sizes"))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - Against *eager* every band is right of the line: the ranking holds under all assumptions of the model. The published
#   "5 to 10 times" is within the ranges. This is agreement after choosing constants, not a validation.
# - Against a graph of single kernels the result is open nearly everywhere. Against fused kernels in a graph, no band is
#   right of the line.
# - So much of "10x" is speed that eager code does not use. The part that comes from the chip remains unknown.
# - A range contains what the assumptions allow, and nothing else. In section 5 errors can be larger than the ranges, on a
#   machine that had been measured.
#
# </details>
# %% [markdown]
# ### What would have to be true? (optional)
#
# Here you set four assumptions: `launch_us` for each kernel of eager code, `step_us` for each time step of a fused one,
# `sync_cycles` for each wait of the IPU, and `vertices`, the share of elementwise operations that its compiler runs one by
# one. `others` sets all others.
#
# 1. Can the IPU be slower than *eager* code? Set everything against it.
# 2. Can it be faster than *fused graph*? How many sliders do you need? Now change the GPU.
# 3. What happens in large batches?


# %%
gpu_costs = {"launch_us": (4.0, 15.0, 0.5), "step_us": (0.02, 0.6, 0.02)}
ipu_costs = {"sync_cycles": (50, 500, 10), "vertices": (0.25, 1.5, 0.05)}
choices = {"gpu_chip": list(chips.names("gpu")), "others": ["likely", "best for the IPU", "best for the GPU"]}
viz.explore(what_if, mode=["eager", "fused graph"], batch=[16, 128, 1024], **gpu_costs, **ipu_costs, **choices)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - (1) No: with everything against it, it is still ahead of an A100, 2.9, 2.5 and 1.4 times at batches of 16, 128 and
#   1024 (of an H200: 2.9, 2.5 and 1.2).
# - (2) Over an A100, at a batch of 128, not with one slider. It takes two at once: `vertices` near 0.25 and `step_us` near
#   0.6. There a T4 is no faster than the IPU at the likely values. An H200 wins even with all four sliders against it (0.72
#   times), as long as the other assumptions are likely. With these at *best for the IPU*, too, the IPU leads: 1.22 times
#   at 128, and 1.56 at 16. "Faster than CUDA" says little without the name of the GPU.
# - (3) The larger the batch, the closer an A100 and the IPU: 0.18, 0.27 and 0.55 times at 16, 128 and 1024.
#
# </details>
#
# ## 7 · What cannot be known without the hardware
#
# | Question | Why not | What would answer it |
# |---|---|---|
# | How long do tiles wait for each other? | the function that computes it is in the closed part of Poplar | one measured superstep |
# | Which operations does PopART fuse? | its compiler decides; a factor of 6 in our range | the profile of one training step |
# | Does the gradient with `detach` survive all its compiler passes? | read in its sources, never observed | one gradient |
# | Does PopTorch take what `ipu.check` calls ready? | its rules are our reading of documents and sources | one run |
# | Which GPU, batch and program were used for "10x"? | never published | the authors' files |
#
# An afternoon with one IPU would answer most of it. Until then the honest summary is: *according to this model and its
# assumptions, the IPU is faster than eager GPU code at these sizes; against fused GPU code it is open.*
#
# ## 8 · What broke?
#
# A colleague benchmarks in *mixed precision*, as the tutorial's script does: `data = data.half()`, the network as it is. PyTorch
# raises an error. PopTorch, according to its documentation, does not, and his table says *mixed precision*.
#
# **Predict first.** In which precision do his matrix products run?

# %%
predict("ipu_cuda.h")


# %%
def product(x, **autocast):
    """The dtype of a product of the network's first layer."""
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, **autocast):
        return str(ready.fc1(x).dtype).removeprefix("torch.")


try:
    ready(pictures.half())
except RuntimeError as error:
    print("PyTorch:", error)
# PopTorch 3: "HalfUpcastToFloat is now the only supported option": half meets float, so half becomes float.
print("as he wrote it:", product(pictures.half().float(), enabled=False))
print("with autocast: ", product(pictures, enabled=True))
outcome("ipu_cuda.h", product(pictures.half().float(), enabled=False))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# In float32: the inputs are half precision, the weights are not, and PopTorch converts the smaller to the larger, as its
# options say. (The tutorial even sets `HalfUpcastToFloat`; `net.half()` is commented out.) Only the bytes of the input
# were halved. In PyTorch, mixed precision is `torch.autocast`, here `train.fit(…, amp=True)`.
#
# </details>

# %% [markdown]
# The lesson holds for every benchmark: do not trust the name of a setting. *Check* what was executed.
#
# ## Quiz

# %%
quiz("ipu_cuda")

# %%
scorecard("ipu_cuda")

# %% [markdown]
# ## Where next
#
# You have a network, and know what a machine makes of it. **[17 · Taking a network
# home](17_taking_a_network_home.ipynb)** makes it small, and runs it where there is no kit.
#
# **Worth reading**
#
# 1. J. K. Eshraghian et al., *Training spiking neural networks using lessons from deep learning*, Proceedings of the IEEE 111 (2023).
#    [doi:10.1109/JPROC.2023.3308088](https://doi.org/10.1109/JPROC.2023.3308088); the tutorial:
#    [snntorch.readthedocs.io](https://snntorch.readthedocs.io/en/latest/tutorials/tutorial_ipu_1.html)
# 2. P.-S. V. Sun et al., *Intelligence processing units accelerate neuromorphic learning* (2022).
#    [arXiv:2211.10725](https://arxiv.org/abs/2211.10725)
# 3. Graphcore, *PopTorch*, release 3.4. [github.com/graphcore/poptorch](https://github.com/graphcore/poptorch)
# 4. L. G. Valiant, *A bridging model for parallel computation*, Communications of the ACM 33 (1990).
#    [doi:10.1145/79173.79181](https://doi.org/10.1145/79173.79181)
# 5. J. Finkbeiner et al., *Harnessing manycore processors with distributed memory for accelerated training of sparse and recurrent models*, AAAI
#    (2024). [arXiv:2311.04386](https://arxiv.org/abs/2311.04386)
