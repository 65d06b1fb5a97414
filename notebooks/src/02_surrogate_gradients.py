# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown] tags=["badge"]
# [![Open In Colab](drawings/open_in_colab.svg)](https://colab.research.google.com/github/snnkit/snnkit/blob/main/notebooks/02_surrogate_gradients.ipynb)

# %% [markdown] tags=["slide"]
# # 02 · Learning through a step: surrogate gradients
#
# Networks learn by slopes: which way, and how far, does a weight move the error? A spike is a step, and that is a
# problem. This notebook shows why, and the trick that made spiking networks trainable.
#
# **Afterwards you can**
#
# - explain why a spiking network has no useful gradient, and show it in three lines;
# - write the trick: a step forward, and a smooth slope backward;
# - choose a surrogate and its width, because you have seen a bad choice over eight layers;
# - recognise exploding gradients, NaN from a formula that looks right, and dead neurons.
#
# | | |
# |---|---|
# | Time | 80 minutes, and 10 more for the optional part |
# | GPU minutes | 0 |
# | Before this | 01 neuron; the chain rule; you have seen `loss.backward()` once |

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
QUICK: bool = True  # False: finer sweeps and longer training (about a minute)
SOLVE: bool = False  # True: use the reference solutions instead of your answers
SEED: int = 0  # seed of every random number
DEVICE: str = "auto"  # "cpu", "cuda" or "auto": the CPU here, as these tensors are too small for a GPU

# %%
import math

import torch

from snnkit import neuron, nn, surrogate, train
from snnkit.lab import course, viz
from snnkit.lab.course import attempt, hint, outcome, predict, quiz, scorecard, solution
from snnkit.lab.viz import figures


def distance(spikes, target, tau=5.0):
    """Equation (1) for each neuron: spikes and target [T, B, N] -> [B, N]."""
    t = torch.arange(len(spikes), dtype=torch.float32)
    blur = torch.tril(torch.exp(-(t[:, None] - t) / tau)).to(spikes)  # [T, T]: convolves with exp(-t / tau)
    return torch.einsum("ts,sbn->tbn", blur, spikes - target).square().mean(0)


def one_above_the_other(w, loss, gradient, title):
    """The loss and the surrogate gradient, both over the weight."""
    figure = figures.panels(2, 1, shared_xaxes=True, vertical_spacing=0.08)
    curves = [("loss", loss, viz.theme.BLUE, 1), ("surrogate gradient", gradient, viz.theme.VERMILION, 2)]
    for name, y, colour, row in curves:
        figure.add_scatter(x=w, y=y, mode="lines", line={"color": colour}, name=name, row=row, col=1)
        figure.update_yaxes(title={"text": name}, row=row, col=1)
    figure.add_hline(y=0, line={"color": viz.theme.AXIS, "width": 1}, row=2, col=1)
    figure.add_vline(x=0.6, line={"color": viz.theme.AXIS, "dash": "dash"})
    figure.update_xaxes(title={"text": "weight w (dashed: the teacher's)"}, row=2, col=1)
    return figure.update_layout(title={"text": title}, height=430, showlegend=False)


def to_the_teacher(w, loss, gradient):
    """The share of weights, of those with a loss, at which the gradient points to the teacher."""
    return (torch.sign(gradient) == torch.sign(w - 0.6))[loss > 0].float().mean().item()


def of_width(w):
    """Four surrogates whose slope is half its peak at |u| = w."""
    return {
        "ATan": surrogate.ATan(2 / (math.pi * w)),
        "Sigmoid": surrogate.Sigmoid(2 * math.acosh(math.sqrt(2)) / w),
        "Triangle": surrogate.Triangle(0.5 / w),
        "FastSigmoid": surrogate.FastSigmoid((math.sqrt(2) - 1) / w),
    }


def flow_figure(w):
    """Gradient norms by layer and by time step, for four surrogates of this half-width."""
    figure, changes = figures.panels(1, 2, ["back through depth", "back through time"]), []
    for i, (name, spike_function) in enumerate(of_width(w).items()):
        line = {"color": viz.theme.colour(i), "dash": viz.theme.dash(i)}
        style = {"name": name, "legendgroup": name, "mode": "lines+markers", "line": line}
        by_layer, by_step = gradient_flow(spike_function)
        changes.append(float(by_layer[0] / by_layer[-1]))
        figure.add_scatter(x=list(range(1, 9)), y=by_layer, row=1, col=1, **style)
        figure.add_scatter(x=list(range(-9, 1)), y=by_step, row=1, col=2, showlegend=False, **style)
    low, high = min(changes), max(changes)
    title = f"h = {w:g}: from layer 8 back to 1, gradients × {low:.2g} to × {high:.2g}"
    figure.update_layout(title={"text": title}, height=380)
    figure.update_xaxes(title={"text": "layer (the loss is at 8)"}, row=1, col=1)
    figure.update_xaxes(title={"text": "time step (the loss is at 0)"}, row=1, col=2)
    return figure.update_yaxes(type="log", exponentformat="power", dtick=2)


def learn(inputs, targets, weight, spike_function, epochs, detach_reset=False):
    """Train N neurons from weight [N, INPUTS]: losses [epochs, N] and spikes [epochs, T, N] (the loop is of 04)."""
    weight = weight.clone().requires_grad_()
    options = {"v_reset": None, "decay_input": False, "detach_reset": detach_reset}
    cell = neuron.LIF(tau=10.0, surrogate=spike_function, **options)
    optimizer = torch.optim.Adam([weight], lr=0.02)
    losses, spikes = [], []
    for _ in range(epochs):
        out, _ = cell(inputs @ weight.T)
        loss = distance(out, targets)[0]
        optimizer.zero_grad()
        loss.sum().backward()
        optimizer.step()
        losses.append(loss.detach())
        spikes.append(out.detach()[:, 0])
    return torch.stack(losses).cpu(), torch.stack(spikes).cpu()


train.seed_everything(SEED)
course.start("surrogate_gradients", solve=SOLVE)
device = torch.device("cpu" if DEVICE == "auto" else DEVICE)
torch.set_num_threads(1)  # on tensors this small, several threads mostly wait for each other

# %% [markdown] tags=["slide"]
# ## 1 · The landscape of one weight
#
# A neuron gets a fixed train of input spikes through one weight $w$. Its teacher is the same neuron with $w^* = 0.6$. **Be
# the learning rule:** move the slider until both fire at the same times. When does a small move change nothing at all?

# %% tags=["slide"]
train_in = (torch.rand(60, 1, 1, generator=torch.Generator().manual_seed(3)) < 0.3).float()  # spikes in [T, B, 1]


def by_hand(w):
    spikes, _ = neuron.LIF(tau=10.0, decay_input=False)(train_in * torch.tensor([0.6, w]))
    both = int(spikes[:, 0, 0].sum()), int(spikes[:, 0, 1].sum())
    figure = figures.raster(
        spikes[:, 0], title=f"At w = {w:g} yours fires {both[1]} times, the teacher {both[0]} times"
    )
    return figure.update_yaxes(title={"text": ""}, tickvals=[0, 1], ticktext=["teacher", "yours"])


viz.show(viz.frames(by_hand, "weight w", [round(0.1 + 0.025 * i, 3) for i in range(49)], start=4))

# %% [markdown] tags=["slide"]
# A program needs a number for "how far off". Blur both spike trains with a decaying exponential and take the squared
# difference (the van Rossum distance [1]). Over $T$ steps, with $\tau_L = 5$ steps:
#
# $$L(w) = \frac{1}{T}\sum_t \Big(\sum_{t' \le t} e^{-(t-t')/\tau_L}\,\big(s_w[t'] - s^*[t']\big)\Big)^2 \tag{1}$$
#
# It is zero when the trains agree. The function `distance` in the imports cell computes it. With a single weight we can
# afford to try *every* value: 601 neurons at once.
#
# **Predict first.** (a) Sketch $L(w)$ for $w$ from 0 to 1.5. (b) What is its slope, at nearly every weight?

# %%
predict("surrogate_gradients.a")
predict("surrogate_gradients.b")

# %% tags=["slide"]
weights = torch.linspace(0, 1.5, 601)
teacher, _ = neuron.LIF(tau=10.0, decay_input=False)(0.6 * train_in)
outputs, _ = neuron.LIF(tau=10.0, decay_input=False)(train_in * weights)  # [T, 1, 601]
height = distance(outputs, teacher)[0]

axes = {"x": weights, "x_title": "weight w", "y_title": "loss L(w)", "marks": {"teacher": 0.6}}
viz.show(figures.lines({"loss": height}, shape="hv", title="The loss is a staircase: flat almost everywhere", **axes))
outcome("surrogate_gradients.a", (weights, height))
flat = (height.diff() == 0).float().mean().item()
print(f"neighbouring weights with exactly the same loss: {flat:.0%}")
outcome("surrogate_gradients.b", 1 if flat > 0.9 else 0)

# %% [markdown] tags=["slide"]
# <details>
# <summary><b>What to notice</b></summary>
#
# The curve is a staircase. A small change of the weight moves the membrane a little, but no spike,
# so the loss does not change at all. Then a spike moves or appears, and the loss jumps. On every flat part the slope is
# exactly zero; at the edges it does not exist. And yet *you* see at once where the minimum is.
#
# </details>

# %% [markdown] tags=["slide-more"]
# The reason is one function. With $u = v - \theta$, the distance from threshold, a spike is the Heaviside step,
#
# $$s = H(u) = \begin{cases}1 & u \ge 0\\ 0 & u < 0\end{cases}, \qquad \frac{dH}{du} = 0 \ \text{ for all } u \ne 0. \tag{2}$$
#
# *Backpropagation*, the chain rule from the loss back to the weights, multiplies by that zero. PyTorch computes it
# correctly, and that is the problem:

# %%
u = torch.tensor([-0.5, -0.01, 0.01, 0.5], requires_grad=True)
spikes = (torch.sign(u) + 1) / 2
spikes.sum().backward()
print("spikes:", spikes.tolist(), "  gradient:", u.grad.tolist())

# %% [markdown]
# No error, and no learning. (A comparison, `u >= 0`, would cut the *graph*, PyTorch's record of the operations, and
# `backward()` would raise an error.)
#
# ## 2 · The surrogate gradient
#
# The *surrogate gradient* [2] leaves the forward pass unchanged, so that spikes stay 0 or 1. Only in the backward pass it
# pretends that the step was a smooth ramp $\sigma$:
#
# $$\text{forward:}\quad s = H(u) \qquad\qquad \text{backward:}\quad \frac{\partial s}{\partial u} := \sigma'(u) \tag{3}$$
#
# ![Three time steps side by side. At each, input goes through weights into the membrane, the membrane through a threshold to spikes, and the membrane of one step decays into that of the next. Gradients take every one of these ways backwards, from the loss on; at the threshold, where the true slope is 0 or infinite, they are multiplied by the slope of a smooth bump.](drawings/unrolled.svg)
#
# Each membrane has two ways out: up through the threshold, and on to the next step. Following the second way back is
# *backpropagation through time*. Only the first way needs a surrogate.
#
# Why does a wrong derivative work? Add some noise to the threshold. Then a membrane close to it fires *sometimes*, with
# a probability that rises smoothly from 0 to 1. That is $\sigma(u)$, and for a single neuron $\sigma'(u)$ is the true
# derivative of the average over the noise. In deep networks the argument is no longer exact [3], but it works well [4].
#
# The kit has six surrogates. They differ mainly in height and in *half-width*: the distance from the threshold at which
# the slope is half its peak.
#
# | surrogate | $\sigma'(u)$ | peak | half-width | default of |
# |---|---|---|---|---|
# | `ATan(alpha=2)` | $\frac{\alpha/2}{1 + (\pi\alpha u/2)^2}$ | $\alpha/2$ | $0.64/\alpha$ | snnTorch |
# | `Sigmoid(alpha=4)` | $\alpha\,\varsigma(\alpha u)\,(1 - \varsigma(\alpha u))$ | $\alpha/4$ | $1.76/\alpha$ | SpikingJelly |
# | `FastSigmoid(slope=25)` | $1/(1 + k\lvert u\rvert)^2$ | 1 | $0.41/k$ | |
# | `SuperSpike(alpha=100)` | the same with $k = 100$ | 1 | 0.004 | Norse |
# | `Triangle(alpha=1)` | $\alpha\max(0, 1 - \alpha\lvert u\rvert)$ | $\alpha$ | $0.5/\alpha$ | |
# | `StraightThrough()` | 1 | 1 | nowhere | |
#
# ($\varsigma$ is the logistic function; $u$ is in units of the threshold.) The *area* under the slope says how far the ramp
# rises in all. `ATan`, `Sigmoid` and `Triangle` have an area of 1, so their ramps rise from 0 to 1, as a probability does.
# `FastSigmoid` has a *peak* of 1 instead, and an area of $2/k$. Its ramp, too, is 1/2 at the threshold.
#
# **Predict first.** Between which two values does the ramp of `FastSigmoid(25)` run?

# %%
predict("surrogate_gradients.c")

# %% tags=["slide"]
curves = {
    "ATan(2)": surrogate.ATan(2.0),
    "Sigmoid(4)": surrogate.Sigmoid(4.0),
    "Triangle(1)": surrogate.Triangle(1.0),
    "FastSigmoid(25)": surrogate.FastSigmoid(25.0),
}
u = torch.linspace(-2, 2, 201, dtype=torch.float64)
backward = {name: one.derivative(u) for name, one in curves.items()}
axes = {"x": u, "x_title": "u = potential − threshold", "y_title": "slope"}
viz.show(figures.lines(backward, title="Four slopes for a step: each is largest at the threshold", **axes))

far = torch.tensor([-1e6, 1e6], dtype=torch.float64)
for name, one in curves.items():
    low, high = one.primitive(far).tolist()
    print(f"the ramp of {name:16s} rises from {low:.2f} to {high:.2f}")
outcome("surrogate_gradients.c", 1 if 0.4 < low < high < 0.6 else 0)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The ramp of `FastSigmoid` rises by no more than $2/k = 0.08$. That is not a probability, and it need
# not be one: only the slope enters the gradient. But a smaller area makes the gradient smaller, at each layer once more.
#
# </details>
#
# ### Exercise 02.1 · Your own backward pass (8 minutes, ●●○)
#
# With `torch.autograd.Function` you define both directions. `ctx` carries what `forward` stores in it to `backward`.
# There, `grad_output` is $\partial L/\partial s$, the gradient that arrives from the next layer. You return
# $\partial L/\partial u$. One line is missing: the slope $\sigma'(u)$ of
#
# $$\sigma(u) = \frac{1}{\pi}\arctan\!\Big(\frac{\pi}{2}\,\alpha\,u\Big) + \frac{1}{2}$$
#
# Derive it on paper (chain rule) instead of reading it from the table. `None` is the gradient for `alpha`, which we do
# not train.


# %% tags=["exercise"]
class MySpike(torch.autograd.Function):
    """H(u) forward, the slope of the arctangent above backward."""

    @staticmethod
    def forward(ctx, u, alpha):
        ctx.save_for_backward(u)
        ctx.alpha = alpha
        return (u >= 0).to(u.dtype)

    @staticmethod
    def backward(ctx, grad_output):
        u = ctx.saved_tensors[0]
        slope = ...  # sigma'(u), from u and ctx.alpha
        return grad_output * slope, None


MySpike = attempt("surrogate_gradients.1", MySpike)

# %% [markdown] tags=["slide"]
# Back to the staircase. A neuron of the kit accepts any function of `u` as its surrogate, so you can use yours. We compute
# the gradient at 301 weights. A positive one means "go left", a negative one "go right".
#
# **Predict first.** Will the surrogate gradient be zero on the flat parts, too? Will it have the right sign?

# %%
predict("surrogate_gradients.d")


# %%
def slopes_of(alpha, detach_reset=True):
    """Weights w, the loss at each, and the surrogate gradient at each, all [301]."""
    w = torch.linspace(0, 1.5, 301, requires_grad=True)
    options = {"decay_input": False, "detach_reset": detach_reset}
    cell = neuron.LIF(tau=10.0, surrogate=lambda u: MySpike.apply(u, alpha), **options)
    loss = distance(cell(train_in * w)[0], teacher)[0]
    # The neurons are independent, so the gradient of the sum contains the gradient of each weight.
    (gradient,) = torch.autograd.grad(loss.sum(), w)
    return w.detach(), loss.detach(), gradient


def stairs(log2_alpha=1.0, detach_reset=True):
    w, loss, gradient = slopes_of(2.0**log2_alpha, detach_reset)
    title = f"alpha = {2.0**log2_alpha:.3g}: to the teacher at {to_the_teacher(w, loss, gradient):.0%} of the weights"
    return one_above_the_other(w, loss, gradient, title)


viz.explore(stairs, log2_alpha=(-2.0, 6.0, 0.5), detach_reset=True)
outcome("surrogate_gradients.d", 1 if to_the_teacher(*slopes_of(2.0)) > 0.9 else 2)

# %% [markdown]
# Compare very wide ($\alpha$ small) and very narrow ($\alpha$ large) surrogates. The slider moves $\log_2 \alpha$, from
# $\alpha = 1/4$ to 64.
#
# <details>
# <summary><b>What to notice</b></summary>
#
# On the flat parts the gradient is *not* zero: it points to the minimum across the steps, as your
# eye did. Its size is the slope of no landscape. Its sign matters, and that is right nearly everywhere. A wide surrogate
# still pushes at the left end, where the neuron is silent. A narrow one reacts to few membranes, but strongly.
#
# </details>

# %% [markdown]
# To *detach* a value is to treat it as a constant, through which no gradient flows. Untick `detach_reset` and go to
# $\alpha = 16$. The reset, $v \leftarrow (1 - s)\,v$, contains the spike, so a gradient can flow through it. Each time it is
# multiplied by up to $-\alpha/2$. Just above $w = 1$ this happens 26 times in a row: the gradient reaches $10^{18}$, and
# its sign means nothing. `detach_reset=True` closes this way. That is safe and common; section 4 shows what it costs.
#
# ### Two weights: drop a ball
#
# Give the neuron a second input, and the staircase becomes a landscape of terraces: 3721 neurons with two weights each.
#
# **Predict first.** One ball follows the *true* slope, another one the surrogate gradient. Which of them reaches the
# valley?

# %%
predict("surrogate_gradients.e")

# %%
inputs = (torch.rand(60, 1, 2, generator=torch.Generator().manual_seed(2)) < 0.25).float()  # two spike trains
side = torch.linspace(0, 0.96, 61)
places = torch.cartesian_prod(side, side).T.clone().requires_grad_()  # [2, 3721]: every pair of weights
member = neuron.LIF(tau=10.0, decay_input=False, detach_reset=True, surrogate=surrogate.ATan(2.0))
wanted, _ = member(inputs @ torch.tensor([[0.6], [0.4]]))
terraces = distance(member(inputs @ places)[0], wanted)[0]  # [3721]
(downhill,) = torch.autograd.grad(terraces.sum(), places)
where = {"low": 0.0, "high": 0.96, "target": (0.6, 0.4)}
viz.landscape(terraces.view(61, 61), downhill.view(2, 61, 61), **where)
outcome("surrogate_gradients.e")

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# On the true slope a ball stays where it falls: every terrace is flat. With the surrogate it crosses
# terraces and steps, sometimes a little uphill. It nearly always ends where the spikes are the teacher's; that is a whole
# valley, not only the flag. Raise the *learning rate*, the length of a step per unit of gradient, until balls jump over it.
#
# </details>
#
# ## 3 · How wide? Gradients through eight layers and several time steps
#
# Going back through the layers, a gradient is multiplied at every layer by weights *and* by $\sigma'(u)$. A factor of 2 or
# 1/2 does not matter once. Eight times in a row it does.
#
# The next figure is about a net of eight layers of LIF neurons, which all fire at a healthy rate (24 to 33 %). The spikes
# are the same in every setting, since the forward pass does not use the surrogate. We compare four surrogates **of the
# same half-width** `h`.
#
# **Predict first.** Make them very narrow, `h` = 0.03. For how many of the four does the gradient *explode* on its way
# from layer 8 to layer 1? (`ATan`, `Sigmoid` and `Triangle` keep their *area* of 1 and grow taller. `FastSigmoid` keeps
# its *peak* of 1.)

# %%
predict("surrogate_gradients.f")


# %% tags=["slide"]
def gradient_flow(spike_function, layers=8, width=64, steps=10):
    """Gradient norms: of each layer's weights [layers], and of the input at each time step [steps]."""
    g = torch.Generator().manual_seed(SEED)
    modules = []
    for _ in range(layers):
        layer = torch.nn.Linear(width, width, bias=False)
        layer.weight.data = torch.randn(width, width, generator=g) * 2.5 / width**0.5 + 0.5 / width
        options = {"v_reset": None, "decay_input": False, "detach_reset": True}
        modules += [layer, neuron.LIF(tau=2.0, surrogate=spike_function, **options)]
    x = (torch.rand(steps, 4, width, generator=g) < 0.3).float().requires_grad_()
    out, _ = nn.Sequential(*modules)(x)
    (out[-1] * torch.randn(out[-1].shape, generator=g)).sum().backward()  # some loss, of the last step's spikes
    return [layer.weight.grad.norm().item() for layer in modules[::2]], x.grad.flatten(1).norm(dim=1).tolist()


widths = [2.0, 1.0, 0.5, 0.3, 0.1, 0.03] if QUICK else [3.0, 2.0, 1.5, 1.0, 0.7, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.03]
viz.show(viz.frames(flow_figure, "half-width h", widths, start=widths.index(0.3)))

# %%
explode = 0
for name, spike_function in of_width(0.03).items():
    by_layer, _ = gradient_flow(spike_function)
    explode += by_layer[0] > 10 * by_layer[-1]
    print(f"{name:12s} gradient at layer 1 / at layer 8: {by_layer[0] / by_layer[-1]:.2g}")
outcome("surrogate_gradients.f", explode)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - In the left panel the curves start close together at layer 8. At layer 1, with `h` = 0.03, they spread over nearly nine
#   powers of ten.
# - Narrow at constant *area* means a tall peak: the gradient **explodes** (`ATan`, `Sigmoid`, `Triangle`). Narrow at
#   constant *peak* means that hardly any membrane counts: it **vanishes** (`FastSigmoid`). With a large `h` the roles are
#   swapped.
# - In between there is a width at which depth costs little: for `ATan` about 0.5, for `Sigmoid` and `Triangle` about 1,
#   for `FastSigmoid` between 0.2 and 0.3. The defaults `ATan(2)` (h = 0.32), `Sigmoid(4)` (0.44) and `Triangle(1)` (0.5)
#   are near it. `FastSigmoid(25)` (0.017) and `SuperSpike(100)` (0.004) are not.
#
# </details>
#
# ### The surrogate explorer (optional, 9 minutes)
#
# *Which* membranes contribute to the gradient? The bars in the upper right panel show the
# <span class="show-membranes">membranes</span> of such a net, for all layers and steps together, below the
# <span class="show-derivative">derivative</span> that weights them. The lower panels show the
# <span class="show-gradient">gradient</span> again (dots), with `ATan(2)` as a broad pale line. Drag the diamond to make the
# <span class="show-surrogate">surrogate</span> wider or narrower.
#
# **Predict first.** (g) What share of the membranes is within the half-width of `ATan(2)`? (h) `StraightThrough`
# weights all membranes equally. Does that make its gradient the most stable of all?

# %%
predict("surrogate_gradients.g")
predict("surrogate_gradients.h")

# %%
viz.explorers.surrogate()

# %%
by_layer, _ = gradient_flow(surrogate.StraightThrough())
print(f"StraightThrough: gradient at layer 1 / at layer 8: {by_layer[0] / by_layer[-1]:.2g}")
outcome("surrogate_gradients.g")
outcome("surrogate_gradients.h", 1 if by_layer[0] > 100 * by_layer[-1] else 0)

# %% [markdown]
# **Predict first.** (i) From 8 layers to 16: does the range of good slopes become wider or narrower? Then set `depth` to 16
# and try slopes of `ATan` from 1.4 to 2.8.

# %%
predict("surrogate_gradients.i")

# %%
outcome("surrogate_gradients.i")

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - With `ATan(2)`, about one membrane in eight is within the half-width, and that is enough. With `FastSigmoid` at its
#   default slope of 25 it is one in 150, and $10^{-5}$ of the gradient is left after eight layers.
# - Weighting all membranes equally is not better. With `StraightThrough` each layer multiplies the gradient by its
#   weights only, and the result is four powers of ten too high.
# - At 16 layers, slopes of 1.4, 2 and 2.8 make the gradient shrink to a quarter, grow to 1.7 times, and grow elevenfold.
#
# </details>

# %% [markdown] tags=["slide"]
# ## What broke?
#
# A colleague writes the logistic surrogate from the textbook, $\sigma'(u) = k\,e^{-ku}/(1 + e^{-ku})^2$, with $k = 25$. It
# passes his tests. Two hundred batches of training work; then the loss is NaN. **Find the mistake before you read on.** (A
# membrane may be *far* below threshold: one strong negative input is enough.)


# %% tags=["slide-more", "slide-code"]
def textbook(u, k=25.0):
    e = torch.exp(-k * u)
    return k * e / (1 + e) ** 2


u = torch.tensor([0.0, -0.5, -1.5, -3.0, -4.0])
for name, slope in {"textbook": textbook, "kit     ": surrogate.Sigmoid(25.0).derivative}.items():
    print(name, " u =", u.tolist(), "  slope:", [f"{value:.1e}" for value in slope(u).tolist()])

# %% [markdown] tags=["slide"]
# In float32 the largest number is about $3.4\cdot10^{38} \approx e^{88.7}$. At $u = -4$ and $k = 25$ the textbook
# formula computes $e^{100}$, which is `inf`, and `inf / inf` is NaN. One NaN spoils all weights of that neuron in the next
# update, and *every* weight of the layers below. On paper $k\,\varsigma(ku)\,(1 - \varsigma(ku))$ is the same. On a computer,
# with `torch.sigmoid`, it is never NaN: it divides only once, and `1 / inf` is 0.
#
# **Test your surrogate at $u = \pm 10^{20}$.** Exercise 02.1 did that with yours.

# %% [markdown] tags=["slide"]
# ## 4 · Training
#
# Now we train. There are sixteen tasks. In each, a neuron gets the same 40 input spike trains and must fire at exactly
# three given times. The loss is equation (1). We compare six slopes: 6 × 16 neurons in parallel. The loop is `learn`, in
# the imports cell; notebook 04 takes it apart. Its *optimizer*, the rule that turns gradients into changes of the weights,
# is Adam: it divides each gradient by its typical size.
#
# **Predict first.** Which end fails: wide ($\alpha = 0.25$) or narrow ($\alpha = 50$)?

# %%
predict("surrogate_gradients.j")

# %%
STEPS, INPUTS, TASKS, EPOCHS = 50, 40, 16, 80 if QUICK else 400
generator = torch.Generator().manual_seed(SEED)
inputs = (torch.rand(STEPS, 1, INPUTS, generator=generator) < 0.08).float().to(device)  # [T, B, INPUTS]
moments = torch.tensor([10, 24, 38]) + torch.randint(-4, 5, (TASKS, 3), generator=generator)
targets = torch.zeros(STEPS, 1, TASKS).scatter_(0, moments.T.unsqueeze(1), 1.0).to(device)  # [T, B, TASKS]
start = torch.randn(TASKS, INPUTS, generator=generator).to(device)

slopes = [0.25, 1.0, 2.0, 5.0, 15.0, 50.0]
alpha = torch.tensor(slopes).repeat_interleave(TASKS).to(device)  # one slope per neuron
first = (0.2 * start + 0.05).repeat(len(slopes), 1)
losses, spikes = learn(inputs, targets.repeat(1, 1, len(slopes)), first, lambda u: MySpike.apply(u, alpha), EPOCHS)
losses, spikes = losses.unflatten(1, (-1, TASKS)), spikes.unflatten(2, (-1, TASKS))  # by slope and task

# %% tags=["slide"]
best = slopes.index(2.0)
task = int(losses[-1, best].argmin())  # a task that was learned well
figure = figures.raster(spikes[:, :, best, task].T)  # epochs in the place of neurons
for when in moments[task].tolist():
    figure.add_vline(x=when, line={"color": viz.theme.TEXT, "dash": "dash", "width": 1.5}, layer="below")
figure.update_layout(title={"text": "One neuron learns to fire at three times (dashed), alpha = 2"}, height=400)
viz.show(figure.update_yaxes(title={"text": "epoch"}, range=[EPOCHS, 0]))

# %% [markdown]
# Read it from top to bottom: each row is one *epoch*, one pass through all training data. First most spikes vanish, since
# that lowers the loss quickly. Then the surrogate sees a membrane that is too low at a target time, and raises it until a
# spike appears. The next figure shows all six slopes, as the mean over the tasks:

# %%
means = {f"alpha = {slope:g}": losses[:, i].mean(1) for i, slope in enumerate(slopes)}
axes = {"x_title": "epoch", "y_title": "loss", "log": "y"}
lowest = min(means, key=lambda name: means[name][-1])
viz.show(figures.lines(means, title=f"Mean loss of 16 tasks: {lowest} ends lowest", **axes))
solved = (spikes[-1] == targets.cpu()).all(0).float().mean(1)
print("tasks solved to the step:", dict(zip(slopes, [f"{one:.0%}" for one in solved], strict=True)))
outcome("surrogate_gradients.j", int(losses[-1, -1].mean() > losses[-1, 0].mean()))

# %% [markdown] tags=["slide"]
# <details>
# <summary><b>What to notice</b></summary>
#
# From 1 to 5 training works: after 80 epochs about half of the tasks are solved to the step. Its width has a broad
# optimum [4]. At 0.25 only 1 task of 16 is solved in this time. From 15 on nothing is solved: the gradient is large where
# a membrane happens to be near the threshold and almost zero everywhere else, so each step is close to random.
#
# </details>

# %% [markdown]
# Give `learn` the argument `detach_reset=True`: with $\alpha = 2$ none of the 16 tasks is solved in 80 epochs, not 9. For
# precise *timing* the gradient through the reset carries information: a spike now means a lower membrane later. Where only
# counts matter, as in notebook 04, you lose little by detaching.
#
# ## 5 · Dead neurons
#
# A silent neuron usually has a membrane near enough to the threshold to get some gradient, and it recovers. If not, it is
# dead: it has no spike and no slope, so it never changes.
#
# ### Exercise 02.2 · Find the dead neurons (8 minutes, ●●○)
#
# `u` is the distance to threshold at every step, `[T, B, N]`. A neuron is **dead** if it never fires (`u < 0` throughout)
# *and* its slope stays below `floor` throughout. Return one `True` or `False` per neuron, `[N]`. Every surrogate of the
# kit has `surrogate.derivative(u)`.


# %% tags=["exercise"]
def dead_neurons(u, surrogate, floor):
    """Which neurons neither fire nor can learn to? u [T, B, N] -> bool [N]."""
    return ...


dead_neurons = attempt("surrogate_gradients.2", dead_neurons)

# %% [markdown] tags=["slide"]
# ### A silent start
#
# The same sixteen tasks, but the initial weights are somewhat too negative: at the start no neuron fires. A careless
# initialisation or one large step of the optimizer does it to a layer.
#
# **Predict first.** Compare three surrogates: `Triangle(1)`, which is zero from 1 below the threshold; `ATan(2)`, with
# its heavy *tails* (far away its slope is small, but not 0); and `FastSigmoid(25)`, whose slope at $u = -1.2$ is only
# 1/1000. With which do all neurons recover?

# %%
predict("surrogate_gradients.k")


# %% tags=["slide"]
too_low, v, u = 0.1 * start - 0.05, 0.0, []
for x_t in inputs @ too_low.T:  # no neuron fires, so there is no reset
    v = v - v / 10.0 + x_t
    u.append(v - 1.0)
u = torch.stack(u)  # distance to threshold [T, B, TASKS]

recovered, rows = {}, []
for one in (surrogate.Triangle(1.0), surrogate.ATan(2.0), surrogate.FastSigmoid(25.0)):
    alive = learn(inputs, targets, too_low, one, epochs=60)[1].amax(1)  # [epochs, TASKS]: did it fire at all?
    rows.append((one, int(dead_neurons(u, one, floor=1e-6).sum()), int((alive[-20:].amax(0) == 0).sum())))
    recovered[str(one)] = alive.mean(1) * 100
axes = {"x_title": "epoch", "y_title": "neurons that fire (%)"}
woken = sum(silent == 0 for *_, silent in rows)
viz.show(figures.lines(recovered, title=f"From silence, {woken} of {len(rows)} surrogates wake every neuron", **axes))

# %%
print(f"at the start the highest u is {u.max():.2f}: no neuron fires")
for spike_function, dead, silent in rows:
    print(f"{spike_function!s:24s} dead by your function: {dead:2d}   silent at the end: {silent:2d}")
outcome("surrogate_gradients.k", woken - 1)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# Your function knew before training: half of the neurons are outside the range of `Triangle`, and
# they stay silent for good. With the tails of the other two, all recover. Even slopes of 1/1000 are enough, because
# Adam rescales each gradient. A small gradient is fine, but **zero is zero**.
#
# </details>

# %% [markdown]
# What helps in practice, in this order:
#
# 1. look at the firing rates of *every* layer in the first epoch;
# 2. scale the initial weights until 5 to 30 % of the neurons fire per step;
# 3. add a positive bias, a constant input;
# 4. take a surrogate with tails.
#
# **See a whole network die, and bring it back:** `snnkit export --playground playground.html` in a terminal writes a page
# in which networks train. Press *A surrogate of no width* there.

# %% [markdown] tags=["slide"]
# ## 6 · Build: a spike with a slope, from an empty cell
#
# Here are two ways to give a step a slope. One is `torch.autograd.Function`. The other needs no class at all (notebook 16
# uses it, for a chip that knows no such functions). **Predict first.** Let `a` be some smooth function of `u`, and `s` the
# step. What are the value and the gradient of `s + (a - a.detach())`?

# %%
predict("surrogate_gradients.l")

# %%
u = torch.tensor([-0.4, 0.3], requires_grad=True)
a, s = torch.sigmoid(u), (u >= 0).float()
trick = s + (a - a.detach())
(gradient,) = torch.autograd.grad(trick.sum(), u)
print("value", trick.data, " gradient", gradient, " slope of a", (a * (1 - a)).data)
outcome("surrogate_gradients.l", 0 if torch.equal(trick, s) and torch.allclose(gradient, a * (1 - a)) else 1)

# %% [markdown]
# ### Exercise 02.3 · A surrogate gradient (12 minutes, ●●○)
#
# Write `spike(u, width)`: a step on the way forward, a triangle on the way back. `u` has any shape, `width` is a number
# above 0: where the triangle ends. Both are in units of the threshold.
#
# $$s = \begin{cases}1 & u \ge 0\\0 & u < 0\end{cases} \qquad
# \frac{\partial s}{\partial u} := \frac{1}{h}\max\!\Big(0,\; 1 - \frac{|u|}{h}\Big), \quad h = \text{width} \tag{4}$$
#
# Return the spikes, in the shape and dtype of `u`: exactly 0 or 1. What arrives at the spikes on the way back must arrive
# at `u`, times the slope. **An example:** `width = 2`. At $u = -1$ the spike is 0 and the slope
# $\frac12(1 - \frac12) = 0.25$. At $u = 3$ the spike is 1 and the slope 0.

# %% tags=["exercise"]
# 02.3: a function spike(u, width)
spike = ...

spike = attempt("surrogate_gradients.3", spike)

# %% tags=["slide"]
u, slopes = torch.linspace(-3, 3, 241), {}
for width in (0.5, 1.0, 2.0):
    leaf = u.clone().requires_grad_()
    spike(leaf, width).sum().backward()
    slopes[f"width {width:g}"] = leaf.grad
axes = {"x_title": "u, in units of the threshold", "y_title": "gradient of the spike"}
viz.show(figures.lines(slopes, x=u, title="Your surrogate, three widths: narrower is taller", **axes))

# %% [markdown]
# ## Quiz

# %%
quiz("surrogate_gradients")

# %%
scorecard("surrogate_gradients")

# %% [markdown]
# ## Where next
#
# You can train through spikes. But where do the spikes at the input come from? **[03 · Turning the world into
# spikes](03_encodings.ipynb)** encodes images; 04 trains a network on them.
#
# **Worth reading**
#
# 1. M. C. W. van Rossum, *A novel spike distance*, Neural Computation 13 (2001).
#    [doi:10.1162/089976601300014321](https://doi.org/10.1162/089976601300014321)
# 2. E. O. Neftci, H. Mostafa, F. Zenke, *Surrogate gradient learning in spiking neural networks*, IEEE Signal Processing
#    Magazine 36 (2019). [doi:10.1109/MSP.2019.2931595](https://doi.org/10.1109/MSP.2019.2931595). Start here.
# 3. J. Gygax, F. Zenke, *Elucidating the theoretical underpinnings of surrogate gradient learning in spiking neural networks*,
#    Neural Computation 37 (2025). [doi:10.1162/neco_a_01752](https://doi.org/10.1162/neco_a_01752)
# 4. F. Zenke, T. P. Vogels, *The remarkable robustness of surrogate gradient learning for instilling complex function in spiking
#    neural networks*, Neural Computation 33 (2021). [doi:10.1162/neco_a_01367](https://doi.org/10.1162/neco_a_01367)
# 5. W. Fang et al., *Incorporating learnable membrane time constant to enhance learning of spiking neural networks*,
#    ICCV (2021). [doi:10.1109/ICCV48922.2021.00266](https://doi.org/10.1109/ICCV48922.2021.00266). The source of the
#    arctangent surrogate.
