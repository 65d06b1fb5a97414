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
# **Afterwards you can**
#
# - explain why backpropagation gives no useful gradient in a spiking network, and show it in three lines;
# - write the trick that solves this: an `autograd.Function` with a step function forward and a smooth slope backward;
# - choose a surrogate and its width, because you have seen the effect of a bad choice over eight layers;
# - recognise three failures when you meet them: exploding gradients, NaN from a formula that looks right, dead neurons.
#
# | | |
# |---|---|
# | Time | 55 minutes |
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

train.seed_everything(SEED)
course.start("surrogate_gradients", solve=SOLVE)
device = torch.device("cpu" if DEVICE == "auto" else DEVICE)
torch.set_num_threads(1)  # on tensors this small, several threads mostly wait for each other

# %% [markdown] tags=["slide"]
# ## 1 · A landscape of stairs
#
# Take one neuron with one weight. It gets a fixed input spike train, and it should repeat the output spikes of a
# "teacher": the same neuron with weight $w^* = 0.6$. To compare two spike trains, blur both with a decaying exponential
# and take the squared difference (the van Rossum distance [1]):
#
# $$L(w) = \frac{1}{T}\sum_t \Big(\sum_{t' \le t} e^{-(t-t')/\tau_L}\,\big(s_w[t'] - s^*[t']\big)\Big)^2 \tag{1}$$
#
# It is zero when the trains agree, small when spikes are a bit early or late, and large when some are missing. With a
# single weight we can afford to try *every* value: 601 neurons in parallel, one for each value of $w$.
#
# **Predict first.** (a) Sketch $L(w)$ for $w$ from 0 to 1.5. (b) What is its slope, at nearly every weight?

# %%
predict("surrogate_gradients.a")
predict("surrogate_gradients.b")


# %% tags=["slide"]
def blur(steps, tau=5.0):
    """Lower-triangular kernel [steps, steps] that convolves a spike train with exp(-t / tau)."""
    t = torch.arange(steps, dtype=torch.float32)
    return torch.tril(torch.exp(-(t[:, None] - t) / tau))


def distance(spikes, target):
    """Equation (1) for each neuron: spikes and target [T, B, N] -> [B, N]."""
    blurred = torch.einsum("ts,sbn->tbn", blur(len(spikes)).to(spikes), spikes - target)
    return blurred.square().mean(0)


generator = torch.Generator().manual_seed(3)
train_in = (torch.rand(60, 1, 1, generator=generator) < 0.3).float()  # spikes in [T, B, 1]
weights = torch.linspace(0, 1.5, 601)
teacher, _ = neuron.LIF(tau=10.0, decay_input=False)(0.6 * train_in)
outputs, _ = neuron.LIF(tau=10.0, decay_input=False)(train_in * weights)  # [T, 1, 601]
height = distance(outputs, teacher)[0]

axes = {"x": weights, "x_title": "weight w", "y_title": "loss L(w)", "marks": {"teacher": 0.6}}
viz.show(
    figures.lines(
        {"loss": height}, shape="hv", title="The loss is a staircase: its slope is zero almost everywhere", **axes
    )
)

# %%
outcome("surrogate_gradients.a", (weights, height))
flat = (height.diff() == 0).float().mean().item()
print(f"input spikes: {int(train_in.sum())}; neighbouring weights with exactly the same loss: {flat:.0%}")
outcome("surrogate_gradients.b", 1 if flat > 0.9 else 0)

# %% [markdown] tags=["slide"]
# <details>
# <summary><b>What to notice</b></summary>
#
# The curve is a staircase. A small change of the weight moves the membrane a little, but no spike,
# so the loss does not change at all. Then a spike jumps to the next time step, or a new one appears, and the loss jumps
# with it. On every flat part the slope is exactly zero; at the edges it does not exist. And yet *you* see at once where
# the minimum is. Remember this.
#
# </details>
#
# The reason is one function. With $u = v - \theta$, the distance from threshold, a spike is the Heaviside step,
#
# $$s = H(u) = \begin{cases}1 & u \ge 0\\ 0 & u < 0\end{cases}, \qquad \frac{dH}{du} = 0 \ \text{ for all } u \ne 0. \tag{2}$$
#
# Backpropagation multiplies by that zero. PyTorch computes it correctly, and that is the problem:

# %%
u = torch.tensor([-0.5, -0.01, 0.01, 0.5], requires_grad=True)
compared = (u >= 0).float()
print("spikes from a comparison:", compared.tolist(), "  part of a graph:", compared.requires_grad)
spikes = (torch.sign(u) + 1) / 2
spikes.sum().backward()
print("spikes from torch.sign:  ", spikes.tolist(), "  gradient:", u.grad.tolist())

# %% [markdown]
# The comparison cuts the graph. A call of `backward()` would raise an error, so you would notice. `torch.sign` keeps the
# graph and passes zeros through it: no error and no learning, so you would not notice.
#
# ## 2 · The surrogate gradient
#
# The idea of the **surrogate gradient** [2]: leave the forward pass unchanged, so that spikes stay 0 or 1. Only in the
# backward pass, pretend that the step was a smooth ramp $\sigma$:
#
# $$\text{forward:}\quad s = H(u) \qquad\qquad \text{backward:}\quad \frac{\partial s}{\partial u} := \sigma'(u) \tag{3}$$
#
# ![Three time steps side by side. At each, input goes through weights into the membrane, the membrane through a threshold to spikes, and the membrane of one step decays into that of the next. Gradients take every one of these ways backwards, from the loss on; at the threshold, where the true slope is 0 or infinite, they are multiplied by the slope of a smooth bump.](drawings/unrolled.svg)
#
# Each membrane has two ways out: up through the threshold, and on to the next step. The gradient comes back on both, and
# only the first one needs a surrogate.
#
# Why does a wrong derivative work? Add some noise to the threshold. Then a membrane close to it fires *sometimes*, with
# a probability that rises smoothly from 0 to 1. That is $\sigma(u)$, and for a single neuron $\sigma'(u)$ is the true
# derivative of the average over the noise. A membrane just below the threshold *nearly* fired: with a little more weight
# it would have. The surrogate passes this news to the weight. In deep networks the argument is no longer exact [3], but
# the signs are right often enough, and that is robust [4].
#
# The kit has six surrogates. They differ mainly in height and in width. (The last column says which library uses it when
# you ask for nothing else.)
#
# | surrogate | $\sigma'(u)$ | peak | half of the peak at $\lvert u\rvert$ = | default of |
# |---|---|---|---|---|
# | `ATan(alpha=2)` | $\frac{\alpha/2}{1 + (\pi\alpha u/2)^2}$ | $\alpha/2$ | $0.64/\alpha$ | snnTorch |
# | `Sigmoid(alpha=4)` | $\alpha\,\varsigma(\alpha u)\,(1 - \varsigma(\alpha u))$ | $\alpha/4$ | $1.76/\alpha$ | SpikingJelly |
# | `FastSigmoid(slope=25)` | $1/(1 + k\lvert u\rvert)^2$ | 1 | $0.41/k$ | |
# | `SuperSpike(alpha=100)` | the same with $k = 100$ | 1 | 0.004 | Norse |
# | `Triangle(alpha=1)` | $\alpha\max(0, 1 - \alpha\lvert u\rvert)$ | $\alpha$ | $0.5/\alpha$ | |
# | `StraightThrough()` | 1 | 1 | nowhere | |
#
# ($\varsigma$ is the logistic function.) `StraightThrough` passes the whole gradient, near the threshold or not.
# `Triangle` passes nothing beyond $1/\alpha$. The others have tails.
#
# The ramp $\sigma$ is the **primitive** of the slope: the function whose derivative it is. That leaves a constant open;
# here the primitive is 1/2 at the threshold. How far it rises in all is the *area* under the slope. `ATan`, `Sigmoid`
# and `Triangle` have an area of 1, so their ramps rise from 0 to 1, as a probability does. `FastSigmoid` has a *peak* of
# 1 instead, and an area of $2/k$.
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
forward = {"spike": (u >= 0).double()} | {name: one.primitive(u) for name, one in curves.items()}
axes = {"x": u, "x_title": "u = potential − threshold"}
title = "Forward: the spike, and the ramps (primitives)"
viz.show(figures.lines(forward, y_title="spike", title=title, faint=["spike"], **axes))

# %% tags=["slide"]
backward = {name: one.derivative(u) for name, one in curves.items()}
viz.show(figures.lines(backward, y_title="slope", title="Backward: each slope is largest at the threshold", **axes))

# %%
far = torch.tensor([-1e6, 1e6], dtype=torch.float64)
for name, one in curves.items():
    low, high = one.primitive(far).tolist()
    print(f"{name:16s} rises from {low:.2f} to {high:.2f}; peak of its slope: {one.derivative(u).max():.2g}")
outcome("surrogate_gradients.c", 1 if 0.4 < low < high < 0.6 else 0)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The ramp of `FastSigmoid` rises by no more than $2/k = 0.08$, half of it within 0.04 of the
# threshold. That is not a probability, and it need not be one: only the slope enters the gradient. A smaller area acts
# like a smaller learning rate, at each layer once more. Section 3 shows what becomes of that.
#
# </details>
#
# ### Exercise 02.1 · Your own backward pass (8 minutes, ●●○)
#
# With `torch.autograd.Function` you define both directions. `forward` is already written. In `backward`, `grad_output`
# is $\partial L/\partial s$, the gradient that arrives from the next layer. You return $\partial L/\partial u$. One line
# is missing: the slope $\sigma'(u)$ of
#
# $$\sigma(u) = \frac{1}{\pi}\arctan\!\Big(\frac{\pi}{2}\,\alpha\,u\Big) + \frac{1}{2}$$
#
# Derive it on paper (chain rule) instead of reading it from the table. The second value returned, `None`, is the
# gradient for `alpha`, which we do not train.


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
# Back to the staircase. A neuron of the kit accepts any function of `u` as its surrogate, so you can use yours
# directly. Backpropagation then gives a gradient at every weight. A positive one means "go left", a negative one "go
# right". The true slope is zero throughout.
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


def to_the_teacher(w, loss, gradient):
    """The share of weights, of those with a loss, at which the gradient points to the teacher."""
    return (torch.sign(gradient) == torch.sign(w - 0.6))[loss > 0].float().mean().item()


def stairs(log2_alpha=1.0, detach_reset=True):
    w, loss, gradient = slopes_of(2.0**log2_alpha, detach_reset)
    figure = figures.panels(2, 1, shared_xaxes=True, vertical_spacing=0.08)
    curves = [("loss", loss, viz.theme.BLUE, 1), ("surrogate gradient", gradient, viz.theme.VERMILION, 2)]
    for name, y, colour, row in curves:
        figure.add_scatter(x=w, y=y, mode="lines", line={"color": colour}, name=name, row=row, col=1)
        figure.update_yaxes(title={"text": name}, row=row, col=1)
    figure.add_hline(y=0, line={"color": viz.theme.AXIS, "width": 1}, row=2, col=1)
    figure.add_vline(x=0.6, line={"color": viz.theme.AXIS, "dash": "dash"})
    figure.update_xaxes(title={"text": "weight w (dashed: the teacher's)"}, row=2, col=1)
    title = f"alpha = {2.0**log2_alpha:.3g}: to the teacher at {to_the_teacher(w, loss, gradient):.0%} of the weights"
    return figure.update_layout(title={"text": title}, height=430, showlegend=False)


viz.explore(stairs, log2_alpha=(-2.0, 6.0, 0.5), detach_reset=True)
outcome("surrogate_gradients.d", 1 if to_the_teacher(*slopes_of(2.0)) > 0.9 else 2)

# %% [markdown]
# Now compare very wide ($\alpha$ small) and very narrow ($\alpha$ large) surrogates. The slider moves $\log_2 \alpha$,
# from $\alpha = 1/4$ to 64.
#
# <details>
# <summary><b>What to notice</b></summary>
#
# On the flat parts the gradient is *not* zero: it points to the minimum across the steps, as your
# eye did. It is the slope of no landscape, so do not compare its size with finite differences. Its sign matters, and
# that is right nearly everywhere. A wide surrogate gives a smooth gradient that still pushes at the left end, where the
# neuron is silent. A narrow one reacts to few membranes, but strongly when one is near the threshold.
#
# </details>
#
# Now untick `detach_reset` and go to $\alpha = 16$. The reset, $v \leftarrow (1 - s)\,v$, contains the spike. So the
# gradient can also flow through the reset, and each time it is multiplied by about $-\theta\,\sigma'(u)$, up to
# $-\alpha/2$. Just above $w = 1$, every input spike alone lifts the membrane to its threshold. There this happens 26
# times in a row: the gradient reaches $10^{18}$, and its sign means nothing. `detach_reset=True` treats the reset as a
# constant and leaves it out of the gradient. This is safe and common. It has a cost, as section 4 will show.
#
# ### Two weights: drop a ball
#
# Give the neuron a second input, and the staircase becomes a landscape of terraces. Each of its 3721 places is one neuron
# with two weights. All of them run at once, and one call gives the surrogate gradient at every place.
#
# **Predict first.** One ball follows the *true* slope, another one the surrogate gradient, which is the slope of nothing
# here. Which of them reaches the valley?

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
# On the true slope a ball stays where it falls: every terrace is flat, and gradient descent has
# nothing to follow. With the surrogate it crosses terraces and steps, sometimes a little uphill. It nearly always ends
# where the spikes are the teacher's; that is a whole valley, not only the flag. Raise the learning rate until balls jump
# over it.
#
# </details>
#
# ## 3 · How wide? Gradients through eight layers and several time steps
#
# Going back through the layers, a gradient is multiplied at every layer by weights *and* by $\sigma'(u)$. Going back in
# time, it is multiplied by the decay of the membrane. A factor of 2 or 1/2 does not matter once. Eight times in a row
# it does.
#
# The next figure is about a net of eight layers of LIF neurons, which all fire at a healthy rate (24 to 33 %). The spikes
# are the same in every setting, since the forward pass does not use the surrogate. We compare four surrogates **of the
# same width**: `h` is the distance from threshold at which the slope has fallen to half its peak.
#
# **Predict first.** Make them very narrow, `h` = 0.03. For how many of the four does the gradient *explode* on its way
# from layer 8 to layer 1? (`ATan`, `Sigmoid` and `Triangle` keep their *area* of 1 and grow taller. `FastSigmoid` keeps
# its *peak* of 1.)

# %%
predict("surrogate_gradients.f")


# %% tags=["slide"]
def of_width(w):
    """Four surrogates whose slope is half its peak at |u| = w."""
    return {
        "ATan": surrogate.ATan(2 / (math.pi * w)),
        "Sigmoid": surrogate.Sigmoid(2 * math.acosh(math.sqrt(2)) / w),
        "Triangle": surrogate.Triangle(0.5 / w),
        "FastSigmoid": surrogate.FastSigmoid((math.sqrt(2) - 1) / w),
    }


def gradient_flow(spike_function, layers=8, width=64, steps=10):
    """Gradient norms: of each layer's weights [layers], and of the input at each time step [steps]."""
    g = torch.Generator().manual_seed(SEED)
    modules = []
    for _ in range(layers):
        layer = torch.nn.Linear(width, width, bias=False)
        # Gain and mean are chosen so that activity neither vanishes nor grows from layer to layer.
        layer.weight.data = torch.randn(width, width, generator=g) * 2.5 / width**0.5 + 0.5 / width
        options = {"v_reset": None, "decay_input": False, "detach_reset": True}
        modules += [layer, neuron.LIF(tau=2.0, surrogate=spike_function, **options)]
    x = (torch.rand(steps, 4, width, generator=g) < 0.3).float().requires_grad_()
    out, _ = nn.Sequential(*modules)(x)
    some_loss = (out[-1] * torch.randn(out[-1].shape, generator=g)).sum()  # of the last step's spikes
    some_loss.backward()
    by_layer = [layer.weight.grad.norm().item() for layer in modules[::2]]
    return by_layer, x.grad.flatten(1).norm(dim=1).tolist()


def flow_figure(w):
    figure = figures.panels(1, 2, ["back through depth", "back through time"])
    for i, (name, spike_function) in enumerate(of_width(w).items()):
        line = {"color": viz.theme.colour(i), "dash": viz.theme.dash(i)}
        style = {"name": name, "legendgroup": name, "mode": "lines+markers", "line": line}
        by_layer, by_step = gradient_flow(spike_function)
        figure.add_scatter(x=list(range(1, 9)), y=by_layer, row=1, col=1, **style)
        figure.add_scatter(x=list(range(-9, 1)), y=by_step, row=1, col=2, showlegend=False, **style)
    figure.update_layout(title={"text": f"Gradient norm, half-width h = {w:g}"}, height=380)
    figure.update_xaxes(title={"text": "layer (the loss is at 8)"}, row=1, col=1)
    figure.update_xaxes(title={"text": "time step (the loss is at 0)"}, row=1, col=2)
    return figure.update_yaxes(type="log", exponentformat="power")


widths = [2.0, 1.0, 0.5, 0.3, 0.1, 0.03]
if not QUICK:
    widths = [3.0, 2.0, 1.5, 1.0, 0.7, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.03]
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
# - Look at the right end of the left panel (layer 8): the curves are close together. Now look at the left end while you
#   move `h`: at 0.03 the curves spread over nearly nine powers of ten.
# - Narrow at constant *area* means a tall peak: the gradient **explodes** (`ATan`, `Sigmoid`, `Triangle`). Narrow at
#   constant *peak* means that hardly any membrane is near enough to count: it **vanishes** (`FastSigmoid`). The width
#   is the same; the failures are opposite.
# - Wide is not safe either, and the roles are swapped. With the low `ATan` the gradient shrinks from layer to layer.
#   `FastSigmoid`, now close to 1 everywhere, passes everything, and the gradient explodes.
# - In between there is a width at which depth costs little: for `ATan` about 0.5, for `Sigmoid` and `Triangle` about 1,
#   for `FastSigmoid` between 0.2 and 0.3. It depends on the weights, for only the product of slope and weights matters.
#   The defaults `ATan(2)` (h = 0.32), `Sigmoid(4)` (0.44) and `Triangle(1)` (0.5) are near it. `FastSigmoid(25)` (0.017)
#   and `SuperSpike(100)` (0.004) are not: they come from work on networks with few layers, trained with optimizers that
#   rescale each weight's gradient, as Adam does.
# - Back in time (right panel, at the input) the curves vary less. The last input has the smallest gradient, since it
#   has had one step to charge eight membranes. The inputs of some steps before it were stored by each layer in turn.
#   Further back, the membranes' decay of $1 - 1/\tau$ per step would dominate.
#
# </details>
#
# ### The surrogate explorer
#
# One question is left: *which* membranes contribute to the gradient? The bars in the upper right panel show the
# distribution of the <span class="show-membranes">membranes</span> of such a net, for all layers and steps together,
# below the <span class="show-derivative">derivative</span> that weights them. The lower panels show the
# <span class="show-gradient">gradient</span> again (dots), with `ATan(2)` as a broad pale line. Drag the diamond to make
# the <span class="show-surrogate">surrogate</span> wider or narrower, or set its <span class="show-slope">`slope`</span>.
#
# **Predict first.** (g) What share of the membranes is within the half-width of `ATan(2)`? (h) `StraightThrough`
# weights all membranes equally. Does that make its gradient the most stable of all? (i) From 8 layers to 16: does the
# range of good slopes become wider or narrower?

# %%
predict("surrogate_gradients.g")
predict("surrogate_gradients.h")
predict("surrogate_gradients.i")

# %%
viz.explorers.surrogate()

# %%
by_layer, _ = gradient_flow(surrogate.StraightThrough())
print(f"StraightThrough: gradient at layer 1 / at layer 8: {by_layer[0] / by_layer[-1]:.2g}")
outcome("surrogate_gradients.g")
outcome("surrogate_gradients.h", 1 if by_layer[0] > 100 * by_layer[-1] else 0)
outcome("surrogate_gradients.i")

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - With `ATan(2)`, about one membrane in eight is within the half-width, and that is enough. With `FastSigmoid` at its
#   default slope of 25 it is one in 150, and $10^{-5}$ of the gradient is left after eight layers.
# - Weighting all membranes equally is not better. With `StraightThrough` each layer multiplies the gradient by its
#   weights only, and the result is four powers of ten too high.
# - A deep network needs the right slope. At 16 layers, slopes of 1.4, 2 and 2.8 make the gradient shrink to a quarter,
#   grow to 1.7 times, and grow elevenfold. At 2 layers you hardly see a difference.
#
# </details>

# %% [markdown] tags=["slide"]
# ## What broke?
#
# A colleague writes the logistic surrogate straight from the textbook, $\sigma'(u) = k\,e^{-ku}/(1 + e^{-ku})^2$, with a slope of
# 25. It passes his tests. He trains; the first two hundred batches work; then the loss is NaN. **Find the mistake
# before you read on.** (A membrane may be *far* below threshold: one strong inhibitory input is enough.)


# %% tags=["slide-more", "slide-code"]
class TextbookSigmoid(torch.autograd.Function):
    @staticmethod
    def forward(ctx, u, k):
        ctx.save_for_backward(u)
        ctx.k = k
        return (u >= 0).to(u.dtype)

    @staticmethod
    def backward(ctx, grad_output):
        (u,) = ctx.saved_tensors
        e = torch.exp(-ctx.k * u)
        return grad_output * ctx.k * e / (1 + e) ** 2, None


# %%
u = torch.tensor([0.0, -0.5, -1.5, -3.0, -4.0])
kinds = {"textbook": lambda u: TextbookSigmoid.apply(u, 25.0), "kit     ": surrogate.Sigmoid(25.0)}
for name, spike_function in kinds.items():
    leaf = u.clone().requires_grad_()
    spike_function(leaf).sum().backward()
    print(name, " u =", u.tolist(), "  gradient:", [f"{value:.1e}" for value in leaf.grad.tolist()])

# %% [markdown] tags=["slide"]
# In float32 the largest number is about $3.4\cdot10^{38} \approx e^{88.7}$. At $u = -4$ and $k = 25$ the textbook
# formula computes $e^{100}$, which is `inf`, and `inf / inf` is NaN. With the next step of the optimizer, one NaN in one
# neuron spoils all weights of that neuron, and *every* weight of the layers below, to which it passes its gradient.
#
# On paper $k\,\varsigma(ku)\,(1 - \varsigma(ku))$ is the same. On a computer, with `torch.sigmoid`, it is never NaN:
# $\varsigma(a) = 1/(1 + e^{-a})$ forms the same large exponential, but divides only once, and `1 / inf` is 0. That is not
# exact (the true slope at $u = -4$ is $9\cdot10^{-43}$), but harmless.
#
# **Test your surrogate at $u = \pm 10^{20}$.** Exercise 02.1 did that with yours.

# %% [markdown] tags=["slide"]
# ## 4 · Training
#
# Now we train. There are sixteen tasks. In each, a neuron gets the same 40 input spike trains and must fire at exactly
# three given times. The loss is the blurred distance of section 1. We compare six slopes at once: 6 × 16 neurons in
# parallel, each with the `alpha` of its group, since your `MySpike` accepts a tensor as well as a number.
#
# **Predict first.** Which end fails: wide ($\alpha = 0.25$) or narrow ($\alpha = 50$)?

# %%
predict("surrogate_gradients.j")

# %%
STEPS, INPUTS, TASKS = 50, 40, 16
EPOCHS = 80 if QUICK else 400
generator = torch.Generator().manual_seed(SEED)
inputs = (torch.rand(STEPS, 1, INPUTS, generator=generator) < 0.08).float()  # [T, B, INPUTS]
moments = torch.tensor([10, 24, 38]) + torch.randint(-4, 5, (TASKS, 3), generator=generator)
targets = torch.zeros(STEPS, 1, TASKS).scatter_(0, moments.T.unsqueeze(1), 1.0)  # [T, B, TASKS]
start = torch.randn(TASKS, INPUTS, generator=generator)
inputs, targets, start = inputs.to(device), targets.to(device), start.to(device)


def learn(spike_function, groups=1, mean=0.05, spread=0.2, epochs=EPOCHS):
    """Train groups x TASKS neurons. Losses [epochs, groups, TASKS], spikes [epochs, T, groups, TASKS]."""
    weight = (spread * start + mean).repeat(groups, 1).requires_grad_()
    wanted = targets.repeat(1, 1, groups)
    cell = neuron.LIF(tau=10.0, v_reset=None, decay_input=False, surrogate=spike_function)
    optimizer = torch.optim.Adam([weight], lr=0.02)
    losses, spikes = [], []
    for _ in range(epochs):
        out, _ = cell(inputs @ weight.T)
        loss = distance(out, wanted)[0]
        optimizer.zero_grad()
        loss.sum().backward()
        optimizer.step()
        losses.append(loss.detach())
        spikes.append(out.detach()[:, 0])
    losses, spikes = torch.stack(losses).cpu(), torch.stack(spikes).cpu()
    return losses.unflatten(1, (groups, TASKS)), spikes.unflatten(2, (groups, TASKS))


slopes = [0.25, 1.0, 2.0, 5.0, 15.0, 50.0]
alpha = torch.tensor(slopes).repeat_interleave(TASKS).to(device)  # one slope per neuron
losses, spikes = learn(lambda u: MySpike.apply(u, alpha), groups=len(slopes))

# %% tags=["slide"]
best = slopes.index(2.0)
task = int(losses[-1, best].argmin())  # a task that was learned well
figure = figures.raster(spikes[:, :, best, task].T)  # epochs in the place of neurons
for when in moments[task].tolist():
    figure.add_vline(x=when, line={"color": viz.theme.VERMILION, "dash": "dash", "width": 1.5})
figure.update_layout(title={"text": "One neuron learns to fire at three times (dashed), alpha = 2"}, height=400)
viz.show(figure.update_yaxes(title={"text": "epoch"}, range=[EPOCHS, 0]))

# %% [markdown]
# Read the figure from top to bottom: each row is one epoch. At first there are spikes at many times, and the quickest way
# to a lower loss is to silence most of them. With a true gradient learning would stop here, because a spike that is not
# there cannot be moved. The surrogate sees a membrane that is too low at a target time, and raises it until a spike
# appears there. Wrong spikes come and go. In the end all spikes are on the dashed lines. The next figure shows all six
# slopes, as the mean over the tasks:

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
# From 1 to 5 training works: about half of the tasks are solved to the step. The *shape* of the
# surrogate hardly matters, and its width has a broad optimum [4]. At 0.25 the loss still falls, but only 1 task of 16 is
# solved in this time. From 15 on nothing is solved: the gradient is large where a membrane happens to be near the
# threshold and almost zero everywhere else, so each step is close to random.
#
# </details>

# %% [markdown]
# Now put `detach_reset=True` into `learn` and run it again: with $\alpha = 2$, 1 of the 16 tasks is solved instead of 9.
# For precise *timing* the gradient through the reset carries information (a spike now means a lower membrane later),
# and with a low peak it does not explode. Where only counts matter, as in notebook 04, you lose little by detaching. No
# setting is best for every task: compare.
#
# ## 5 · Dead neurons
#
# A neuron that never fires contributes nothing. Usually its membrane is near enough to the threshold to get some
# gradient, and it recovers. If not, it is dead: it has no spike and no slope, so it never changes.
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
# ## A silent start
#
# The same sixteen tasks, but the initial weights are somewhat too negative: at the start no neuron fires. This is
# common. A careless initialisation or one large step of the optimizer does it to a layer.
#
# **Predict first.** Compare three surrogates: `Triangle(1)`, which is zero from 1 below the threshold; `ATan(2)`, with
# its heavy tails; and `FastSigmoid(25)`, whose slope at $u = -1.2$ is only 1/1000. With which do all neurons recover?

# %%
predict("surrogate_gradients.k")


# %% tags=["slide"]
def distances(mean, spread):
    """Distance to threshold u [T, B, TASKS] with initial weights; no neuron fires, so there is no reset."""
    drive, v, u = inputs @ (spread * start + mean).T, 0.0, []
    for x_t in drive:
        v = v - v / 10.0 + x_t
        u.append(v - 1.0)
    return torch.stack(u)


TOO_LOW = {"mean": -0.05, "spread": 0.1}
u = distances(**TOO_LOW)
recovered, rows = {}, []
for spike_function in (surrogate.Triangle(1.0), surrogate.ATan(2.0), surrogate.FastSigmoid(25.0)):
    dead = int(dead_neurons(u, spike_function, floor=1e-6).sum())
    _, spikes = learn(spike_function, epochs=60, **TOO_LOW)
    alive = spikes[:, :, 0].amax(1)  # [epochs, TASKS]: did it fire at all?
    silent = int((alive[-20:].amax(0) == 0).sum())
    rows.append((spike_function, dead, silent))
    recovered[str(spike_function)] = alive.mean(1) * 100
axes = {"x_title": "epoch", "y_title": "neurons that fire (%)"}
viz.show(figures.lines(recovered, title="Neurons that fire at all, from a silent start", **axes))

# %%
print(f"at the start the highest u is {u.max():.2f}: no neuron fires")
for spike_function, dead, silent in rows:
    print(f"{spike_function!s:24s} dead by your function: {dead:2d}   silent at the end: {silent:2d}")
outcome("surrogate_gradients.k", sum(silent == 0 for *_, silent in rows) - 1)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# Your function knew before training: half of the neurons are outside the range of `Triangle`, and
# they stay silent for good. With the tails of the other two, all recover. Even slopes of 1/1000 are enough, because
# Adam divides each gradient by its typical size. For Adam a small gradient is fine, but **zero is zero**. (With plain
# SGD, which has one step size for all weights, at a rate that suits `ATan`, 0.1, the `FastSigmoid` neurons are all
# still silent after 60 epochs. Try it.)
#
# </details>
#
# What helps in practice, in this order:
#
# 1. look at the firing rates of *every* layer in the first epoch (the kit's live panel, in notebook 04, shows them);
# 2. scale the initial weights until 5 to 30 % of the neurons fire per step;
# 3. add a positive bias;
# 4. take a surrogate with tails.
#
# A penalty on low rates (`loss.spike_rate_regulariser`) helps neurons that are nearly dead, but not dead ones: its
# gradient also passes through the surrogate.
#
# **See a whole network die, and bring it back:** `snnkit export --playground playground.html` in a terminal writes a page
# in which networks train in the browser. Press *A surrogate of no width* there, and watch where the membranes are.
#
# ## Quiz

# %%
quiz("surrogate_gradients")

# %%
scorecard("surrogate_gradients")

# %% [markdown]
# ## Where next
#
# You can train through spikes. But where do the spikes at the input come from? **[03 · Turning the world into
# spikes](03_encodings.ipynb)** encodes images; 04 trains a network on them. And in [09 · Blank
# pages](09_blank_pages.ipynb) you write a surrogate gradient from an empty cell.
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
