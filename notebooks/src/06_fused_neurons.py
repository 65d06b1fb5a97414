# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown] tags=["badge"]
# [![Open In Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/snnkit/snnkit/blob/main/notebooks/06_fused_neurons.ipynb)

# %% [markdown] tags=["slide"]
# # 06 · Fused multi-step neurons
#
# A spiking neuron does about ten additions and multiplications per time step. Your processor does billions per second.
# And yet a layer of neurons, written in the obvious way, can take more of a training step than the convolutions before
# it. This notebook shows where the time goes (it is not the arithmetic), and runs all time steps of a layer in one
# kernel. A compiler generates that kernel from your equation, and you will read its code.
#
# **Afterwards you can**
#
# - count the bytes that a neuron moves, and predict from them how much a fused kernel can gain, before you measure;
# - explain the difference between step by step and layer by layer, and what *fused*, *recompute* and *memory bound*
#   mean;
# - read the code that is generated from your own neuron, as a graph, as C++ and as a Triton kernel for a GPU;
# - write a step that can be fused, and recognise one that cannot;
# - draw a roofline with your own machine's numbers and say whether your program is memory bound or compute bound.
#
# | | |
# |---|---|
# | Time | 70 minutes |
# | GPU minutes | 0. Everything runs on a CPU; where there is a GPU the same cells use it |
# | Before this | 02 surrogate gradients, 05 devices. You know what registers and caches are |

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
            "The kernel of this notebook has no snnkit. Start Jupyter by `make lab` in a clone of the repository, "
            f"or install it here: %pip install '{_snnkit}'"
        )

import snnkit

print("snnkit", snnkit.__version__)

# %% tags=["parameters"]
QUICK: bool = True  # False: the sizes of the published experiment, 2^20 neurons (2^18 on a CPU) and up to 128 steps
SOLVE: bool = False  # True: the exercises are filled in with their solutions
SEED: int = 0  # seed of weights and inputs
DEVICE: str = "auto"  # "auto", "cpu" or "cuda"

# %%
import math
import os
import re
import textwrap
import warnings
from importlib.metadata import version as version_of
from importlib.util import find_spec
from typing import NamedTuple

import torch

from snnkit import course, data, engine, measure, neuron, nn, records, surrogate, train, viz
from snnkit.bench import heading
from snnkit.bench import neurons as layer_race
from snnkit.course import attempt, hint, quiz, scorecard, solution
from snnkit.engine import AUTO, cpp, equation_of, missing_compiler, programs, triton
from snnkit.viz import figures

train.seed_everything(SEED)
course.start("06", solve=SOLVE)
device = data.resolve_device(DEVICE)
clock = measure.clock_for(device)
torch.set_num_threads(1)  # one core, so that we time the work and not the start of threads
compiled = [name for name, _ in AUTO[device.type]]  # the engines made for this device
compiler_missing = missing_compiler(device.type)
N = 2**16 if QUICK else 2**18 if device.type == "cpu" else 2**20
STEPS = (8, 16, 32) if QUICK else (8, 16, 32, 64, 128)
print(f"on {device}: engines {', '.join(['eager', *compiled])}; {N:,} neurons, T = {', '.join(map(str, STEPS))}")
if compiler_missing:
    print(f"Without a compiler the fused engines cannot run here, and eager is used instead: {compiler_missing}.")

# %% [markdown] tags=["slide"]
# ## 1 · A dozen kernels per step
#
# The LIF neuron of notebook 05, with $\tau$ in time steps and everything else without units:
#
# $$V \leftarrow V + \frac{X[t] - V}{\tau}, \qquad S[t] = H(V - \theta), \qquad V \leftarrow (1 - S[t])\,V \tag{1}$$
#
# In PyTorch that is four lines of tensors. Each operator in them is a *kernel*: a separate program, which reads its
# tensors from memory, does one operation on each number, writes the result to memory, and ends. The next kernel reads
# that result again. It is like driving to the shop for every single egg.
#
# > **Predict first.** How many kernels does one step of (1) take? How many bytes do they read and write for one neuron, if a number
# > is a float32 (4 bytes)? Write both down.
#
# `Traffic` records every kernel that PyTorch runs. We give it a layer of one neuron, so its bytes are bytes per neuron:

# %%
cell = neuron.LIF(tau=2.0, engine="eager")
x_one = torch.rand(1)
with measure.Traffic() as seen:
    cell.step(x_one, cell.initial_state(x_one))
ops = seen.kernels[2:]  # the first two make the membrane of the first step
for name, reads, writes in ops:
    print(f"{name:10} reads {sum(reads):2} bytes   writes {sum(writes)}")
print(f"{len(ops)} kernels")

# %% [markdown]
# **Notice**
#
# - Each kernel writes one result per neuron, and all but two of the ten are discarded within the same step: they exist
#   only as input of the next kernel. The two are the membrane, which only the next step needs, and the spike, which is
#   the only result that we want.
# - `ge` writes a boolean, one byte, and `_to_copy` converts it to a number.
# - There is one more cost that the table does not show: launching a kernel takes a few microseconds, however little it
#   does.
#
# Now imagine one kernel for the whole sequence. It holds $V$ in a register, reads $X[0]$, computes, writes $S[0]$, reads $X[1]$, …
# Intermediate values never leave the processor. That is *fusion*, here over operations *and* over time.
#
# ### Exercise 06.1 · Count the bytes (7 minutes, ●●○)
#
# Compute three numbers, each in bytes per neuron and step:
#
# 1. `alone`: every kernel separately, as in the table above (`ops` holds the names, and tuples of bytes);
# 2. `inference`: everything fused, the state in registers. `x` and `spike` are the bytes of one number of the input and the output;
# 3. `training`: everything fused, forward *and* backward. To save memory, the forward pass stores only its input. The
#    backward pass reads the gradient of the spikes, needs all membranes again, and writes the gradient of the input. (A
#    gradient has as many bytes as the tensor that it belongs to.)
#
# Stuck? `hint("06.1")`.


# %% tags=["exercise"]
def bytes_moved(ops, x=4, spike=4):
    """Bytes per neuron and step: (every operation by itself, all fused: inference, all fused: training)."""
    alone = ...  # ops: [(name, (bytes of each tensor read, …), (bytes of each tensor written, …)), …]
    inference = ...
    training = ...
    return alone, inference, training


bytes_moved = attempt("06.1", bytes_moved)

# %%
alone, inference, training = bytes_moved(ops)
_, narrow, _ = bytes_moved(ops, x=4, spike=1)
print(f"inference: {alone} bytes unfused, {inference} fused: {alone / inference:.1f} times fewer")
print(f"with spikes of one byte: {narrow}")


def eager_training(steps=8):
    """Bytes per neuron and step of the loop with its backward pass."""
    x = torch.rand(steps, 1, 1, requires_grad=True)
    with measure.Traffic() as seen:
        out, _ = cell(x)
        out.backward(torch.ones_like(out))
    return seen.bytes / steps


loop_training = eager_training()
print(f"training: {loop_training:.0f} bytes in the loop, {training} fused: {loop_training / training:.1f} times fewer")

# %% [markdown] tags=["slide"]
# If only memory traffic mattered, these ratios would be the speed-ups. We will see.
#
# ## 2 · Step by step, or layer by layer
#
# A network can process time in two orders [1]:
#
# | | outer loop | what runs at once |
# |---|---|---|
# | **step by step** | over time: each step passes through all layers | one layer, one step: `[B, N]` |
# | **layer by layer** | over layers: each layer handles the whole sequence | one layer, all steps: `[T, B, N]` |
#
# Step by step resembles biology. Layer by layer computes the same, as long as no connection leads *back* to an earlier
# layer, and has two advantages. Layers without state (`Linear`, `Conv2d`, …) fold time into the batch: one large matrix
# product instead of $T$ small ones. And the neurons get their whole input at once, which makes fusion over time
# possible. The price: the whole sequence of every layer must be in memory.
#
# ![Two layers and their neurons over four time steps. Step by step, sixteen small pieces of work are done in order, one column after the other. Layer by layer, each layer is one piece of work over all steps: the linear layers at once, the neurons along time within one launch.](drawings/layers_and_steps.svg)
#
# Notice the arrows on the right: only the neurons have to go along time, and they do so inside one piece of work.
#
# > **Predict first.** Take two `Linear` layers, each followed by LIF neurons, and 32 steps. Sort these by time: step by
# > step, layer by layer, layer by layer with fused neurons. Where is the larger gain?

# %%
T, B, WIDTH = 32, 32, 256
layers = [torch.nn.Linear(WIDTH, 2 * WIDTH), torch.nn.Linear(2 * WIDTH, WIDTH)]
looped = nn.Sequential(layers[0], neuron.LIF(engine="eager"), layers[1], neuron.LIF(engine="eager")).to(device)
net = nn.Sequential(layers[0], neuron.LIF(engine="auto"), layers[1], neuron.LIF(engine="auto")).to(device)
x = 4 * torch.rand(T, B, WIDTH, device=device)


@torch.no_grad()
def step_by_step():
    first, second, outputs = looped[1], looped[3], []
    s1, s2 = first.initial_state(x.new_empty(B, 2 * WIDTH)), second.initial_state(x.new_empty(B, WIDTH))
    for x_t in x:
        spikes, s1 = first.step(layers[0](x_t), s1)
        spikes, s2 = second.step(layers[1](spikes), s2)
        outputs.append(spikes)
    return torch.stack(outputs)


@torch.no_grad()
def layer_by_layer():
    return looped(x)[0]


@torch.no_grad()
def layer_by_layer_fused():
    return net(x)[0]


candidates = [step_by_step, layer_by_layer, layer_by_layer_fused]
results = [candidate() for candidate in candidates]
same = [(out == results[0]).float().mean().item() for out in results]
times = measure.race({c.__name__: c for c in candidates}, repeats=7 if QUICK else 21, clock=clock)
for (name, measured), share in zip(times.items(), same, strict=True):
    print(f"{name:21} {measured.median * 1e3:7.2f} ms    the same spikes: {share:.2%}")
print(engine.explain(net, x))

# %% [markdown] tags=["slide"]
# **Notice.** The spikes agree. (If a few do not: a matrix product of another size may add in another order, and then a
# membrane within rounding error of its threshold may fire or not.) `explain` says which engine each layer used, and
# why.
#
# ## 3 · The benchmark
#
# SpikingJelly's documentation has an experiment that shows the benefit of fused neurons [1]: a layer of $2^{20}$ LIF
# neurons, $T = 8 \dots 128$ steps, forward alone and forward with backward, PyTorch's loop against a hand-written CUDA
# kernel. Now repeat it on your machine. All candidates compute the same equation, in different *engines*:
#
# | engine | what runs |
# |---|---|
# | `eager` | the loop over time in Python, one kernel per operation |
# | `block` | four to eight steps at a time, compiled by `torch.compile`'s Inductor (C++ on a CPU, Triton on a GPU) |
# | `cpp` | all steps in one loop of C++, generated from the equation (CPU) |
# | `triton` | all steps in one Triton kernel, generated from the equation (GPU) |
#
# > **Predict first, and write it down.** By what factor is the best engine faster than `eager` in inference: at the
# > smallest $T$, and at the largest? You know the ratio of the bytes. And if both axes are logarithmic, what is the
# > slope of time against $T$ for each: 1 (linear) or something else? Enter your numbers here; the cell after the next
# > explanation prints them below the measured ones.

# %%
GUESS_SHORT = None  # times faster at the smallest T, for example 5.0
GUESS_LONG = None  # times faster at the largest T
GUESS_SLOPE = None  # of the fused engine: 1.0 means that twice the steps take twice as long

# %% [markdown]
# `benchmark` is what `snnkit bench neurons` runs. The spikes and gradients of each engine are compared with those of
# `eager` before anything is timed; then the engines take turns, so that a slow moment of the machine affects all of
# them equally. The dashed *floor* is the time that a plain copy, timed in the same rounds, would need for the bytes of
# your exercise: no program can be faster unless its data come from a cache. (The first run compiles, which takes a
# quarter of a minute on a slow machine. Later runs load the kernels from disk.)

# %% tags=["slide"]
arguments = layer_race.Arguments(
    device=device.type,
    neurons=(N,),
    steps=STEPS,
    dtypes=("float32",),
    modes=("inference", "training"),
    engines=("eager", *compiled),
    peers=False,
    repeats=7 if QUICK else 11,
)
mine = layer_race.benchmark(arguments, say=lambda text: None)
viz.show(figures.races(mine))


def curve_of(record, mode, contestant):
    """T to the seconds: their median and spread, from the 10th to the 90th percentile of the rounds."""
    rows = [row for row in record["rows"] if (row["mode"], row["contestant"]) == (mode, contestant)]
    return {
        row["steps"]: measure.Timing(row["median_s"], (row["p10_s"], row["p90_s"]), row["host_s"], row["calls"])
        for row in rows
    }


def faster(loop, other):
    """How many times as fast as the loop; undecided where the spreads overlap."""
    if loop.spread[0] <= other.spread[1] and other.spread[0] <= loop.spread[1]:
        return "undecided"
    return f"{loop.median / other.median:.1f}"


def slope(curve):
    """Slope of the line from the first to the last point, both axes logarithmic: as flat and as steep as the spread allows."""
    (t0, first), *_, (t1, last) = curve.items()
    ends = [math.log(last.spread[i] / first.spread[1 - i]) / math.log(t1 / t0) for i in (0, 1)]
    between = f"{ends[0]:.2f} to {ends[1]:.2f}"
    return between if ends[1] - ends[0] < 0.5 else f"undecided ({between})"


timed = [name for name in ("eager", *compiled) if curve_of(mine, "inference", name)]
for mode, ratio in {"inference": alone / inference, "training": loop_training / training}.items():
    print(f"{mode}: times faster than eager (the ratio of the bytes is {ratio:.1f}); slope of the time against T")
    loop = curve_of(mine, mode, "eager")
    for name in timed:
        curve = curve_of(mine, mode, name)
        times = "" if name == "eager" else "".join(f"T = {t}: {faster(loop[t], curve[t]):9}  " for t in curve)
        print(f"  {name:7} {times} slope {slope(curve)}")
if GUESS_SHORT is not None:
    print(
        f"your guess: {GUESS_SHORT} times at T = {STEPS[0]}, {GUESS_LONG} times at T = {STEPS[-1]}, slope {GUESS_SLOPE}"
    )

# %% [markdown]
# **What to notice**
#
# - Look at the order of the lines and the gap between them, and compare it with the ratio of the bytes. If the gap is
#   smaller at small $T$, the reason is fixed costs per call: checks, allocation, launching. The fused engines pay them
#   once per sequence, the loop once per kernel.
# - A slope below 1 shows the same: where fixed costs dominate, twice the steps do not take twice the time.
# - Look at the distance to the floor. Small layers fit in the cache, so the copy is unusually fast and the floor
#   unusually low.
# - The vertical bars are the spread, from the 10th to the 90th percentile of the rounds. Where those of two engines
#   overlap, the list says *undecided*, and also where the spread leaves the slope open by 0.5 or more: on a busy machine
#   a single slope means nothing. Close other programs and run the cell again.
# - An outlier is rarely caused by an engine. On a CPU, the reason is often that the operating system provides new
#   memory, whose pages it must clear first. The fused engines keep large blocks for the next call, so this happens at
#   first only; the loop allocates its steps anew.
#
# ### Your run and others
#
# Times of different layer sizes cannot be compared directly, so we divide by $N \cdot T$: nanoseconds per neuron and
# step. A flat line means linear in $T$. For each record you see the loop, the best fused engine, and other libraries
# with the same equation; hover over a line for the machine.

# %%
others = {f"record {name}": records.load(name) for name in records.names("neurons")}
others |= {f"published {name}": records.load(name) for name in records.names("published")}
viz.show(figures.per_neuron_step({"your run": mine} | others, title="Your run, published runs and recorded runs"))
for name, record in others.items():
    print(f"{name}\n{heading(record)}", end="\n\n")
if not records.names("neurons"):
    print("No measured record comes with this version of the kit; `snnkit bench neurons --out FILE.json` writes yours.")

# %% [markdown]
# **What runs where, and why.** A fused neuron waits for memory, not for arithmetic. The memory of a GPU delivers many
# times as many bytes per second as that of a CPU, so a GPU pays once the layer is large. The same numbers as bars, the
# fastest of each machine:

# %%
bars = {}
for name, record in ({"this CPU" if device.type == "cpu" else "this GPU": mine} | others).items():
    rows = [row for row in record["rows"] if (row["mode"], row["equation"], row["steps"]) == ("inference", "LIF", 32)]
    seconds = (row.get("median_s") or row["seconds"] for row in rows)
    bars[name] = {"forward": min(1e9 * s / row["neurons"] / 32 for s, row in zip(seconds, rows))}
if device.type == "cpu":
    bars["this GPU: there is none"] = {}
viz.show(figures.shares(bars, "ns", title="LIF forward, T = 32: time per neuron and step"))

# %% [markdown]
# **What to notice.** Look at the published loop in *Forward and backward*: it is not flat. With twice the steps, each
# step was slower as well. That loop took slices `x[t]` from one large tensor, and the gradient of *each* slice was a
# tensor of the full size, almost all of it zeros: $T$ tensors of $T$ steps, $O(T^2)$. The loop of the `eager` engine
# splits the sequence once (`unbind`), and is linear in $T$ (with a small bend where the sequence becomes larger than a
# cache). Such a quadratic cost is easy to overlook: at $T = 8$ it is not visible.
#
# ### Small layers
#
# Most layers are far smaller than those of section 3. Compare them: each change of a control runs LIF neurons forward,
# in the loop and in one engine, and first compares their spikes. (An engine that runs for the first time compiles
# first, for some seconds.)
#
# > **Predict first.** (a) 16 times the neurons, from N = 1024 to 16,384: how many times longer does the loop take, and how many times the fused
# > engine? (b) 16 times the steps, from T = 8 to 128: the same two numbers. (c) Is there a size at which the loop wins?

# %%
viz.labs.engine_race()

# %% [markdown] tags=["slide"]
# **What to notice**
#
# - The loop mainly pays for *launching* kernels, again at every step, and at these sizes hardly for the neurons: 16
#   times as many neurons take far less than 16 times as long, but 16 times the steps do take 16 times as long or more.
#   The fused engine launches once per sequence, and for a small layer this is most of its time, so its time grows
#   little with either.
# - So the *speed-up* is largest for small layers and long sequences, and the loop should not win at any of these sizes.
#   Compiling takes a second or two, once on a machine. So on a CPU `auto` compiles small layers, too, where the results
#   stay those of the loop to the last bit.
# - Circles are medians, lines reach from the 10th to the 90th percentile. Where they overlap, the measurement shows no
#   difference.
#
# ## 4 · Your own neuron
#
# Hand-written kernels exist only for some neurons. Here the kernel is generated, so your neuron gets one, too. There is
# one condition: the step must be *elementwise*. Each neuron computes only with its own numbers, not with those of other
# neurons.
#
# Take a neuron with a refractory period: after a spike it rests for two steps, in which it ignores its input and does
# not fire. For one neuron, with plain numbers, this is easy to write:


# %%
def one_resting_neuron(x, v, rest):
    if rest > 0:  # resting: it ignores its input, and its membrane does not change
        return 0.0, v, rest - 1
    v = 0.9 * v + x
    if v >= 1.0:
        return 1.0, 0.0, 2.0  # a spike, a hard reset, two steps of rest
    return 0.0, v, 0.0


v = rest = 0.0
for x_t in (5.0, 5.0, 5.0, 5.0):
    spike, v, rest = one_resting_neuron(x_t, v, rest)
    print("spike" if spike else "-", end="  ")

# %% [markdown]
# With tensors, `if rest > 0` makes no sense: the condition has a different value for each neuron. It would not make a
# good kernel either. Neurons in the same vector register execute the same instruction at the same time; a single one
# cannot branch. So compute both cases for all neurons, then choose: `torch.where(condition, this, that)`.
#
# ### Exercise 06.2 · A step that fuses (8 minutes, ●●●)
#
# Write the same for tensors of any shape, without `if`. `fire(u)` returns the spikes, 1 where $u \ge 0$, and has the
# surrogate gradient.


# %% tags=["exercise"]
def resting_step(x, v, rest, fire):
    """One step of neurons [...] that rest for two steps after a spike: (spike, v, rest)."""
    awake = rest <= 0
    v = ...
    spike = ...
    return spike, v, ...


resting_step = attempt("06.2", resting_step)

# %% [markdown]
# Wrap it in a class with the type of the state and a step.


# %%
class RestingState(NamedTuple):
    v: torch.Tensor  # membrane
    rest: torch.Tensor  # steps until the rest ends


class Resting(neuron.Neuron):
    State = RestingState

    def __init__(self, engine="auto"):
        super().__init__(surrogate=surrogate.ATan(), engine=engine)

    def step(self, x, state):
        spike, v, rest = resting_step(x, state.v, state.rest, self.spike)
        return spike, RestingState(v, rest)


# %% [markdown]
# Now run your equation in every engine. First compare the results: spikes, last state and gradient must be those of
# `eager`. Only then measure the time.

# %%
x = 0.6 * torch.rand(32, 1, N, device=device)
gradient = torch.rand_like(x)


def both_ways(cell):
    """Spikes, last membrane, gradient of x."""
    leaf = x.detach().requires_grad_()
    out, state = cell(leaf)
    (x_grad,) = torch.autograd.grad(out, leaf, gradient)
    return out.detach(), state.v.detach(), x_grad


cells = {name: Resting(engine=name) for name in timed}
expected = both_ways(cells["eager"])
print(f"each neuron fires in {expected[0].mean():.1%} of the steps")
for name in timed[1:]:
    out, v, x_grad = both_ways(cells[name])
    off = ((x_grad - expected[2]).norm() / expected[2].norm()).item()
    equal = torch.equal(out, expected[0]), torch.equal(v, expected[1])
    print(f"{name:6} spikes equal: {equal[0]}   membranes equal: {equal[1]}   gradient off by {off:.0e}")

times = measure.race({name: lambda cell=cell: both_ways(cell) for name, cell in cells.items()}, repeats=5, clock=clock)
for name, measured in times.items():
    compared = "" if name == "eager" else f", times as fast as eager: {faster(times['eager'], measured)}"
    print(f"{name:6} {measured.median * 1e3:7.2f} ms forward and backward{compared}")

# %% [markdown] tags=["slide"]
# ## 5 · The generated code
#
# A Python function becomes a kernel in four stages, and you can look at each:
#
# 1. **The graph.** The step runs once on symbolic tensors while every operation is recorded (`make_fx`). Your `if`s,
#    loops and classes are not part of the record; it is a plain list of operations.
# 2. **The program.** The same for *one* neuron: a sequence of assignments to scalars, without operations that have no
#    effect on the result.
# 3. **C++**: that program inside three loops: tiles of neurons that fit in the cache, time, neurons of a tile.
# 4. **Triton**: the same program, with the loop over time inside the kernel. (Shown as text; you need no GPU to read
#    it.)

# %%
state = Resting().initial_state(torch.zeros(1))
equation = equation_of(Resting(), state, torch.float32, torch.device("cpu"))  # an equation is the same on every device
program, backward_program = programs(equation)


def as_text(program):
    """The assignments of a program, one per line."""
    lines = [f"{op.name} = {op.kind}({', '.join(map(str, op.arguments))})" for op in program.ops]
    return "\n".join([*lines, f"return {', '.join(map(str, program.results))}"])


def between(text, first, last):
    """The lines from the one that contains `first` to the next that contains `last`, dedented."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if first in line)
    end = next(i for i in range(start, len(lines)) if last in lines[i])
    return textwrap.dedent("\n".join(lines[start : end + 1]))


graph = equation.forward.code.replace("torch.ops.", "").strip()
cpp_text, _ = cpp.forward_source(equation, torch.float32, torch.float32, ())
cpp_loop = between(cpp_text, "for (int64_t t = 0", "flush(")
triton_text = between(triton.source_of(equation), "def ", "# Step 2.")
viz.listing(
    {
        "1 · the graph": graph,
        "2 · the program of one neuron": as_text(program),
        "3 · C++": cpp_loop,
        "4 · Triton": triton_text,
    }
)

# %% [markdown]
# **What to notice**
#
# - `x` and `s0` (your `v`), `s1` (your `rest`) are the inputs; the spike and the new states are the results. Each line
#   of the program appears once in the C++ and once per step in the Triton kernel, under the same name. If you change
#   your equation, all four change. (0.8999999761581421 is 0.9 rounded to float32.)
# - **Where the state is stored.** In the C++ loop `s0[at + i]` is an array, but one tile of it stays in the processor's
#   second-level cache from the first step to the last. In Triton it is a register. In both cases, only `x` is read from
#   main memory and only spikes are written to it: 8 bytes.
# - **Loads come first** in Triton: eight steps of `x` are requested before the first is used, so that the GPU waits
#   once instead of eight times.
# - `tl.fma(a, b, nil)` is $a \cdot b - 0$: an unusual way to write a product, which prevents the compiler from merging
#   it with the next addition. Merging would be slightly *more* precise, but the spikes would no longer be equal to
#   those of `eager` to the last bit.
#
# And what does `torch.compile` do without an engine? It generates such kernels from any PyTorch program. Here is the
# code of its Inductor for *one* step: the operations are fused, but at every step the state is read from memory and
# written back (`in_ptr…`, `out_ptr…`). The `block` engine gives it several steps at once, so that the states in between
# stay in registers.


# %%
@torch.no_grad()
def one_step(x, v, rest):
    spike, state = cells["eager"].step(x, RestingState(v, rest))
    return spike, *state


def inductor_kernel():
    """The kernel that torch.compile generates for one step, without the wrapper code."""
    from torch._inductor.utils import run_and_get_code

    _, (code, *_) = run_and_get_code(torch.compile(one_step), *torch.rand(3, N, device=device))
    return re.search(r"'''\n(.*?)'''", code, re.DOTALL)[1]


viz.listing({"torch.compile, one step": compiler_missing or inductor_kernel()})

# %% [markdown]
# **The Triton kernel on your CPU.** Triton has an interpreter, which runs a kernel in NumPy. It is far too slow for
# real work, but it can check a kernel's results without a GPU. (Triton is made for Linux; on other systems the cell
# says so.)

# %%
if find_spec("triton") is None:
    print("Triton is not installed here, so there is only the text above.")
else:
    os.environ["TRITON_INTERPRET"] = "1"
    try:
        little, cell = 0.9 * torch.rand(11, 1, 50), Resting(engine="triton")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what did not work is printed below
            interpreted, _ = cell(little)
        (ran,) = engine.explain(cell, little)
    finally:
        del os.environ["TRITON_INTERPRET"]
    same = torch.equal(interpreted, Resting(engine="eager")(little)[0])
    print(f"the {ran.engine} engine on {little.device}: spikes equal to those of eager: {same}")
    if ran.engine != "triton":
        print(textwrap.fill(f"Triton {version_of('triton')} does not interpret it here: {ran.reason}", 90))

# %% [markdown] tags=["slide"]
# ## 6 · Backward: recompute instead of storing
#
# For the surrogate gradient, the backward pass needs $V$ at every step. There are two ways to provide it:
#
# - **store**: forward writes $V$ to memory (and whatever else the derivative needs), backward reads it. Autograd does
#   this for every operation that needs it;
# - **recompute**: forward stores only its input. Backward runs the steps again, in cache or registers, and then goes
#   back in time.
#
# The second way computes more and moves less. This pays as long as memory is the bottleneck, and it leaves room for a
# larger batch. Here is the backward program of one neuron: the first lines are those of forward, again; `g` is the
# gradient of the spike, `d0` and `d1` those of the state, and the results are the gradients of `x` and of the previous
# state.

# %%
print(f"{len(program.ops)} operations forward, {len(backward_program.ops)} backward (including the recomputed ones)")
cpp_text, *_ = cpp.backward_source(equation, torch.float32, (), (True,))
cpp_loop = between(cpp_text.partition("// Back in time")[2], "#pragma omp simd", "flush(")
viz.listing({"backward through one step": as_text(backward_program), "the same in C++": cpp_loop})

# %% [markdown] tags=["slide"]
# > **Predict first.** How many bytes per neuron and step stay allocated between forward and backward: in the loop, and fused?
#
# Autograd's hooks for saved tensors show what is stored (each memory block is counted once):

# %%
some = torch.rand(32, 1, 2**12, device=device)
for name in timed:
    blocks, leaf = {}, some.detach().requires_grad_()

    def store(tensor, blocks=blocks):
        memory = tensor.untyped_storage()
        blocks[memory.data_ptr()] = memory.nbytes() / some.numel()
        return tensor

    cells[name](leaf)  # compiles first
    with torch.autograd.graph.saved_tensors_hooks(store, lambda tensor: tensor):
        out, _ = cells[name](leaf)
    blocks.pop(out.untyped_storage().data_ptr(), None)  # the next layer has it anyway
    of_x = blocks.get(some.untyped_storage().data_ptr(), 0)
    print(f"{name:6} {sum(blocks.values()):5.1f} bytes per neuron and step, {of_x:.0f} of them x itself")

# %% [markdown]
# The fused engines store `x`, and a little for the states at some steps. (Nothing else holds `x`: `Linear`, `Conv2d` and
# batch norm store their *inputs* for backward, not their outputs.)
#
# **Spikes of one byte.** Inference needs no gradients, and a spike is one bit. `out_dtype=torch.uint8` stores it in a
# byte: 5 bytes moved instead of 8, and a quarter of the memory for the output.

# %%
cell = Resting()  # engine="auto"
with torch.no_grad():
    wide, _ = cell(x)
    bytes_out, _ = cell(x, out_dtype=torch.uint8)
print(
    f"float32: {wide.nbytes / 1e6:.1f} MB   uint8: {bytes_out.nbytes / 1e6:.1f} MB   equal: {(wide == bytes_out).all()}"
)

try:
    cell(x.detach().requires_grad_(), out_dtype=torch.uint8)
except ValueError as error:
    print(f"with gradients: ValueError: {error}")

# %% [markdown] tags=["slide"]
# ## 7 · What broke?
#
# A colleague has two ideas. *Fair* neurons compete: each gets its input minus the mean of the layer. *Impatient*
# neurons save work: if no neuron is above threshold, they skip the reset. Both work, but both are slow.
#
# > **Find the reason before you run the cell.** What do the two steps have in common that makes fusion over time
# > impossible?


# %%
class Fair(neuron.IF):
    def step(self, x, state):
        return super().step(x - x.mean(-1, keepdim=True), state)


class Impatient(neuron.IF):
    def step(self, x, state):
        if (state.v + x).max() < 1.0:  # no neuron will fire
            return torch.zeros_like(x), type(state)(state.v + x)
        return super().step(x, state)


fair_input = 3 * torch.rand(8, 1, N, device=device)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    slow_out, _ = Fair()(fair_input)
    Impatient()(fair_input)
for warning in caught:  # each warning appears once; no engine falls back silently
    print(textwrap.fill(f"Warning: {warning.message}", 90))
print()
print(engine.explain(nn.Sequential(Fair(), Impatient()), fair_input))

# %% [markdown]
# The mean mixes neurons: no neuron can compute step 2 before *all* have computed step 1, so a neuron cannot run through
# all time steps alone. With the `if`, the data decide which operations come next, so there is no fixed program (and on
# a GPU the host waits for the data at every step). The engine warns once and uses the loop: slower, but never wrong.
#
# The fix depends on the purpose. Here the mean is of the *input*, which is known for all steps in advance. So it can be
# a separate layer, run layer by layer, and the neuron stays elementwise. With the mean of the *membranes* the loop
# would be necessary: that is recurrence, and it has its cost. The impatient neuron needs no `if` at all: in a fused
# kernel the reset is free.


# %%
class Centre(torch.nn.Module):
    """Subtracts the mean of the layer: [..., N]."""

    def forward(self, x):
        return x - x.mean(-1, keepdim=True)


repaired = nn.Sequential(Centre(), neuron.IF())
out, _ = repaired(fair_input)
print(f"the same spikes: {(out == slow_out).float().mean():.2%}")
print(engine.explain(repaired, fair_input))

# %% [markdown] tags=["slide"]
# ## 8 · The roofline
#
# How fast could it be at best? A program that computes `operations` and moves `bytes` is limited by two properties of
# the machine: the *rate* of arithmetic (operations per second) and the *bandwidth* of memory (bytes per second). The
# machine does both at the same time: while it computes with some numbers, it loads the next.
#
# ### Exercise 06.3 · The roofline (4 minutes, ●○○)
#
# Return the least time that such a program takes, in seconds.


# %% tags=["exercise"]
def least_seconds(operations, bytes, rate, bandwidth):
    """The least time of a program that computes and moves memory at the same time."""
    return ...


least_seconds = attempt("06.3", least_seconds)

# %% [markdown] tags=["slide"]
# Divide the operations by that time and you have the **roofline** [2]: the rate that a program can reach, as a function of its *intensity*,
# the operations it does for each byte it moves,
#
# $$\text{rate} \le \min\big(\text{bandwidth} \cdot \text{intensity},\ \text{rate}_{\max}\big), \qquad
# \text{intensity} = \frac{\text{operations}}{\text{bytes}}. \tag{2}$$
#
# On the slope a program is *memory bound*, on the flat part *compute bound*. To see both we need neurons with different
# amounts of arithmetic. `Busy(k)` multiplies and adds its input $k$ more times before it behaves like any leaky neuron.
#
# > **Predict first.** `Busy(0)` does about ten operations a step, `Busy(64)` more than a hundred, and both move 8 bytes. How much longer does
# > `Busy(64)` take, fused?


# %%
class Busy(neuron.Neuron):
    """A leaky neuron with k superfluous multiplications and additions."""

    def __init__(self, k, engine="auto"):
        super().__init__(surrogate=surrogate.ATan(), engine=engine)
        self.k = k

    def step(self, x, state):
        strands = [x] * 4  # independent of each other, so that no operation has to wait for the one before
        for i in range(self.k):
            strands[i % 4] = strands[i % 4] * (0.99 - 0.01 * (i % 4)) + 0.01
        v = 0.9 * state.v + sum(strands) / 4
        spike = self.spike(v - 1.0)
        return spike, neuron.MembraneState(v * (1 - spike))


# %% tags=["slide"]
x = torch.rand(16, 1, 2**18 if device.type == "cpu" else 2**22, device=device)
copied = torch.empty_like(x)
ks = (0, 8, 24, 64)
chosen = engine.explain(Busy(0), x)[0].engine  # what "auto" chooses


def pass_of(cell):
    def run():
        with torch.no_grad():
            return cell(x)[0]

    return run


def counted(cell):
    """Operations, and the bytes that they move unfused, per neuron and step."""
    one = torch.rand(1)
    at_rest = cell.initial_state(one)
    with measure.Traffic() as seen:
        cell.step(one, at_rest)
    equation = equation_of(cell, at_rest, torch.float32, one.device)
    return len(programs(equation).forward.ops), seen.bytes


candidates = {"copy": lambda: copied.copy_(x), **{f"k = {k}": pass_of(Busy(k)) for k in ks}}
times = measure.race(candidates, repeats=7, clock=clock)
times |= measure.race({"loop": pass_of(Busy(0, "eager"))}, repeats=3, clock=clock)
bandwidth = 2 * x.nbytes / times["copy"].median

runs = []
for k in ks:
    operations, _ = counted(Busy(k))
    seconds = times[f"k = {k}"].median
    runs.append(
        figures.Run(f"{chosen}, k = {', '.join(map(str, ks))}", operations * x.numel(), inference * x.numel(), seconds)
    )
operations, loop_bytes = counted(Busy(0))
runs.append(figures.Run("loop, k = 0", operations * x.numel(), loop_bytes * x.numel(), times["loop"].median))
rate = max(run.rate for run in runs)

for k, run in zip(ks, runs, strict=False):
    least = least_seconds(run.operations, run.bytes, rate, bandwidth)
    line = f"k = {k:2}: {run.operations / x.numel():4.0f} operations, {run.seconds * 1e3:6.1f} ms"
    print(f"{line}; the roofline allows {least * 1e3:5.1f} ms")
print(f"loop  : {operations:4} operations, {runs[-1].seconds * 1e3:6.1f} ms, {loop_bytes} bytes")
print(f"a copy moves {bandwidth / 1e9:.1f} GB/s, the best neuron computes {rate / 1e9:.1f}·10⁹ operations per second")
viz.show(figures.roofline(runs, bandwidth, rate, title=f"Neurons in the roofline of this machine ({device})"))

# %% [markdown]
# **What to notice**
#
# - The fused points move to the right with $k$: more operations for the same 8 bytes. As long as they are on the slope,
#   *the additional arithmetic is free*: compare the first times. A real neuron (`k = 0`, or an adaptive threshold, or a
#   second current) is in this region.
# - The loop is far to the left. It does the same operations but moves a dozen times the bytes, and in addition pays for
#   launching each kernel. Faster arithmetic would not help it.
# - Is it *above* the roof? Then you see the effect of the cache: the tensors of one step are small, and the next kernel
#   reads them from the cache. `Traffic` counts the bytes that are requested, and a cache delivers them faster than
#   memory. The whole sequence does not fit in it.
# - The flat part is not the manufacturer's peak but the best rate that any of these neurons reached here, on a CPU with
#   one thread.
#
# **Explorer.** This is a model of the loop and of the fused kernel with *your* roofline, as just measured. In the loop
# every operation moves about nine bytes and costs one launch.
#
# 1. At which number of operations does the fused neuron become compute bound? Does the loop ever?
# 2. Make the layer small (`log2_neurons = 10`). Which of the two becomes slow, and why?
# 3. bfloat16 halves the bytes. For which of the two does this halve the time?

# %%
SIZES = {"float32": (4, 4), "bfloat16": (2, 2), "float32, uint8 spikes": (4, 1)}


def under_the_roof(
    operations=10,
    log2_neurons=16,
    steps=32,
    launch_us=4.0,
    numbers="float32",
    least=least_seconds,
    limits=(rate, bandwidth),
):
    """Loop and fused kernel in the roofline; the title gives their times."""
    count = 2**log2_neurons * steps
    wide, spike = SIZES[numbers]
    fused_bytes, loop_bytes = (wide + spike) * count, 2.25 * wide * operations * count
    fused = least(operations * count, fused_bytes, *limits) + launch_us * 1e-6
    loop = least(operations * count, loop_bytes, *limits) + operations * steps * launch_us * 1e-6
    runs = [
        figures.Run("loop", operations * count, loop_bytes, loop),
        figures.Run("fused", operations * count, fused_bytes, fused),
    ]
    title = f"loop {loop * 1e3:.3g} ms, fused {fused * 1e3:.3g} ms: {loop / fused:.1f} times"
    return figures.roofline(runs, limits[1], limits[0], span=(0.03, 1000), title=title)


sliders = {"operations": (1, 500), "log2_neurons": (8, 24), "steps": (4, 128, 4), "launch_us": (0.0, 20.0, 1.0)}
viz.explore(under_the_roof, **sliders, numbers=list(SIZES))

# %% [markdown]
# Two ways to more speed remain: bring the points closer to the roof, or raise what the roof allows. The first is
# engineering. The second needs fewer bytes: narrower numbers, spikes of a byte or a bit, or fusion of the neuron with
# the layer before it, so that `x` is never written at all. (`torch.compile` of a whole model does that for short
# sequences: it inlines the loop and merges it with the normalisation in front.)
#
# ## Quiz

# %%
quiz("06")

# %%
scorecard("06")

# %% [markdown]
# ## Where next
#
# One layer is fast now. **[07 · A 128-channel conv SNN with AMP](07_conv_snn.ipynb)** uses it in a real network: 128
# channels, Fashion-MNIST, mixed precision, and the question how much of a training step the neurons still take.
#
# Meanwhile: `snnkit bench neurons --help`. It runs the benchmark of section 3 at any size, together with other
# libraries (`make peers`), and writes a record that says where its numbers come from.
#
# **Worth reading**
#
# 1. SpikingJelly, *Accelerate with CUDA-enhanced neuron and layer-by-layer propagation*:
#    [tutorial](https://github.com/fangwei123456/spikingjelly/blob/95676af14965e3cd765e55d931db87a737205b5d/docs/source/legacy_tutorials/en/11_cext_neuron_with_lbl.rst).
#    W. Fang et al., *SpikingJelly: an open-source machine learning infrastructure platform for spike-based intelligence*, Science Advances 9 (2023).
#    [doi:10.1126/sciadv.adi1480](https://doi.org/10.1126/sciadv.adi1480)
# 2. S. Williams, A. Waterman, D. Patterson, *Roofline: an insightful visual performance model for multicore architectures*, CACM 52 (2009).
#    [doi:10.1145/1498765.1498785](https://doi.org/10.1145/1498765.1498785)
# 3. P. Tillet, H. T. Kung, D. Cox, *Triton: an intermediate language and compiler for tiled neural network computations*, MAPL (2019).
#    [doi:10.1145/3315508.3329973](https://doi.org/10.1145/3315508.3329973)
# 4. J. Ansel et al., *PyTorch 2: faster machine learning through dynamic Python bytecode transformation and graph compilation*, ASPLOS (2024).
#    [doi:10.1145/3620665.3640366](https://doi.org/10.1145/3620665.3640366)
# 5. T. Chen, B. Xu, C. Zhang, C. Guestrin, *Training deep nets with sublinear memory cost* (2016), on recomputing
#    instead of storing. [arXiv:1604.06174](https://arxiv.org/abs/1604.06174)
