# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown] tags=["badge"]
# [![Open In Colab](drawings/open_in_colab.svg)](https://colab.research.google.com/github/snnkit/snnkit/blob/main/notebooks/11_fused_neurons.ipynb)

# %% [markdown] tags=["slide"]
# # 11 · Fused multi-step neurons
#
# A spiking neuron does a handful of additions and multiplications per time step, a processor does billions per second.
# Yet a layer of neurons, written in the obvious way, can take longer than the convolutions before it. This notebook
# shows where the time goes, and gets most of it back.
#
# **Afterwards you can**
#
# - count the bytes that a neuron moves, and predict from them how much faster it can become;
# - order the work step by step or layer by layer, and know what each costs;
# - read the C++ and the GPU code that is generated from your own neuron;
# - write a step that can be compiled over time, and recognise one that cannot;
# - say whether arithmetic or memory limits a program.
#
# | | |
# |---|---|
# | Time | 75 minutes, and 10 more for the optional parts |
# | GPU minutes | 0. Everything runs on a CPU; where there is a GPU the same cells use it |
# | Before this | 02 surrogate gradients, 10 devices |

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
QUICK: bool = True  # False: the sizes of the published experiment, 2^20 neurons (2^18 on a CPU) and up to 128 steps
SOLVE: bool = False  # True: the exercises are filled in with their solutions
SEED: int = 0  # seed of weights and inputs
DEVICE: str = "auto"  # "auto", "cpu" or "cuda"

# %%
import warnings
from textwrap import fill
from typing import NamedTuple

import torch

from snnkit import data, engine, measure, neuron, nn, records, surrogate, train
from snnkit.lab import bench, course, viz
from snnkit.lab.course import attempt, hint, outcome, predict, quiz, scorecard, solution
from snnkit.lab.viz import figures

train.seed_everything(SEED)
course.start("fused_neurons", solve=SOLVE)
device = data.resolve_device(DEVICE)
clock = measure.clock_for(device)
torch.set_num_threads(1)  # one core, so that we time the work and not the start of threads
compiled = [name for name, _ in engine.AUTO[device.type]]  # the engines made for this device
compiler_missing = engine.missing_compiler(device.type)
N = 2**16 if QUICK else 2**18 if device.type == "cpu" else 2**20
STEPS = (8, 16, 32) if QUICK else (8, 16, 32, 64, 128)
print(f"on {device}: engines {', '.join(['eager', *compiled])}; {N:,} neurons, T = {', '.join(map(str, STEPS))}")
if compiler_missing:
    print(f"Without a compiler the fused engines cannot run here, and eager is used instead: {compiler_missing}.")


def faster(mode, name, steps):
    """How many times as fast as the loop; undecided where the spreads (10th to 90th percentile) overlap."""
    loop, other = rows[mode, "eager", steps], rows[mode, name, steps]
    apart = loop["p10_s"] > other["p90_s"] or other["p10_s"] > loop["p90_s"]
    return f"{loop['median_s'] / other['median_s']:.1f}" if apart else "undecided"


def counted(cell):
    """Operations, and the bytes that they move unfused, per neuron and step."""
    one = torch.rand(1)
    at_rest = cell.initial_state(one)
    with measure.Traffic() as seen:
        cell.step(one, at_rest)
    equation = engine.equation_of(cell, at_rest, torch.float32, one.device)
    return len(engine.programs(equation).forward.ops), seen.bytes


# %% [markdown] tags=["slide"]
# ## 1 · One step, many kernels
#
# **Explorer: the race.** The same layer of neurons runs forward in two ways: as a loop over time in Python (`eager`),
# and as one compiled program. The spikes are compared first, then the times are measured on your machine.
#
# 1. Go from 1024 to 16,384 neurons. How much longer does the loop take?
# 2. Go from 8 to 128 steps. And now?
# 3. Is there a size at which the loop wins?
#
# (A program that runs for the first time is compiled first, for some seconds.)

# %%
viz.explorers.engine_race()

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - With 16 times the neurons the loop takes far less than 16 times as long. With 16 times the steps it takes 11 to 16
#   times as long. So for small layers it hardly pays for neurons. It pays for steps.
# - The compiled program wins most where layers are small and sequences are long.
# - Circles are medians, lines reach from the 10th to the 90th percentile. Where they overlap, the order is undecided.
#
# </details>

# %% [markdown] tags=["slide"]
# Why is the loop so slow? Here is what one step computes. It is the kit's LIF neuron ($\tau$ in time steps, the rest
# without units; $v_\text{reset}$ is 0 here, but is computed):
#
# $$v \leftarrow v + \frac{x - v}{\tau}, \quad s = H(v - \theta), \quad v \leftarrow (1 - s)\,v + s\,v_\text{reset} \tag{1}$$

# %% [markdown]
# In PyTorch that is a few lines. Each operator in them is a *kernel*: a separate program. It reads its tensors from
# memory, does one operation on each number, writes the result to memory, and ends. Starting it is a *launch*. The next
# kernel reads that result again. It is like driving to the shop for every single egg.

# %% [markdown] tags=["slide-more"]
# **Predict first.** How many kernels does one step of (1) take? How many bytes do they read and write for one neuron, if
# a number is a float32 (4 bytes)?

# %%
predict("fused_neurons.a")
predict("fused_neurons.b")

# %% [markdown]
# `Traffic` records every kernel that PyTorch runs. We give it a layer of one neuron, so its bytes are bytes per neuron:

# %%
cell = neuron.LIF(tau=2.0, engine="eager")
x_one = torch.rand(1)
with measure.Traffic() as seen:
    cell.step(x_one, cell.initial_state(x_one))
ops = seen.kernels[2:]  # the first two make the membrane of the first step
for name, reads, writes in ops:
    print(f"{name:10} bytes read: {sum(reads):2}   bytes written: {sum(writes)}")
moved = sum(sum(reads) + sum(writes) for _, reads, writes in ops)
print(f"{len(ops)} kernels, {moved} bytes")
outcome("fused_neurons.a", len(ops))
outcome("fused_neurons.b", moved)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - Each kernel writes one result per neuron. Only two of the ten results are needed after the step: the membrane, for
#   the next step, and the spike.
# - `ge` writes a boolean, one byte, and `_to_copy` converts it to a number.
# - The table does not show the launches. Each takes a few microseconds, however little the kernel does. In the race they
#   were most of the loop's time in small layers.
#
# </details>

# %% [markdown]
# Now imagine one kernel for the whole sequence. It holds $v$ in a *register*, a place for one number inside the
# processor. It reads $x[0]$, computes, writes $s[0]$, reads $x[1]$, … Intermediate values never leave the processor.
# Such a kernel is *fused*: over operations *and* over time.
#
# ### Exercise 11.1 · Count the bytes (7 minutes, ●●○)
#
# Compute three numbers, each in bytes per neuron and step:
#
# 1. `alone`: every kernel separately, as in the table above (`ops` holds the names, and tuples of bytes);
# 2. `inference`: everything fused, the state in registers. `x` and `spike` are the bytes of one number of the input and
#    the output;
# 3. `training`: everything fused, forward *and* backward. To save memory, the forward pass stores only its input. The
#    backward pass reads the gradient of the spikes, needs all membranes again, and writes the gradient of the input. (A
#    gradient has as many bytes as the tensor that it belongs to.)
#
# Stuck? `hint("fused_neurons.1")`.


# %% tags=["exercise"]
def bytes_moved(ops, x=4, spike=4):
    """Bytes per neuron and step: (every operation by itself, all fused: inference, all fused: training)."""
    alone = ...  # ops: [(name, (bytes of each tensor read, …), (bytes of each tensor written, …)), …]
    inference = ...
    training = ...
    return alone, inference, training


bytes_moved = attempt("fused_neurons.1", bytes_moved)

# %% tags=["slide"]
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
# ## 2 · Step by step, or layer by layer
#
# A network can process time in two orders [1]:
#
# | | outer loop | what runs at once |
# |---|---|---|
# | **step by step** | over time: each step passes through all layers | one layer, one step: `[B, N]` |
# | **layer by layer** | over layers: each layer handles the whole sequence | one layer, all steps: `[T, B, N]` |

# %% [markdown]
# Layer by layer computes the same in a *feed-forward* network (batch norm: see 12). In a *recurrent* one, connections lead back to an earlier
# layer, and only step by step is possible. Layer by layer has two advantages. Layers without state (`Linear`, `Conv2d`,
# …) fold time into the batch: one large matrix product instead of $T$ small ones. And the neurons get their whole input
# at once, which makes fusion over time possible. The price: the whole sequence of a layer must be in memory.
#
# ![Two layers and their neurons over four time steps. Step by step, sixteen small pieces of work are done in order, one column after the other. Layer by layer, each layer is one piece of work over all steps: the linear layers at once, the neurons along time within one launch.](drawings/layers_and_steps.svg)

# %% [markdown] tags=["slide-more"]
# **Predict first.** Two `Linear` layers, each followed by LIF neurons, and 32 steps: (a) step by step, (b) layer by
# layer, (c) layer by layer with fused neurons. How many times as fast is (c) as (a)? Which of the two changes gains more?

# %%
predict("fused_neurons.c")

# %%
T, B, WIDTH = 32, 32, 256
layers = [torch.nn.Linear(WIDTH, 2 * WIDTH), torch.nn.Linear(2 * WIDTH, WIDTH)]
looped, fused = (
    nn.Sequential(layers[0], neuron.LIF(engine=name), layers[1], neuron.LIF(engine=name)).to(device)
    for name in ("eager", "auto")
)
x = 4 * torch.rand(T, B, WIDTH, device=device)


def step_by_step():
    first, second, outputs = looped[1], looped[3], []
    s1, s2 = first.initial_state(x.new_empty(B, 2 * WIDTH)), second.initial_state(x.new_empty(B, WIDTH))
    for x_t in x:
        spikes, s1 = first.step(layers[0](x_t), s1)
        spikes, s2 = second.step(layers[1](spikes), s2)
        outputs.append(spikes)
    return torch.stack(outputs)


# %% tags=["slide"]
candidates = {"step by step": step_by_step, "layer by layer": lambda: looped(x)[0], "… and fused": lambda: fused(x)[0]}
with torch.no_grad():
    results = {name: candidate() for name, candidate in candidates.items()}
    times = measure.race(candidates, repeats=7 if QUICK else 21, clock=clock)
for name, measured in times.items():
    same = (results[name] == results["step by step"]).float().mean()
    print(f"{name:15} {measured.median * 1e3:7.2f} ms    the same spikes: {same:.2%}")
a, b, c = (measured.median for measured in times.values())
print(f"layer by layer {a / b:.1f} times as fast, fused {b / c:.1f} times as fast as that")
outcome("fused_neurons.c", a / c)
engine.explain(fused, x)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The spikes agree. (If a few do not: a matrix product of another size may add in another order. Then a membrane within
# rounding error of its threshold may fire or not.) `explain` says which *engine*, which way of running neurons, each
# layer used, and why.
#
# </details>

# %% [markdown] tags=["slide"]
# ## 3 · The benchmark
#
# Small layers are slow because of launches. What about large ones? We time a layer of LIF neurons, forward alone, and
# forward with backward, in different engines:
#
# | engine | what runs |
# |---|---|
# | `eager` | the loop over time in Python, one kernel per operation |
# | `block` | four or eight steps at a time, compiled by *Inductor*, the compiler behind `torch.compile` |
# | `cpp` | all steps in one loop of C++, generated from the equation (CPU) |
# | `triton` | all steps in one kernel in *Triton*, a language for GPU kernels, generated from the equation (GPU) |

# %% [markdown]
# SpikingJelly's documentation has this experiment [1]: $2^{20}$ neurons, $T = 8 \dots 128$ steps, PyTorch's loop against
# a hand-written CUDA kernel. Now repeat it on your machine.

# %% [markdown] tags=["slide-more"]
# **Predict first.** By what factor is the best engine faster than `eager` in inference: at the smallest $T$, and at the
# largest? (The layer is large now, and you know the ratio of the bytes.)

# %%
predict("fused_neurons.d")
predict("fused_neurons.e")

# %% [markdown]
# `benchmark` compares the spikes and gradients of each engine with those of `eager` before it times anything. Then the
# engines take turns, so that a slow moment of the machine affects all of them. The dashed *floor* is the time that a
# plain copy needs for the bytes of your exercise. No program can be faster, unless its data come from a cache. (The
# first run compiles, for up to a quarter of a minute. `faster` is in the cell of the imports.)

# %% tags=["slide"]
arguments = bench.neurons.Arguments(
    device=device.type,
    neurons=(N,),
    steps=STEPS,
    dtypes=("float32",),
    modes=("inference", "training"),
    engines=("eager", *compiled),
    peers=False,
    repeats=7 if QUICK else 11,
)
mine = bench.neurons.benchmark(arguments, say=lambda text: None)
viz.show(figures.races(mine))

# %% tags=["slide"]
rows = {(row["mode"], row["contestant"], row["steps"]): row for row in mine["rows"]}
timed = [name for name in ("eager", *compiled) if ("inference", name, STEPS[0]) in rows]

for mode, ratio in {"inference": alone / inference, "training": loop_training / training}.items():
    print(f"{mode}: times faster than eager (the ratio of the bytes is {ratio:.1f})")
    for name in timed[1:]:
        print(f"  {name:7}", "".join(f"T = {steps}: {faster(mode, name, steps):11}" for steps in STEPS))

seconds = {(name, steps): rows["inference", name, steps]["median_s"] for name in timed for steps in STEPS}
gain = [seconds["eager", steps] / min(seconds[name, steps] for name in timed) for steps in STEPS]
outcome("fused_neurons.d", gain[0])
outcome("fused_neurons.e", gain[-1])

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - Compare the gap between the lines with the ratio of the bytes. If the gap is smaller at small $T$, the reason is
#   fixed costs per call, such as checks and allocation. If it is larger there, so few steps fit into a cache, and the
#   fused engine need not wait for memory.
# - Both axes are logarithmic, so a slope of 1 is linear: twice the steps, twice the time.
# - Where the spread of an engine overlaps the loop's, the list says *undecided*. Close other programs and run the cell
#   again.
#
# </details>
#
# ### Your run and others (optional)
#
# Times of different layer sizes cannot be compared directly, so we divide by $N \cdot T$: nanoseconds per neuron and
# step. A flat line means linear in $T$. (`snnkit bench show NAME` prints where a record comes from.)

# %%
others = {}
for name in [*records.names("neurons"), *records.names("published")]:
    origin = records.load(name)["provenance"]
    place = (origin.get("hardware") or origin["device"]["name"]).partition(",")[0].removeprefix("GeForce ")
    others[place if place not in others else f"{place}, {name}"] = records.load(name)
published = {place: record for place, record in others.items() if record["kind"] == "published"}
viz.show(figures.per_neuron_step({"your run": mine} | published, title="A loop costs more for each neuron and step"))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# Look at the published loop in *Forward and backward*: it is not flat. That loop took slices `x[t]` from one large
# tensor. The gradient of *each* slice was a tensor of the full size, almost all of it zeros: $T$ tensors of $T$ steps,
# $O(T^2)$. The loop of the `eager` engine splits the sequence once (`unbind`), and is linear in $T$.
#
# </details>

# %% [markdown]
# A fused neuron waits for memory. That of a GPU delivers many times as many bytes per second, so a GPU pays once the
# layer is large. The fastest engine of each machine (`snnkit bench record` measures your GPU and writes a file to send in):

# %% tags=["slide"]
bars = {}
for name, record in ({"this CPU" if device.type == "cpu" else "this GPU": mine} | others).items():
    of_32 = [row for row in record["rows"] if (row["mode"], row["equation"], row["steps"]) == ("inference", "LIF", 32)]
    seconds = (row.get("median_s") or row["seconds"] for row in of_32)
    bars[name] = {"forward": min(1e9 * s / row["neurons"] / 32 for s, row in zip(seconds, of_32, strict=True))}
if device.type == "cpu":
    bars["this GPU: there is none"] = {}
fastest = min((name for name in bars if bars[name]), key=lambda name: bars[name]["forward"])
viz.show(figures.shares(bars, "ns", title=f"A LIF neuron takes least time per step on {fastest}"))

# %% [markdown] tags=["slide"]
# ## 4 · Your own neuron
#
# The kernel is *generated*, so your own neuron gets one, too. One condition: the step must be *elementwise*. Each
# neuron computes only with its own numbers.

# %% [markdown]
# Take a neuron with a *refractory period*. After a spike it rests for two steps: it ignores its input and does not fire.
# For one neuron, with plain numbers, this is easy to write:


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
# With tensors, `if rest > 0` makes no sense: the condition has a different value for each neuron. So compute both cases
# for all neurons, then choose: `torch.where(condition, this, that)`.
#
# ### Exercise 11.2 · A step that fuses (8 minutes, ●●●)
#
# Write the same for tensors of any shape, without `if`. `fire(u)` returns the spikes, 1 where $u \ge 0$, and has the
# surrogate gradient $\sigma'$.


# %% tags=["exercise"]
def resting_step(x, v, rest, fire):
    """One step of neurons [...] that rest for two steps after a spike: (spike, v, rest)."""
    # Begin with a condition, awake: rest <= 0.
    v = ...
    spike = ...
    return spike, v, ...


resting_step = attempt("fused_neurons.2", resting_step)

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

# %% tags=["slide"]
x = 0.6 * torch.rand(32, 1, N, device=device)
gradient = torch.rand_like(x)


def both_ways(cell):
    """Spikes, last membrane, gradient of x."""
    leaf = x.detach().requires_grad_()
    out, state = cell(leaf)
    (x_grad,) = torch.autograd.grad(out, leaf, gradient)
    return out.detach(), state.v.detach(), x_grad


cells = {name: Resting(engine=name) for name in timed}
results = {name: both_ways(cell) for name, cell in cells.items()}
times = measure.race({name: lambda cell=cell: both_ways(cell) for name, cell in cells.items()}, repeats=5, clock=clock)
spikes, v, x_grad = results["eager"]
print(f"each neuron fires in {spikes.mean():.1%} of the steps")
for name, measured in times.items():
    same = torch.equal(results[name][0], spikes), torch.equal(results[name][1], v)
    off = ((results[name][2] - x_grad).norm() / x_grad.norm()).item()
    print(f"{name:6} spikes equal: {same[0]}   membranes equal: {same[1]}   gradient off by {off:.0e}   ", end="")
    print(f"{measured.median * 1e3:6.2f} ms, {times['eager'].median / measured.median:4.1f} times as fast")

# %% [markdown] tags=["slide"]
# ## 5 · The generated code
#
# A Python function becomes a kernel in four stages:
#
# 1. **The graph.** The step runs once on symbolic tensors; every operation is recorded (`make_fx`).
# 2. **The program.** The same for *one* neuron: assignments to scalars.
# 3. **C++**: that program inside loops: over *tiles* (groups of neurons that fit in the cache), over time, and over
#    the neurons of a tile.
# 4. **Triton**: the same program, with the loop over time inside the kernel.

# %% [markdown]
# Your `if`s, loops and classes are not part of the record; it is a plain list of operations. You need no GPU to read the
# Triton kernel.

# %%
viz.generated(Resting())

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - `x` and `s0` (your `v`), `s1` (your `rest`) are the inputs; the spike and the new states are the results. Each line
#   of the program appears once in the C++ and once per step in the Triton kernel, under the same name. If you change
#   your equation, all four change. (0.8999999761581421 is 0.9 rounded to float32, and `c0` in 3 and 4.)
# - **Where the state is stored.** In the C++ loop `s0[at + i]` is an array, but one tile of it stays in the processor's
#   second-level cache from the first step to the last. In Triton it is a register. In both cases only `x` is read from
#   main memory and only spikes are written to it: 8 bytes.
#
# </details>
#
# ### And `torch.compile` alone? (optional)
#
# Inductor generates such kernels from PyTorch programs. Here is its code for *one* step. The operations are fused,
# but at every step the state is read from memory and written back (`in_ptr…`, `out_ptr…`). The `block` engine gives it
# several steps at once, so that the states in between stay in registers.


# %%
def one_step(x, v, rest):
    spike, state = cells["eager"].step(x, RestingState(v, rest))
    return spike, *state


compiler_missing or viz.inductor(one_step, *torch.rand(3, N, device=device))

# %% [markdown] tags=["slide"]
# ## 6 · Backward: recompute instead of storing
#
# For the surrogate gradient, the backward pass needs $v$ at every step. There are two ways:
#
# - **store**: forward writes $v$ to memory, backward reads it;
# - **recompute**: forward stores only its input. Backward runs the steps again, in cache or registers, and then goes
#   back in time.

# %% [markdown]
# Autograd stores. Recomputing computes more and moves less. This pays as long as memory is the bottleneck, and it leaves
# room for a larger batch. Here is the backward program of one neuron: the first lines are those of forward, again. `g`
# is the gradient of the spike, `d0` and `d1` those of the state.

# %%
viz.generated(Resting(), backward=True)

# %% [markdown] tags=["slide-more"]
# **Predict first.** How many bytes per neuron and step stay allocated between forward and backward: in the loop, and
# fused?

# %%
predict("fused_neurons.h")
predict("fused_neurons.i")

# %% [markdown]
# Autograd's hooks for saved tensors show what is stored (each memory block is counted once):

# %% tags=["slide"]
some = torch.rand(32, 1, 2**12, device=device)
stored = {}
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
    stored[name] = sum(blocks.values())
    print(f"{name:6} {stored[name]:5.1f} bytes per neuron and step, {of_x:.0f} of them x itself")
outcome("fused_neurons.h", stored["eager"])
if len(timed) > 1:
    outcome("fused_neurons.i", stored[timed[1]])

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The fused engines store `x`, and at most a little for the states at some steps.
#
# </details>

# %% [markdown]
# Inference needs no gradients. There `cell(x, out_dtype=torch.uint8)` stores a spike in one byte instead of four.

# %% [markdown] tags=["slide"]
# ## 7 · What broke?
#
# A colleague has two ideas. Both neurons work, but both are slow.
#
# - *Fair* neurons compete: each gets its input minus the mean of the layer.
# - *Impatient* neurons save work: if no neuron is above threshold, they skip the reset.
#
# **Predict first.** What makes fusion over time impossible in both?

# %%
predict("fused_neurons.j")


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
with warnings.catch_warnings(record=True) as said:  # it warns, once: no engine falls back silently
    slow_out, _ = Fair()(fair_input)
    Impatient()(fair_input)
print(*(fill(f"warning: {one.message}", 100) for one in said), sep="\n")
outcome("fused_neurons.j")
engine.explain(nn.Sequential(Fair(), Impatient()), fair_input)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The mean mixes neurons. At each step a neuron needs the inputs of *all* of them, and no kernel that runs it alone has
# these. With the `if`, the data of all neurons decide which operations come next, so there is no fixed program. The engine
# warns once and uses the loop: slower, but never wrong.
#
# The fix depends on the purpose. Here the mean is of the *input*, which is known for all steps in advance. So it can be
# a separate layer, run layer by layer, and the neuron stays elementwise. With the mean of the *membranes* the loop would
# be necessary: that is recurrence. The impatient neuron needs no `if` at all: in a fused kernel the reset is free.
#
# </details>


# %%
class Centre(torch.nn.Module):
    """Subtracts the mean of the layer: [..., N]."""

    def forward(self, x):
        return x - x.mean(-1, keepdim=True)


repaired = nn.Sequential(Centre(), neuron.IF())
out, _ = repaired(fair_input)
print(f"the same spikes: {(out == slow_out).float().mean():.2%}")
engine.explain(repaired, fair_input)

# %% [markdown] tags=["slide"]
# ## 8 · The roofline
#
# How fast could it be at best? A program computes `operations` and moves `bytes`. Two properties of the machine limit it:
#
# - the *rate* of arithmetic (operations per second);
# - the *bandwidth* of memory (bytes per second).
#
# While the machine computes with some numbers, it loads the next.

# %% [markdown]
# ### Exercise 11.3 · The roofline (4 minutes, ●○○)
#
# Return the least time that such a program takes, in seconds.


# %% tags=["exercise"]
def least_seconds(operations, bytes, rate, bandwidth):
    """The least time of a program that computes and moves memory at the same time."""
    return ...


least_seconds = attempt("fused_neurons.3", least_seconds)

# %% [markdown] tags=["slide"]
# Divide the operations by that time, and you get the *roofline* [2], the rate that a program can reach:
#
# $$\text{rate} \le \min\big(\text{bandwidth} \cdot \text{intensity},\ \text{rate}_{\max}\big) \tag{2}$$
#
# $$\text{intensity} = \frac{\text{operations}}{\text{bytes}}$$
#
# On the slope a program is *memory bound*, on the flat part *compute bound*.

# %% [markdown]
# To see both, `Busy(k)` multiplies and adds its input $k$ more times before it behaves like any leaky neuron. (`counted`,
# in the cell of the imports, gives its operations and bytes.)


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


# %% [markdown] tags=["slide"]
# **Predict first.** `Busy(0)` does about ten operations a step, `Busy(64)` more than a hundred, and both move 8 bytes.
# How many times longer does `Busy(64)` take, fused?

# %%
predict("fused_neurons.k")

# %%
x = torch.rand(16, 1, 2**18 if device.type == "cpu" else 2**22, device=device)
copied = torch.empty_like(x)
ks = (0, 8, 24, 64)


def pass_of(cell):
    return torch.no_grad()(lambda: cell(x)[0])


candidates = {"copy": lambda: copied.copy_(x), **{f"k = {k}": pass_of(Busy(k)) for k in ks}}
times = measure.race(candidates, repeats=7, clock=clock)
times |= measure.race({"loop": pass_of(Busy(0, "eager"))}, repeats=3, clock=clock)
outcome("fused_neurons.k", times["k = 64"].median / times["k = 0"].median)

# %%
bandwidth = 2 * x.nbytes / times["copy"].median
runs, chosen = [], engine.explain(Busy(0), x)[0].engine  # what "auto" chooses
for k in ks:
    operations, moved = counted(Busy(k))[0] * x.numel(), inference * x.numel()
    runs.append(figures.Run(f"{chosen}, k = {', '.join(map(str, ks))}", operations, moved, times[f"k = {k}"].median))
operations, loop_bytes = counted(Busy(0))
runs.append(figures.Run("loop, k = 0", operations * x.numel(), loop_bytes * x.numel(), times["loop"].median))
rate = max(run.rate for run in runs)

for name, run in zip([f"k = {k}" for k in ks] + ["loop"], runs, strict=True):
    least = least_seconds(run.operations, run.bytes, rate, bandwidth)
    of_one = f"{run.operations / x.numel():4.0f} operations, {run.bytes / x.numel():4.0f} bytes"
    print(f"{name:6}: {of_one}, {run.seconds * 1e3:6.1f} ms; the roofline allows {least * 1e3:5.1f} ms")
print(f"a copy moves {bandwidth / 1e9:.1f} GB/s, the best neuron computes {rate / 1e9:.1f}·10⁹ operations per second")

# %% tags=["slide"]
title = f"The loop moves {loop_bytes / inference:.0f} times the bytes of a fused neuron"
viz.show(figures.roofline(runs, bandwidth, rate, title=title))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - The fused points move to the right with $k$: more operations for the same 8 bytes. As long as they are on the slope,
#   *the additional arithmetic is nearly free*. A real neuron (`k = 0`, or one with a second current) is there.
# - The loop is far to the left. It does the same operations but moves some 14 times the bytes. Faster arithmetic would
#   not help it. Is it *above* the roof? Then the next kernel reads the small tensors of one step from the cache.
# - The flat part is not the manufacturer's peak. It is the best rate that any of these neurons reached here.
#
# </details>

# %% [markdown]
# There are two ways to more speed: bring the points closer to the roof, or move fewer bytes. Narrower numbers do that,
# or fusion of the neuron with the layer before it, so that `x` is never written at all.
#
# ### Explorer: under the roof (optional, 5 minutes)
#
# This is a model of the loop and of the fused kernel with *your* roofline, as just
# measured. Drag the diamond.
#
# 1. At which number of operations does the fused neuron become compute bound? Does the loop ever?
# 2. Make the layer small (`log2 neurons` = 10). Which of the two becomes slow, and why?
# 3. bfloat16 halves the bytes. For which of the two does this halve the time?

# %%
viz.explorers.under_the_roof(rate, bandwidth)

# %% [markdown]
# ## Quiz

# %%
quiz("fused_neurons")

# %%
scorecard("fused_neurons")

# %% [markdown]
# ## Where next
#
# One layer is fast now. **[12 · A 128-channel conv SNN with AMP](12_conv_snn.ipynb)** uses it in a real network, with
# the question how much of a training step the neurons still take.
#
# Meanwhile: `snnkit bench neurons` runs the benchmark of section 3 at any size, together with other libraries.
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
