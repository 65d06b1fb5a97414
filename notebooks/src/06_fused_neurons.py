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
# A spiking neuron does about ten additions and multiplications per time step. Your processor does billions in a second. And yet a
# layer of neurons, written the obvious way, can take more of a training step than the convolutions before it. This notebook finds
# out where the time goes (it is not the arithmetic), and runs all time steps of a layer in one go. A compiler writes that
# program from your equation, and you will read what it wrote.
#
# **Afterwards you can**
#
# - count the bytes that a neuron moves, and predict from them how much a fused kernel can gain, before you measure;
# - explain step by step against layer by layer, and what *fused*, *recompute* and *memory bound* mean;
# - read the code that is generated from a neuron of your own, as a graph, as C++ and as a Triton kernel for a GPU;
# - write a step that can be fused, and recognise one that can't;
# - draw a roofline with your own machine's numbers and say which side of it you are on.
#
# | | |
# |---|---|
# | Time | 55 minutes |
# | GPU minutes | 0. Everything runs on a CPU; where there is a GPU the same cells use it |
# | Before this | 02 surrogate gradients, 05 devices. You have heard of registers and caches |

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
SEED: int = 0  # of weights and inputs
DEVICE: str = "auto"  # "auto", "cpu" or "cuda"

# %%
import math
import os
import re
import textwrap
import warnings
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
torch.set_num_threads(1)  # one core, so that what we time is work and not the waking of threads
measure.keep_freed_memory()  # or the operating system may take tensors back, and clear their pages for the next
compiled = [name for name, _ in AUTO[device.type]]  # the engines made for this device
compiler_missing = missing_compiler(device.type)
N = 2**16 if QUICK else 2**18 if device.type == "cpu" else 2**20
STEPS = (8, 16, 32) if QUICK else (8, 16, 32, 64, 128)
print(f"on {device}: engines {', '.join(['eager', *compiled])}; {N:,} neurons, T = {', '.join(map(str, STEPS))}")
if compiler_missing:
    print(f"Without a compiler the fused engines can't run here, and eager takes their place: {compiler_missing}.")

# %% [markdown] tags=["slide"]
# ## 1 · A dozen errands
#
# The LIF neuron of notebook 05, with $\tau$ in time steps and everything else without units:
#
# $$V \leftarrow V + \frac{X[t] - V}{\tau}, \qquad S[t] = H(V - \theta), \qquad V \leftarrow (1 - S[t])\,V \tag{1}$$
#
# In PyTorch that is four lines of tensors. Each operator in them is a *kernel*: a program of its own, which reads its tensors from
# memory, does one thing to each number, writes the result to memory, and ends. The next one fetches that result again. It is as if
# you drove to the shop for every single egg.
#
# > **Predict first.** How many kernels does one step of (1) take? How many bytes do they read and write for one neuron, if a number
# > is a float32 (4 bytes)? Write both down.
#
# `Traffic` notes every kernel that PyTorch runs. We give it a layer of one neuron, so its bytes are bytes per neuron:

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
# - Eleven results per neuron are written, and nine of them are thrown away within the same step: they exist only to be handed to the
#   next kernel. The other two are the membrane, which only the next step needs, and the spike, which is all that anybody asked for.
# - `ge` writes a truth value, one byte, and `_to_copy` makes a number of it.
# - There is one more price that no table shows: starting a kernel takes a few microseconds, however little it does.
#
# Now imagine one kernel for the whole sequence. It holds $V$ in a register, reads $X[0]$, computes, writes $S[0]$, reads $X[1]$, …
# Intermediate values never leave the processor. That is *fusion*, here over operations *and* over time.
#
# ### Exercise 06.1 · Count the bytes (7 minutes, ●●○)
#
# Three numbers, each in bytes per neuron and step:
#
# 1. `alone`: every kernel by itself, as in the table above (`ops` holds the names, and tuples of bytes);
# 2. `inference`: everything fused, the state in registers. `x` and `spike` are the bytes of one number of the input and the output;
# 3. `training`: everything fused, forward *and* backward. To save memory, forward keeps nothing but its input. Backward takes in the
#    gradient of the spikes, needs all membranes again, and gives out the gradient of the input. (Gradients are as wide as what
#    they belong to.)
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
print(f"inference: {alone} bytes by itself, {inference} fused: {alone / inference:.1f} times fewer")
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
# If memory were all that counts, these ratios would be the speed-ups. We will see.
#
# ## 2 · Step by step, or layer by layer
#
# There are two orders in which a network can work through time [1]:
#
# | | outer loop | what runs at once |
# |---|---|---|
# | **step by step** | over time: each step passes through all layers | one layer, one step: `[B, N]` |
# | **layer by layer** | over layers: each layer handles the whole sequence | one layer, all steps: `[T, B, N]` |
#
# Step by step looks like the biology. Layer by layer computes the same, as long as no connection leads *back* to an earlier layer,
# and does two things that matter. Layers without state (`Linear`, `Conv2d`, …) fold time into the batch: one large matrix product in
# place of $T$ small ones. And the neurons get their whole input at once, which is what makes fusing over time possible in the first
# place. The price: the whole sequence of every layer must be in memory.
#
# > **Predict first.** Two `Linear` layers with LIF neurons behind them, 32 steps. Order these: step by step, layer by layer, layer by
# > layer with fused neurons. Where is the larger gain?

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


contestants = [step_by_step, layer_by_layer, layer_by_layer_fused]
results = [contestant() for contestant in contestants]
same = [(out == results[0]).float().mean().item() for out in results]
times = measure.race({c.__name__: c for c in contestants}, repeats=7 if QUICK else 21, clock=clock)
for (name, measured), share in zip(times.items(), same, strict=True):
    print(f"{name:21} {measured.median * 1e3:7.2f} ms    the same spikes: {share:.2%}")
print(engine.explain(net, x))

# %% [markdown] tags=["slide"]
# **Notice.** The spikes agree (if a few don't: a matrix product of another size may add up in another order, and a membrane within
# rounding of its threshold decides otherwise). `explain` says which engine each layer took, and why.
#
# ## 3 · The race
#
# SpikingJelly's documentation has an experiment that made the case for fused neurons [1]: a layer of $2^{20}$ LIF neurons,
# $T = 8 \dots 128$ steps, forward alone and forward with backward, PyTorch's loop against a hand-written CUDA kernel. You repeat
# it now on your machine. The contestants compute one and the same equation, in different *engines*:
#
# | engine | what runs |
# |---|---|
# | `eager` | the loop over time in Python, a kernel per operation |
# | `block` | four to eight steps at a time, compiled by `torch.compile`'s Inductor (C++ on a CPU, Triton on a GPU) |
# | `cpp` | all steps in one loop of C++, generated from the equation (CPU) |
# | `triton` | all steps in one Triton kernel, generated from the equation (GPU) |
#
# > **Predict first, and write it down.** By what factor does the best engine beat `eager` in inference: at the smallest $T$, and at the
# > largest? You know the ratio of the bytes. And on axes where both are logarithmic, what is the slope of time against $T$ for each:
# > 1 (linear) or something else? Put your numbers here; the next cell sets them beside the measured ones.

# %%
GUESS_SHORT = None  # times faster at the smallest T, for example 5.0
GUESS_LONG = None  # times faster at the largest T
GUESS_SLOPE = None  # of the fused engine: 1.0 means that twice the steps take twice as long

# %% [markdown]
# `benchmark` is what `snnkit bench neurons` runs. Everybody's spikes and gradients are compared with those of `eager` before a clock
# starts; then they take turns, so that a slow moment of the machine hits all alike. The dashed *floor* is the time that a plain copy, timed in
# the same rounds, would need for the bytes of your exercise: no program can be faster unless its data come from a cache. (The first
# run compiles, which takes a quarter of a minute on a slow machine. Later runs find the kernels on disk.)

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


def milliseconds(record, mode, contestant):
    """T to milliseconds."""
    rows = [row for row in record["rows"] if (row["mode"], row["contestant"]) == (mode, contestant)]
    return {row["steps"]: row["median_s"] * 1e3 for row in rows}


def slope(curve):
    """Of the line from the first to the last point, both axes logarithmic."""
    (t0, y0), *_, (t1, y1) = curve.items()
    return math.log(y1 / y0) / math.log(t1 / t0)


raced = [name for name in ("eager", *compiled) if milliseconds(mine, "inference", name)]
for mode, ratio in {"inference": alone / inference, "training": loop_training / training}.items():
    print(f"{mode}: times faster than eager (the ratio of the bytes is {ratio:.1f}); slope of the time against T")
    loop = milliseconds(mine, mode, "eager")
    for name in raced:
        curve = milliseconds(mine, mode, name)
        faster = "".join(f"T = {t}: {loop[t] / ms:5.1f}    " for t, ms in curve.items())
        print(f"  {name:7} {faster} slope {slope(curve):.2f}")
if GUESS_SHORT is not None:
    print(
        f"your guess: {GUESS_SHORT} times at T = {STEPS[0]}, {GUESS_LONG} times at T = {STEPS[-1]}, slope {GUESS_SLOPE}"
    )

# %% [markdown]
# **What to notice**
#
# - The order of the lines, and the gap between them: compare it with the ratio of the bytes. If it is smaller at small $T$, fixed costs per call
#   are the reason: checks, allocation, launching. They are paid once per sequence by the fused engines and once per kernel by the loop.
# - A slope below 1 says the same: where fixed costs rule, twice the steps do not take twice the time.
# - Distance to the floor. Small layers fit in the cache, so the copy is unusually fast and the floor unusually low.
# - A point that sticks out is rarely an engine's fault. On a CPU, it is often the operating system handing out fresh memory, which it
#   must find and clear first (`keep_freed_memory()` in the setup cell made that less likely). Run the cell again, and look at the
#   spread (hover over a point) before you believe a difference.
#
# ### Your run beside others
#
# Times of different layer sizes can't be compared, so we divide by $N \cdot T$: nanoseconds per neuron and step. A flat line means linear in
# $T$. Of each record you see the loop, the best fused engine, and other libraries with the same equation; hover for the machine.

# %%
others = [records.load(name) for kind in ("neurons", "published") for name in records.names(kind)]
viz.show(figures.per_neuron_step([mine, *others], title="Your run beside published and recorded ones"))
for record in others:
    print(heading(record), end="\n\n")
if not records.names("neurons"):
    print("No measured record comes with this version of the kit; `snnkit bench neurons --out FILE.json` writes yours.")

# %% [markdown]
# **What to notice.** Look at the published loop in *Forward and backward*: it is not flat. Twice the steps made each step slower still.
# The loop of that day took its slices out of one large tensor, one `x[t]` at a time, and the gradient of *each* slice was a tensor of
# the full size, almost all of it zeros: $T$ tensors of $T$ steps, $O(T^2)$. The loop of the `eager` engine splits the sequence once (`unbind`),
# and is linear in $T$ (it bends a little where the sequence outgrows a cache). A quadratic cost like that hides well: at $T = 8$ nobody
# sees it.
#
# ### The small end
#
# Most layers are far smaller than those of section 3. Race them: each move of a control runs LIF neurons forward, the loop against one engine, and first
# compares their spikes. (An engine that is new here compiles first, some seconds. `device` also has machines that are not at hand, as recorded.)
#
# > **Predict first.** (a) 16 times the neurons, from N = 1024 to 16,384: how many times longer does the loop take, and how many times the fused
# > engine? (b) 16 times the steps, from T = 8 to 128: the same two numbers. (c) Is there a size at which the loop wins?

# %%
viz.labs.engine_race()

# %% [markdown] tags=["slide"]
# **What to notice**
#
# - The loop pays for *starting* kernels, at every step anew, and at these sizes hardly for the neurons: 16 times as many take far less than 16 times as
#   long, 16 times the steps do take 16 times or more. The fused engine starts once per sequence, which is most of what a small layer costs it, so
#   it grows little with either.
# - So the *factor* is largest for small layers and long sequences, and none of these sizes should let the loop win. Compiling takes a second or two,
#   once on a machine. So on a CPU `auto` compiles small layers, too, where the results stay those of the loop to the last bit.
# - Circles are medians, lines reach from the 10th to the 90th percentile. Where they overlap, the race has told you nothing.
#
# ## 4 · A neuron of your own
#
# Hand-written kernels are fast for the neurons that somebody has written by hand. Here the kernel is generated, so your neuron gets one,
# too. There is one condition: the step must be *elementwise*. Each neuron computes with its own numbers, and with nothing of its
# neighbours'.
#
# Take a neuron with a refractory period: after a spike it rests for two steps, deaf and silent. For one neuron, with plain numbers,
# this is easy to write:


# %%
def one_resting_neuron(x, v, rest):
    if rest > 0:  # resting: it hears nothing, and its membrane stays as it is
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
# With tensors, `if rest > 0` makes no sense: a thousand neurons give a thousand answers. Nor would it make a good kernel. Neurons
# that sit side by side in a vector register execute the same instruction at the same time; there is no branch for one of
# them. So compute both cases for everybody, then choose: `torch.where(condition, this, that)`.
#
# ### Exercise 06.2 · A step that fuses (8 minutes, ●●●)
#
# Write the same for tensors of any shape, without `if`. `fire(u)` gives the spikes, 1 where $u \ge 0$, and knows the surrogate gradient.


# %% tags=["exercise"]
def resting_step(x, v, rest, fire):
    """One step of neurons [...] that rest for two steps after a spike: (spike, v, rest)."""
    awake = rest <= 0  # noqa: F841
    v = ...
    spike = ...
    return spike, v, ...


resting_step = attempt("06.2", resting_step)

# %% [markdown]
# Around it goes a class: the type of the state, and a step.


# %%
class RestingState(NamedTuple):
    v: torch.Tensor  # membrane
    rest: torch.Tensor  # steps until it hears again


class Resting(neuron.Neuron):
    State = RestingState

    def __init__(self, engine="auto"):
        super().__init__(surrogate=surrogate.ATan(), engine=engine)

    def step(self, x, state):
        spike, v, rest = resting_step(x, state.v, state.rest, self.spike)
        return spike, RestingState(v, rest)


# %% [markdown]
# Now your equation through every engine. First the results: spikes, last state and gradient must be those of `eager`. Only then the clock.

# %%
x = 0.6 * torch.rand(32, 1, N, device=device)
gradient = torch.rand_like(x)


def both_ways(cell):
    """Spikes, last membrane, gradient of x."""
    leaf = x.detach().requires_grad_()
    out, state = cell(leaf)
    (found,) = torch.autograd.grad(out, leaf, gradient)
    return out.detach(), state.v.detach(), found


cells = {name: Resting(engine=name) for name in raced}
wanted = both_ways(cells["eager"])
print(f"each neuron fires in {wanted[0].mean():.1%} of the steps")
for name in raced[1:]:
    out, v, found = both_ways(cells[name])
    off = ((found - wanted[2]).norm() / wanted[2].norm()).item()
    equal = torch.equal(out, wanted[0]), torch.equal(v, wanted[1])
    print(f"{name:6} spikes equal: {equal[0]}   membranes equal: {equal[1]}   gradient off by {off:.0e}")

times = measure.race({name: lambda cell=cell: both_ways(cell) for name, cell in cells.items()}, repeats=5, clock=clock)
for name, measured in times.items():
    faster = times["eager"].median / measured.median
    print(f"{name:6} {measured.median * 1e3:7.2f} ms forward and backward, {faster:4.1f} times as fast as eager")

# %% [markdown] tags=["slide"]
# ## 5 · What was generated
#
# How does a Python function become a kernel? In four stages, and you can look at each:
#
# 1. **The graph.** The step runs once on symbolic tensors while every operation is noted (`make_fx`). Your `if`s, loops and classes
#    are gone by then; what remains is a list of operations.
# 2. **The program.** The same for *one* neuron: a straight line of assignments to scalars, without anything that changes no bit.
# 3. **C++**: that program inside three loops: tiles of neurons that fit in the cache, time, neurons of a tile.
# 4. **Triton**: the same program, with the loop over time inside the kernel. (Shown as text; it doesn't need a GPU to be read.)

# %%
state = Resting().initial_state(torch.zeros(1))
equation = equation_of(Resting(), state, torch.float32, torch.device("cpu"))  # an equation is the same on every device
program, backward_program = programs(equation)


def as_text(program):
    """The assignments of a program, one per line."""
    lines = [f"{op.name} = {op.kind}({', '.join(map(str, op.arguments))})" for op in program.ops]
    return "\n".join([*lines, f"return {', '.join(map(str, program.results))}"])


def between(text, first, last):
    """The lines from the one that holds `first` up to the next that holds `last`, moved to the left."""
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
        "1 · the graph": (graph, "python"),
        "2 · the program of one neuron": as_text(program),
        "3 · C++": (cpp_loop, "cpp"),
        "4 · Triton": (triton_text, "python"),
    }
)

# %% [markdown]
# **What to notice**
#
# - `x` and `s0` (your `v`), `s1` (your `rest`) go in; the spike and the new states come out. Each line of the program appears once in the C++
#   and once per step in the Triton kernel, under the same name. Change your equation, and all four change. (0.8999999761581421 is 0.9 rounded to float32.)
# - **Where the state lives.** In the C++ loop `s0[at + i]` is an array, but one tile of it stays in the processor's second-level cache
#   from the first step to the last. In Triton it is a register. Either way, main memory sees `x` come in and spikes go out: 8 bytes.
# - **Loads come first** in Triton: eight steps of `x` are requested before the first is used, so that the GPU waits once, not eight times.
# - `tl.fma(a, b, nil)` is $a \cdot b - 0$: an odd way to write a product, and there to forbid that it is merged with the next addition. Merging
#   would be a bit *more* precise, and spikes would no longer be those of `eager` to the last bit.
#
# And `torch.compile` by itself? It writes kernels like these from any PyTorch program. Here is what its Inductor makes of *one*
# step: the operations are fused, but the state comes from memory and goes back there (`in_ptr…`, `out_ptr…`), step for step. The
# `block` engine hands it several steps at once, so that the states in between stay in registers.


# %%
@torch.no_grad()
def one_step(x, v, rest):
    spike, state = cells["eager"].step(x, RestingState(v, rest))
    return spike, *state


def inductor_kernel():
    """What torch.compile writes for one step, without what it wraps around it."""
    from torch._inductor.utils import run_and_get_code

    _, (code, *_) = run_and_get_code(torch.compile(one_step), *torch.rand(3, N, device=device))
    return re.search(r"'''\n(.*?)'''", code, re.DOTALL)[1]


viz.listing(
    {"torch.compile, one step": (compiler_missing or inductor_kernel(), "cpp" if device.type == "cpu" else "python")}
)

# %% [markdown]
# **The Triton kernel on your CPU.** Triton has an interpreter, which runs a kernel in NumPy: far too slow for work, just right for
# finding out whether a kernel computes the right thing when there is no GPU around. (Triton is made for Linux; elsewhere the cell says so.)

# %%
if find_spec("triton") is None:
    print("Triton is not installed here, so there is only the text above.")
else:
    os.environ["TRITON_INTERPRET"] = "1"
    try:
        little, cell = 0.9 * torch.rand(11, 1, 50), Resting(engine="triton")
        interpreted, _ = cell(little)
        ran = engine.explain(cell, little)[0].engine
    finally:
        del os.environ["TRITON_INTERPRET"]
    same = torch.equal(interpreted, Resting(engine="eager")(little)[0])
    print(f"the {ran} engine on {little.device}: spikes as those of eager, one for one: {same}")

# %% [markdown] tags=["slide"]
# ## 6 · Backward: compute again instead of keeping
#
# For the surrogate gradient, backward needs $V$ at every step. There are two ways to have it:
#
# - **keep**: forward writes $V$ to memory (and whatever else the derivative needs), backward reads it. Autograd does this for every
#   operation that asks for it;
# - **recompute**: forward keeps its input, which is there anyway. Backward runs the steps again, in cache or registers, and goes back from there.
#
# The second computes more and moves less. That pays as long as memory is what everything waits for, and it leaves you room for a
# larger batch. Here is the program that one neuron runs on its way back: the first lines are those of forward, again; `g` is the
# gradient of the spike, `d0` and `d1` those of the state, and the results are the gradients of `x` and of the state before.

# %%
print(f"{len(program.ops)} operations forward, {len(backward_program.ops)} back (those that run again included)")
cpp_text, *_ = cpp.backward_source(equation, torch.float32, (), (True,))
cpp_loop = between(cpp_text.partition("// Back in time")[2], "#pragma omp simd", "flush(")
viz.listing({"back through one step": as_text(backward_program), "the same in C++": (cpp_loop, "cpp")})

# %% [markdown] tags=["slide"]
# > **Predict first.** How many bytes per neuron and step stay allocated between forward and backward: in the loop, and fused?
#
# `held_for_backward` asks autograd, by its hooks for saved tensors, what it keeps (each memory block counted once):

# %%
some = torch.rand(32, 1, 2**12, device=device)
for name in raced:
    held = measure.held_for_backward(lambda x, cell=cells[name]: cell(x)[0], some)
    total, of_x = held.total / some.numel(), held.x / some.numel()
    print(f"{name:6} {total:5.1f} bytes per neuron and step, {of_x:.0f} of them x itself")

# %% [markdown]
# The fused engines hold `x`, and a little for the states at some steps. `x` would often be kept by the layer before anyway.
#
# **Spikes of one byte.** In inference nobody asks for gradients, and a spike is one bit. `out_dtype=torch.uint8` makes it a byte: 5 bytes
# moved in place of 8, and a quarter of the memory for the output.

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
# A colleague has two ideas. *Fair* neurons compete: each gets its input less the mean of the layer. *Impatient* ones save work: if
# nobody is above threshold, skip the reset. Both work. Both are slow.
#
# > **Find it before you run the cell.** What do the two steps have in common that makes fusing over time impossible?


# %%
class Fair(neuron.IF):
    def step(self, x, state):
        return super().step(x - x.mean(-1, keepdim=True), state)


class Impatient(neuron.IF):
    def step(self, x, state):
        if (state.v + x).max() < 1.0:  # nobody will fire
            return torch.zeros_like(x), type(state)(state.v + x)
        return super().step(x, state)


fair_input = 3 * torch.rand(8, 1, N, device=device)
with warnings.catch_warnings(record=True) as heard:
    warnings.simplefilter("always")
    slow_out, _ = Fair()(fair_input)
    Impatient()(fair_input)
for warning in heard:  # each is said once; nothing falls back in silence
    print(textwrap.fill(f"Warning: {warning.message}", 90))
print()
print(engine.explain(nn.Sequential(Fair(), Impatient()), fair_input))

# %% [markdown]
# The mean mixes neurons: nobody can take step 2 before *everybody* has taken step 1, so no neuron can run ahead alone through all of
# time. The `if` asks the data which operations come next, so there is no one program to write down (and on a GPU the question makes the
# host wait at every step). The engine says so once and takes the loop: slower, never wrong.
#
# The cure depends on what you meant. Here the mean is of the *input*, which is known for all steps beforehand. So it is a layer of its own,
# layer by layer, and the neuron stays elementwise. Had it been the mean of the *membranes*, there would be no way around the loop:
# that is recurrence, and costs what recurrence costs. The impatient neuron needs no `if` at all: in a fused kernel the reset is free.


# %%
class Centre(torch.nn.Module):
    """Subtracts the mean of the layer: [..., N]."""

    def forward(self, x):
        return x - x.mean(-1, keepdim=True)


mended = nn.Sequential(Centre(), neuron.IF())
out, _ = mended(fair_input)
print(f"the same spikes: {(out == slow_out).float().mean():.2%}")
print(engine.explain(mended, fair_input))

# %% [markdown] tags=["slide"]
# ## 8 · The roof
#
# How fast could it be at best? A program that computes `operations` and moves `bytes` meets two limits of the machine: the *rate* of
# arithmetic (operations per second) and the *bandwidth* of memory (bytes per second). It does both at the same time: while some
# numbers are computed, the next are on their way.
#
# ### Exercise 06.3 · The roof (4 minutes, ●○○)
#
# The least time that such a program takes, in seconds.


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
# On the slope a program is *memory bound*, on the flat part *compute bound*. To see both we need neurons of different diligence. `Busy(k)`
# multiplies and adds its input $k$ more times before it behaves like any leaky neuron.
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
chosen = engine.explain(Busy(0), x)[0].engine  # what "auto" takes


def pass_of(cell):
    def run():
        with torch.no_grad():
            return cell(x)[0]

    return run


def counted(cell):
    """Operations, and bytes of each one by itself, per neuron and step."""
    one = torch.rand(1)
    at_rest = cell.initial_state(one)
    with measure.Traffic() as seen:
        cell.step(one, at_rest)
    equation = equation_of(cell, at_rest, torch.float32, one.device)
    return len(programs(equation).forward.ops), seen.bytes


contestants = {"copy": lambda: copied.copy_(x), **{f"k = {k}": pass_of(Busy(k)) for k in ks}}
times = measure.race(contestants, repeats=7, clock=clock)
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
    told = f"k = {k:2}: {run.operations / x.numel():4.0f} operations, {run.seconds * 1e3:6.1f} ms"
    print(f"{told}; the roof allows {least * 1e3:5.1f} ms")
print(f"loop  : {operations:4} operations, {runs[-1].seconds * 1e3:6.1f} ms, {loop_bytes} bytes")
print(f"a copy moves {bandwidth / 1e9:.1f} GB/s, the best neuron computes {rate / 1e9:.1f}·10⁹ operations per second")
viz.show(figures.roofline(runs, bandwidth, rate, title=f"Neurons under the roof of this machine ({device})"))

# %% [markdown]
# **What to notice**
#
# - The fused points wander to the right: more operations for the same 8 bytes. As long as they climb the slope, *the additional arithmetic is
#   free*: compare the first times. A real neuron (`k = 0`, or an adaptive threshold, or a second current) is somewhere there.
# - The loop sits far to the left. It does the same operations but asks for a dozen times the bytes, and in addition pays for starting each
#   kernel. Nothing in the arithmetic can help it.
# - Is it *above* the roof? Then you have caught the cache: the tensors of one step are small, and what one kernel wrote the next one finds
#   there. `Traffic` counts the bytes that are asked for, and a cache answers faster than memory. The whole sequence doesn't fit in it.
# - The flat part is not the maker's peak but the best that any of these neurons reached here, on a CPU with one thread.
#
# **Explorer.** A model of the loop and of the fused kernel under *your* roof, as just measured. In the loop every operation moves about nine bytes
# and costs one launch.
#
# 1. At which number of operations does the fused neuron become compute bound? Does the loop ever?
# 2. Make the layer small (`log2_neurons = 10`). Who suffers, and from what?
# 3. bfloat16 halves the bytes. For whom is that worth half the time?

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
    """Loop and fused kernel in the roofline; the title has their times."""
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
# What remains is the distance between the points and the roof, and the distance between the roof and zero. The first is engineering. The
# second is moved only by fewer bytes: narrower numbers, spikes of a byte or a bit, or fusing the neuron with the layer before it, so
# that `x` is never written at all. (`torch.compile` of a whole model does that for short sequences: it inlines the loop and merges it
# with the normalisation in front.)
#
# ## Quiz

# %%
quiz("06")

# %%
scorecard("06")

# %% [markdown]
# ## Where next
#
# One layer is fast now. In **[07 · A 128-channel conv SNN with AMP](07_conv_snn.ipynb)** it goes to work: 128 channels, Fashion-MNIST, mixed precision, and
# the question how much of a real training step the neurons still take.
#
# Meanwhile: `snnkit bench neurons --help`. It runs the race of section 3 at any size, beside other libraries (`make peers`), and writes a
# record that says where its numbers come from.
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
# 5. T. Chen, B. Xu, C. Zhang, C. Guestrin, *Training deep nets with sublinear memory cost* (2016), on computing again instead of keeping.
#    [arXiv:1604.06174](https://arxiv.org/abs/1604.06174)
