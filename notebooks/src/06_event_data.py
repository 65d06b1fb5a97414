# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown] tags=["badge"]
# [![Open In Colab](drawings/open_in_colab.svg)](https://colab.research.google.com/github/snnkit/snnkit/blob/main/notebooks/06_event_data.ipynb)

# %% [markdown] tags=["slide"]
# # 06 · Events and time
#
# Spikes are events in time. So far we made them from still images, which have no time in them. Here the data are events,
# from a sensor that works like a layer of neurons. And we test by experiment whether a network uses time at all.
#
# **Afterwards you can**
#
# - say what an event camera reports, and when it saves bytes;
# - turn events into tensors, and say which information is lost;
# - distinguish changes of a recording that preserve its label from those that do not;
# - train a spiking network on events, and test whether the task needs time and whether the network uses it;
# - recognise mistakes that raise no error.
#
# | | |
# |---|---|
# | Time | 75 minutes, and 15 more for the optional part |
# | GPU minutes | 0. Everything runs on a CPU; where there is a GPU, the training uses it |
# | Before this | 03 encodings, 04 training |

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
QUICK: bool = True  # False: longer training, more windows in the comparison
SOLVE: bool = False  # True: the exercises are filled in with their solutions
SEED: int = 0  # seed of camera noise, weights and order
DEVICE: str = "auto"  # "auto", "cpu" or "cuda"
PUBLISHED: str = ""  # "nmnist", "shd" or "dvs_gesture": opens that data set at the end (downloads)

# %%
import math
from dataclasses import replace

import torch

from snnkit import data, loss, models, train
from snnkit.lab import course, viz
from snnkit.lab.course import attempt, hint, outcome, predict, quiz, scorecard, solution
from snnkit.lab.viz import figures

events = data.events
train.seed_everything(SEED)
course.start("event_data", solve=SOLVE)
device = data.resolve_device(DEVICE)
draw = torch.Generator().manual_seed(SEED)
torch.set_num_threads(1)  # on tensors this small, several threads mostly wait for each other

# %% [markdown] tags=["slide"]
# ## 1 · A camera that sees changes
#
# A film reads all its pixels thirty times a second, whether anything has happened or not. Each pixel of an *event camera*
# watches its own light, and sends an event only when the light has changed. The *polarity* of an event says whether the
# pixel became brighter (ON) or darker (OFF).
#
# Such a camera looks at a handwritten three. A digit on paper does not move, so the camera does: three short movements,
# *saccades*, round a small triangle in 0.3 s. Drag the slider below the picture.

# %%
recordings, labels = {}, {}
for split in ("train", "test"):
    recordings[split], labels[split] = events.record_digits(split, seed=SEED)
of_digit = [recordings["train"][int((labels["train"] == digit).nonzero()[0])] for digit in range(10)]
three = of_digit[3]


# %% tags=["slide"]
def seen(ms):
    """ON (blue) minus OFF (crimson) in the 20 ms that end here."""
    off, on = events.to_frames(three, window=20_000)[ms // 20 - 1]
    figure = figures.image_grid((on - off)[None], title=f"A three, from {ms - 20} to {ms} ms")
    return figure.update_traces(colorscale=viz.theme.SIGNED, zmin=-3, zmax=3).update_layout(height=420)


viz.show(viz.frames(seen, "ms", range(20, 301, 20), start=4))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# Each stroke has an ON side and an OFF side: the camera moves it off some pixels and onto others. When the camera turns
# in another direction, other edges appear. A bright and a dark pixel that do not change look the same, because neither
# sends anything.
#
# </details>
#
# ### One pixel
#
# A pixel stores one number: the logarithm of the light at its last event. With the light $I$ in lux, at time $t$ in
# seconds,
#
# $$ L(t) = \ln\big(I(t) + I_d\big), \qquad \text{event at } t \text{ when } \lvert L(t) - L(t_\text{last}) \rvert \ge \theta, \qquad
# p = \operatorname{sign}\big(L(t) - L(t_\text{last})\big). \tag{1} $$
#
# $p$ is the polarity. The threshold $\theta$ has no unit: a difference of logarithms is a ratio. $\theta = 0.2$ means a
# change by the factor $e^{0.2}$, about 22 %. $I_d$ is the light below which the pixel detects little.
#
# A hand passes three times, and each time takes away 60 % of the light. We compare moonlight (0.2 lux), an office (500
# lux) and sunlight (100 000 lux).
#
# **Predict first.** How many events does the hand cause in each of the three lights?

# %%
predict("event_data.a")


# %% tags=["slide"]
def pixel(light, threshold=0.2, blind=0.02):
    """Equation (1): the light [T] of one pixel, in lux -> [(sample, polarity), …]."""
    level = torch.log(light.double() + blind).tolist()
    memory, sent = level[0], []
    for sample, now in enumerate(level):
        while abs(now - memory) >= threshold:
            polarity = 1 if now > memory else -1
            memory += polarity * threshold
            sent.append((sample, polarity))
    return sent


time = torch.arange(0, 1, 1e-4)  # seconds
hand = 1 - 0.6 * torch.sin(3 * torch.pi * time) ** 8  # share of the light that is left
hand = hand * (1 + 0.05 * time)  # and a cloud moves away meanwhile
levels, counts = {}, {}
for name, lux in {"moon, 0.2 lux": 0.2, "office, 500 lux": 500.0, "sun, 100 000 lux": 1e5}.items():
    sent = pixel(lux * hand)
    # Each event says: one threshold up, or one down. So their sum is what the receiver knows of the light.
    steps = 0.2 * torch.tensor([polarity for _, polarity in sent]).cumsum(0)
    levels[name] = [0.0] + [sample * 1e-4 for sample, _ in sent], [0.0, *steps]
    counts[name] = len(sent)
    print(f"{name:17} {len(sent):3} events")
look = {"x_title": "time (s)", "shape": "hv", "y_title": "change of L", "faint": ["sun, 100 000 lux"]}
figure = figures.lines(levels, title="The sum of events is the same in the office and in the sun", **look)
viz.show(figure.update_yaxes(range=[-0.95, 0.15]))
moon, office, sun = counts.values()
alike = "office and sun the same" if office == sun else "office and sun different"
outcome("event_data.a", f"{alike}, the moon {'fewer' if moon < office else 'as many' if moon == office else 'more'}")

# %% [markdown] tags=["slide"]
# <details>
# <summary><b>What to notice</b></summary>
#
# In the sun there is two hundred times more light than in the office, and yet the events are the same. A hand that takes
# 60 % of the light changes $L$ by $\ln 0.4 = -0.92$, whatever the light is. That is four thresholds down and four up
# again, three times: 24 events. Only in moonlight, where $I_d$ begins to matter, there are fewer. An ordinary sensor that
# is exposed for the office would be black in moonlight and white in the sun. The ratio of the brightest to the faintest
# usable light is about 1000 : 1 for it, and a million to one for the first widely used event camera [1].
#
# </details>
#
# ## 2 · A recording is a list
#
# ![Left, a dark bar moves across four frames of 36 pixels: 144 numbers. Right, the same movement as events in time: dots where a pixel became darker, and where it became brighter again. Below, one event: its time in microseconds, its column, its row, and whether it became brighter or darker.](drawings/address_events.svg)
#
# Each event is its time and its address: *this pixel, at this microsecond, became brighter*. The list has no frames and no
# zeros. (In this notebook $x$ and $y$ are the column and the row of a pixel, and $p$ is a polarity.)
#
# N-MNIST was recorded like our digits [2], with a camera on a motor. Our camera is simulated, with 16 × 16 pixels. Its
# thresholds differ by 3 % from pixel to pixel, and there is some noise. After each event a pixel is silent for 1 ms, its
# *refractory period*.

# %% tags=["slide"]
print(f"{len(recordings['train'])} + {len(recordings['test'])} recordings; a three: {three}")
print(f"\n{'t (µs)':>8} {'x':>3} {'y':>3}  p")
for t, x, y, p in zip(*(getattr(three, name)[:6].tolist() for name in "txyp"), strict=True):
    print(f"{t:8} {x:3} {y:3}  {'ON' if p else 'OFF'}")
cloud = events.to_frames(three, steps=300).clamp(max=1)
viz.show(figures.event_cloud(cloud, dt=1e-3, title="A three in 0.3 s"))

# %% [markdown] tags=["slide"]
# Rotate the figure with the mouse. Along the time axis you see a three. From the side, each stroke is a ribbon that bends
# twice, where the saccades meet.
#
# ### What does it cost?
#
# An event takes five bytes in the files of N-MNIST. A pixel that sends $r$ events per second costs $5r$ bytes per second,
# and a pixel of a film one byte per frame. So with $f$ frames per second
#
# $$ \text{events are cheaper where}\quad 5\,r < f \qquad (r \text{ in events per second and pixel},\ f \text{ in Hz}). \tag{2} $$
#
# **Predict first.** Which needs more bytes per second for our moving digit: its events, or a film at 30 frames per
# second? And think: the camera does not move. How many events does a perfect one send?

# %%
predict("event_data.b")

# %%
pixels = math.prod(three.size)
images, digits = data.load("digits")
paper = torch.nn.functional.interpolate(data.to_unit(images[digits == 3][:1]), size=(16, 16), mode="bilinear")
still = events.record(paper, torch.zeros(49, 2), noise=0.1, duration=10_000_000, generator=draw)[0]  # does not move
both = {"events of the moving digit": three, "events of the still one, noise": still}
needed = {name: 5 * len(one) / (one.duration / 1e6) for name, one in both.items()}  # bytes per second
needed |= {f"film, {rate:,} frames/s": rate * pixels for rate in (30, 1000, 1_000_000)}
for name, size in needed.items():
    print(f"{name:32}{size:14,.0f} bytes/s")
outcome("event_data.b", "the events" if needed["events of the moving digit"] > 30 * pixels else "the film")

# %% [markdown] tags=["slide"]
# <details>
# <summary><b>What to notice</b></summary>
#
# The film at 30 frames per second needs only a quarter of the bytes. This scene is a close-up with only edges, and
# all of them move. A film needs more only for a finer resolution in time: about nine times as many bytes at a frame per
# millisecond. A claim that events save bytes must say compared with which film. Before a still scene, a perfect camera that does not
# move sends no event at all. A real one sends noise. Events are better in scenes with little change: a street at night, a belt in a
# factory, a room where old people may fall.
#
# </details>
#
# ## 3 · Events to frames
#
# A network needs tensors. The simplest method: divide time into windows, and count. A *channel* is one of several images
# of the same scene. Channel 0 counts OFF, channel 1 counts ON (so do the libraries SpikingJelly and tonic):
#
# $$ F[k, c, y, x] = \#\{\, i : k\,\Delta \le t_i < (k+1)\,\Delta,\ \ c_i = c,\ y_i = y,\ x_i = x \,\}, \qquad \Delta \text{ in µs}. \tag{3} $$
#
# This is a histogram over four indices. A camera may send millions of events per second, so a Python loop is too slow.
#
# ### Exercise 06.1 · Count without a loop (8 minutes, ●●○)
#
# A recording has `t`, `x`, `y` and `p` (bool, True for ON), one entry per event, and `size`, `duration`. The trick is
# to number the cells of the result in one long row, and to count how often each number occurs. The missing line
# computes these numbers. Stuck? `hint("event_data.1")`.


# %% tags=["exercise"]
def count_events(recording, window):
    """Events per window of `window` µs, polarity (OFF first) and pixel: float32 [T, 2, height, width]. No loop."""
    height, width = recording.size
    steps = -(-recording.duration // window)  # rounded up
    cell = ...  # for each event, the number of its cell, int64 [n]
    return torch.bincount(cell, minlength=steps * 2 * height * width).view(steps, 2, height, width).float()


count_events = attempt("event_data.1", count_events)

# %% [markdown] tags=["slide"]
# ## 4 · Which information is lost?
#
# Within a window, a count loses the order. There are other ways to turn events into a tensor, and each preserves other
# information:
#
# - **Spikes**: was there any event? `to_frames(…).clamp(max=1)`. This also loses the number of events.
# - **Time surface** [3]. For each pixel and polarity, how long ago was the last event? With $\tau$ in µs, as $t$ is,
#
# $$ S(x, y, p;\, t) = e^{-(t - t_\text{last}(x, y, p)) / \tau}, \qquad 0 \text{ where there was none}. \tag{4} $$
#
# It loses all events except the last one of each pixel and polarity, but stores that one to the microsecond.
#
# - **Voxel grid** [4]. Each event, as +1 or −1, is shared between the two time bins next to it. ON and OFF events of the
#   same pixel and bin cancel.
#
# How can you test which information a representation loses? Change this information in the input, and see whether the
# output changes. Let us reverse time.
#
# ### Exercise 06.2 · Play it backwards (5 minutes, ●○○)
#
# Return a recording of the scene as if the film ran backwards. `replace` makes a copy with some fields exchanged. All
# four columns need one treatment, and for `x` and `y` it is enough. What else do `t` and `p` need? Think of the time of
# the last event, and of what a camera would have recorded in the reversed film. Stuck? `hint("event_data.2")`.


# %% tags=["exercise"]
def backwards(recording):
    """The recording of the film that runs backwards."""
    t = ...
    x, y, p = ..., ..., ...
    return replace(recording, t=t, x=x, y=y, p=p)


backwards = attempt("event_data.2", backwards)

# %% [markdown] tags=["slide"]
# Now take the first saccade of the three, 100 ms, forwards and backwards, in five representations. As films, the two
# are easy to distinguish.
#
# **Predict first.** Which of the five representations differ, and which one cannot differ?

# %%
predict("event_data.d")

# %% tags=["slide"]
forth = replace(three.where(three.t < 100_000), duration=100_000)
back = backwards(forth)
ways = {
    "all events": lambda recording: count_events(recording, 100_000).sum((0, 1)),
    "ON events": lambda recording: count_events(recording, 100_000)[0, 1],
    "ON spikes": lambda recording: count_events(recording, 100_000)[0, 1].clamp(max=1),
    "time surface": lambda recording: events.time_surface(recording, tau=30_000, steps=1).amax((0, 1)),
    "voxel bin 1 of 4": lambda recording: events.voxel_grid(recording, 4)[0].abs(),
}
panels, names = [], []
for recording in (forth, back):
    for name, way in ways.items():
        picture = way(recording)
        panels.append(picture / picture.max())
        names.append(name)
print("share of the representation that changes when time is reversed:")
change = {}
for name, way in ways.items():
    change[name] = ((way(forth) - way(back)).abs().sum() / (way(forth) + way(back)).sum()).item()
    print(f"  {name:17} {change[name]:4.0%}")
outcome("event_data.d", min(change, key=change.get))
title = "Forwards (above) and backwards: the sum of events is the same"
viz.show(figures.image_grid(torch.stack(panels), names, columns=5, title=title))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The sum of all events is *the same image* either way. No network after it, however deep, can distinguish the films. With
# polarity they differ, since an ON event forwards is an OFF event backwards. The time surface is white where the
# stroke went *last*, so it shows the direction of motion. A representation decides which information the network can
# never use. Choose it deliberately.
#
# </details>
#
# ### Explorer: windows and time constants
#
# Left: ON (blue) minus OFF (crimson) in the window that ends at `now_ms`. Right: the time surface at the same moment.
#
# **Predict first.** Both should show the same part of the past. How large is $\tau$ for a window of 30 ms? Then find out
# with the sliders:
#
# 1. At 300 ms, `window_ms` of 1 or of 300: which one shows a three?
# 2. At 210 ms, 10 ms after the last turn of the camera, with a window of 10 ms: which of the two views shows a digit?

# %%
predict("event_data.e")


# %%
def two_views(now_ms=90, window_ms=30, tau_ms=20, digit=3, recordings=tuple(of_digit)):
    """Counts in a window and a time surface at one moment."""
    whole, now = recordings[digit], now_ms * 1000  # µs
    seen = whole.t < now
    recording = replace(whole.where(seen), duration=now)
    recent = recording.t >= now - window_ms * 1000
    counts = events.to_frames(recording.where(recent), steps=1)[0] if recent.any() else torch.zeros(2, 16, 16)
    surface = events.time_surface(recording, tau=tau_ms * 1000, steps=1)[0]
    latest = torch.where(surface[1] >= surface[0], surface[1], -surface[0])
    blank = (counts.sum(0) == 0).float().mean().item()
    title = f"At {now_ms} ms: {int(counts.sum())} events in the window, {blank:.0%} of the pixels blank"
    pictures = torch.stack([(counts[1] - counts[0]) / 3, latest])
    names = [f"ON minus OFF, last {window_ms} ms", f"time surface, τ = {tau_ms} ms"]
    page = figures.image_grid(pictures, names, columns=2, title=title, signed=True).update_layout(height=380)
    return page.update_traces(zmin=-1, zmax=1)


viz.explore(two_views, now_ms=(10, 300, 10), window_ms=(1, 300), tau_ms=(1, 100), digit=(0, 9))
outcome("event_data.e")

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - $\tau$ is about 30 ms: an exponential has the same weight as a window of length $\tau$, but without an edge.
# - A window of 1 ms shows a few dots. In 300 ms the camera returns to its start, so ON and OFF of each pixel nearly cancel.
#   About 20 or 30 ms show strokes with a bright and a dark side. In this time the picture moves by
#   about half a pixel, so it depends on the motion.
# - At 210 ms the time surface shows a digit. After a turn each pixel must first change by a whole threshold from its last
#   event. For some milliseconds hardly anything is sent, and an empty window contains no information. (A leaky membrane
#   is such a surface, except that it adds up: there, too, $\tau$ is the time constant.)
#
# </details>
#
# ## 5 · Noise (optional, 15 minutes)
#
# A pixel sometimes sends an event although nothing has changed: thermal noise, leaking switches. You can recognise it
# because it is isolated. A moving edge crosses one pixel after another, so real events have other events near them.
#
# A **background-activity filter** accepts an event if one of the 8 pixels around it fired within the last $\delta$
# microseconds: the neighbour *supports* the event. It needs only one number per pixel, *when did a neighbour last
# fire?* It is old and simple, and newer filters are compared with it.
#
# ### Exercise 06.3 · Which events have support? (8 minutes, ●●●)
#
# Two lines are missing, and each has a pitfall. Think of a defective pixel that fires all the time, and of the corners.
# Stuck? `hint("event_data.3")`.


# %% tags=["exercise"]
def supported(recording, within):
    """Which events had one of the 8 pixels around theirs fire at most `within` µs before: bool [n]."""
    last_near = torch.full(recording.size, -torch.inf, dtype=torch.float64)  # when a neighbour fired last
    accepted = []
    for t, x, y in zip(recording.t.tolist(), recording.x.tolist(), recording.y.tolist(), strict=True):
        accepted.append(...)  # has a neighbour of this pixel fired recently?
        ...  # enter the time at the pixels around, but not at the pixel itself
    return torch.tensor(accepted)


supported = attempt("event_data.3", supported)

# %% [markdown] tags=["slide"]
# Now the camera records the three on a wall, 40 × 40 pixels, in very little light. We add the noise ourselves, so that
# we know for nearly every event whether it is real.
#
# **Predict first.** Let $\delta$ grow from 0.1 ms to 100 ms. Which share of the real events passes the filter, and
# which share of the noise? Where are the two curves farthest apart?

# %%
predict("event_data.f")


# %%
def with_noise(recording, rate):
    """Add `rate` random events per second, pixel and polarity; also return which events are real, bool [n]."""
    height, width = recording.size
    expected = rate * 2 * height * width * recording.duration / 1e6
    count = int(torch.poisson(torch.tensor(expected), generator=draw))
    limits = {"t": recording.duration, "x": width, "y": height, "p": 2}
    extra = {name: torch.randint(limit, (count,), generator=draw) for name, limit in limits.items()}
    t, x, y, p = (torch.cat([getattr(recording, name).long(), extra[name]]) for name in "txyp")
    real = torch.arange(len(t)) < len(recording)
    return events.in_order(t, x, y, p.bool(), recording.size, recording.duration), real[t.argsort(stable=True)]


# %% tags=["slide"]
NOISE = 3.0  # Hz, per pixel and polarity
clean = replace(three, x=three.x + 12, y=three.y + 12, size=(40, 40))
noisy, real = with_noise(clean, NOISE)
spans = [0.1, 0.3, 1, 2, 5, 10, 30, 100]  # ms
passed = {"real events": [], "noise": []}
for span in spans:
    accepted = supported(noisy, 1000 * span)
    passed["real events"].append(100 * accepted[real].float().mean().item())
    passed["noise"].append(100 * accepted[~real].float().mean().item())
look = {"x_title": "δ (ms)", "y_title": "accepted (%)", "log": "x"}
best = max(range(len(spans)), key=lambda i: passed["real events"][i] - passed["noise"][i])
viz.show(
    figures.lines(passed, x=spans, title=f"Best at δ = {spans[best]} ms: most events pass, most noise does not", **look)
)
print(f"the curves are farthest apart at δ = {spans[best]} ms:")
print(f"{passed['real events'][best]:.0f} % of the real events accepted, {passed['noise'][best]:.0f} % of the noise")
outcome("event_data.f", spans[best])

# %% [markdown] tags=["slide"]
# <details>
# <summary><b>What to notice</b></summary>
#
# Both curves rise, and you choose a compromise between them. An edge makes pixels side by side fire within some milliseconds,
# so real events find support within this time. Noise needs longer to find noise by chance. Some real events are always
# rejected, because the first event of an edge has no support yet.
#
# </details>
#
# ## 6 · A network that learns from events
#
# We take $T = 16$ windows and spikes (was there an event?). The network is small: two *convolutions*, layers that slide
# the same few weights over the image, with a *stride* of 2, so that they move two pixels at a time. Each is followed by
# leaky neurons ($\beta = 0.9$ per step). Ten leaky outputs vote with spikes. It has 10 074 weights and biases. (`events.collate` makes
# a batch of recordings that differ in length: it pads the shorter ones with silence.)
#
# **Predict first.** The dense network of notebook 04 saw the *brightness* of these digits and got some 98 % of the
# test right. This one gets no brightness at all. What will it reach?

# %%
predict("event_data.g")

# %%
STEPS = 16
epochs = 4 if QUICK else 12


def time_first(frames):
    """[B, T, ...] -> [T, B, ...]"""
    return frames.transpose(0, 1)


frames = {split: events.frames_of(recordings[split], steps=STEPS) for split in recordings}
print(f"frames {tuple(frames['train'].shape)}: {frames['train'].mean():.0%} of the cells hold a spike")
net = models.EventConvNet()
panel = viz.LivePanel(epochs, layers={"conv 1": 1, "conv 2": 3, "output": 6}, probe=time_first(frames["test"][:64]))
watch = {"on_epoch": panel, "on_batch": panel.on_batch}
options = {"encode": time_first, "loss": loss.count_cross_entropy, "device": device, "seed": SEED}
sets = [(frames[split], labels[split]) for split in ("train", "test")]
history = train.fit(net, *sets, lr=5e-3, epochs=epochs, **watch, **options)


def accuracy(frames, labels):
    """Accuracy of the trained network on frames [N, T, 2, 16, 16]."""
    return train.evaluate(net, (frames, labels), encode=time_first, device=device)["accuracy"]


print(f"test accuracy after {history.epochs} epochs: {accuracy(frames['test'], labels['test']):.1%}")
outcome("event_data.g", 100 * accuracy(frames["test"], labels["test"]))

# %% [markdown] tags=["slide"]
# <details>
# <summary><b>What to notice</b></summary>
#
# It is well above nine in ten after a few epochs (`QUICK = False` trains three times as long). The edges were enough.
#
# </details>
#
# ### Which changes preserve the label?
#
# There are 1442 recordings to train with, and *augmentation* can make more: changed copies of them. A change is allowed if
# the label stays true. It is useful if the change still confuses the network.
#
# **Predict first.** For each of the seven changes below: is it allowed for digits? And which of the four on the card
# costs our network the most accuracy?

# %%
predict("event_data.h")

# %%
transforms = events.transforms
changes = {
    "as it is": lambda recording: recording,
    "a tenth of the events lost": transforms.Drop(0.1, generator=draw),
    "half of the events lost": transforms.Drop(0.5, generator=draw),
    "moments jittered by 3 ms": transforms.Jitter(3000.0, generator=draw),
    "shifted by up to 2 pixels": transforms.Shift(2, generator=draw),
    "mirrored": transforms.Flip(1.0),
    "backwards": backwards,
    "ON and OFF exchanged": lambda recording: replace(recording, p=~recording.p),
}


def changed(change, split="test"):
    return events.frames_of([change(recording) for recording in recordings[split]], steps=STEPS)


left = {name: accuracy(changed(change), labels["test"]) for name, change in changes.items()}
for name, share in left.items():
    print(f"{name:27} {share:6.1%}")
outcome("event_data.h", min(left, key=left.get))
mirrored = changed(changes["mirrored"])
for digit in (0, 8):
    some = labels["test"] == digit
    print(f"{f'mirrored, only the {digit}s':27} {accuracy(mirrored[some], labels['test'][some]):6.1%}")

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - *Lost events, jitter and shifts* are allowed. Shifts cost much accuracy, so use them first for augmentation.
# - *Mirrored* is not allowed: a mirrored 3 is not a 3. But a mirrored 0 is a 0, and a mirrored 8 is an 8. So why does
#   the network fail on most of these, too? It has learned digits *as this camera records them*. The camera always moves
#   round in the same direction, so a given side of a stroke is always ON at a given time. In the mirror it is the other
#   side.
# - *Backwards* and *ON and OFF exchanged* are allowed for digits. The second of them ruins the accuracy, for the same
#   reason. (An arm that circles clockwise circles counter-clockwise when played backwards, which is *another gesture*.)
#
# </details>

# %% [markdown]
# From a data set with one motion in one place, a network also learns the two. Augmentation can reduce this. We go on training for
# a few epochs, with new random shifts in each. The events are shifted first and then turned into frames.

# %%
shift = changes["shifted by up to 2 pixels"]
shifted_test = changed(shift)
print(f"before: {accuracy(shifted_test, labels['test']):.1%} of the shifted digits")
for epoch in range(3 if QUICK else 10):
    options["seed"] = SEED + epoch  # another order of the samples
    train.fit(net, (changed(shift, "train"), labels["train"]), lr=3e-3, progress=False, **options)
print(f"after:  {accuracy(shifted_test, labels['test']):.1%} of the shifted digits, ", end="")
print(f"{accuracy(frames['test'], labels['test']):.1%} of those in place")

# %% [markdown] tags=["slide"]
# ## 7 · Does it need time?
#
# Does a spiking network on event data really use time? Do not assume it: test it. We blur time. Of the 16 frames, groups
# of $16/T$ neighbouring frames are replaced by their mean. With $T = 1$ all frames of a recording are the same, and no
# information about time is left. The number of steps and of events stays the same, so little else changes.
#
# Two tasks, one kind of network (with one channel: we drop the polarity):
#
# - **which digit?**
# - **which way?** Each recording is played forwards or `backwards`, at random. Did the camera move round clockwise or
#   counter-clockwise?
#
# **Predict first.** Accuracy of both tasks for $T$ = 1, 2, 4, 16: imagine two lines. At one point you can be
# *certain*, by section 4. Which, and what is the accuracy there?

# %%
predict("event_data.i")

# %% tags=["slide"]
SAMPLES, ROUNDS = (480, 5) if QUICK else (1442, 10)


def sums(recordings):
    """Counts without polarity in 16 windows, [N, 16, 1, 16, 16]."""
    return torch.stack([events.to_frames(recording, steps=16) for recording in recordings]).sum(2, keepdim=True)


def two_ways(recordings):
    """Each recording forwards (0) or backwards (1), at random; and which of the two."""
    way = torch.randint(2, (len(recordings),), generator=draw)
    turned = [backwards(one) if back else one for one, back in zip(recordings, way.tolist(), strict=True)]
    return sums(turned), way


def blurred(frames, windows):
    """Means over 16 / `windows` frames, each repeated as often."""
    hold = 16 // windows
    return frames.unflatten(1, (windows, hold)).mean(2).repeat_interleave(hold, 1)


some = {"train": recordings["train"][:SAMPLES], "test": recordings["test"]}
tasks = {
    "which digit?": {split: (sums(some[split]), labels[split][: len(some[split])]) for split in some},
    "which way?": {split: two_ways(some[split]) for split in some},
}
# %% tags=["slide-more"]
windows = (1, 2, 4, 16) if QUICK else (1, 2, 4, 8, 16)
reached = {}
for name, task in tasks.items():
    for count in windows:
        train.seed_everything(SEED)
        small = models.EventConvNet(1, classes=10 if name == "which digit?" else 2)
        sets = [(blurred(task[split][0], count), task[split][1]) for split in ("train", "test")]
        optimizer = torch.optim.Adam(small.parameters(), lr=1e-2)
        cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, ROUNDS)
        how = {"optimizer": optimizer, "scheduler": cosine, "epochs": ROUNDS, "batch_size": 32, "progress": False}
        learned = train.fit(small, *sets, **how, **options)
        reached.setdefault(name, []).append(100 * learned.test_accuracy[-1])
    print(f"{name:13} " + ", ".join(f"T = {t}: {right:.0f} %" for t, right in zip(windows, reached[name], strict=True)))
chance = {"chance of which way": 50, "chance of which digit": 10}
look = {"x_title": "T, windows of time", "y_title": "right (%)", "log": "x", "levels": chance}
digits, ways = (reached[name][0] for name in ("which digit?", "which way?"))
title = f"Without time: {digits:.0f} % of the digits, {ways:.0f} % of the directions"
figure = figures.lines(reached, x=windows, title=title, **look)
viz.show(figure.update_xaxes(tickvals=windows))
outcome("event_data.i", reached["which way?"][0])

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The digits do not need time. With everything in one frame the network reads them as well as with sixteen, within a few
# percent. The direction of the camera is the opposite. At $T = 1$ it *cannot* be known, since forwards and backwards give
# the same image (section 4): the accuracy is at chance. Two windows are enough to recognise it nearly always.
#
# Why choose at random for each recording? A first version played the first half of them forwards and the second half
# backwards. It was right 59 % of the time at $T = 1$, where the direction cannot be known: the digits in the file are
# sorted by writer, and we think that the network had learned to recognise the writers. An experiment in which you know
# one answer for certain is worth ten without.
#
# </details>

# %% [markdown]
# On N-MNIST, too, a network that gets only sums of events is among the best. So that data set does not need time, and a
# good result on it says nothing about a network's use of spike times [5].
#
# But *needs* is not *uses*. The network of section 6 got the frames in the right order. Does it use the order?
#
# **Predict first.** We give it the same test windows in a random order, the last one first, and all replaced by their
# mean. Which costs it the most?

# %%
predict("event_data.j")

# %%
as_recorded = frames["test"]
orders = {
    "as recorded": as_recorded,
    "in a random order": torch.stack([one[torch.randperm(STEPS, generator=draw)] for one in as_recorded]),
    "the last window first": as_recorded.flip(1),
    "all replaced by their mean": as_recorded.mean(1, keepdim=True).expand_as(as_recorded).contiguous(),
}
left = {name: accuracy(other, labels["test"]) for name, other in orders.items()}
for name, share in left.items():
    print(f"{name:27} {share:6.1%}")
outcome("event_data.j", min(left, key=left.get))

# %% [markdown] tags=["slide"]
# <details>
# <summary><b>What to notice</b></summary>
#
# It does. The order contains useful information, the direction of the camera. So the network learned to use it, although
# it could do without. Look at the table of section 6 again: *backwards* and *ON and OFF exchanged* consist of the same
# windows, in opposite order. (Why?) Yet one costs fewer than ten percentage points, and the other most of the accuracy.
#
# </details>

# %% [markdown] tags=["slide-more"]
# These are two questions with two experiments. Does the *task* need time? Train without it. Does the *network* use it?
# Test without it. Do both before you write about spike timing.
#
# ## 8 · What broke?
#
# Four colleagues made four mistakes. Each made the frames of the test set with a small bug, and tested the network that
# you trained. Nothing raised an error.
#
# **Predict first.** How much accuracy is left with the mildest of the four bugs?

# %%
predict("event_data.k")

# %%
bugs = {
    "none": lambda recording: recording,
    "milliseconds taken for microseconds": lambda recording: replace(recording, t=recording.t // 1000),
    "polarity lost: all events are ON": lambda recording: replace(recording, p=torch.ones_like(recording.p)),
    "rows and columns exchanged": lambda recording: replace(recording, x=recording.y, y=recording.x),
    "y counted from the bottom": lambda recording: replace(recording, y=15 - recording.y),
}
left = {name: 100 * accuracy(changed(bug), labels["test"]) for name, bug in bugs.items()}
for name, share in left.items():
    print(f"{name:36} {share:5.1f} %")
outcome("event_data.k", max(share for name, share in left.items() if name != "none"))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# A tensor of integers has no unit, no flag and no named axis, so nothing can raise an error. If the mistake were in the
# *training* set as well, most of the accuracy would be back, and you would never notice: a network that works only on
# your files. The remedy is simple: **look at one frame, and print the first and the last time, before you train.**
#
# </details>

# %% [markdown]
# The kit's `Events` checks order, range and type once, when a recording is made. (`events.in_order` sorts events that come
# from several files.) It cannot check the unit, so it prints the duration. A recording of 0.0003 s should make you
# suspicious.
#
# ## 9 · Real recordings
#
# | data set | what | recordings | sensor | time needed? |
# |---|---|---|---|---|
# | [N-MNIST](https://www.garrickorchard.com/datasets/n-mnist) [2] | MNIST recorded by a camera on a motor | 60 000 + 10 000, 0.3 s | 34 × 34, ON and OFF | no [5] |
# | [SHD](https://zenkelab.org/resources/spiking-heidelberg-datasets-shd/) [6] | spoken digits, English and German, through a model of the cochlea | 8156 + 2264, about 1 s | 700 channels, one polarity | yes |
# | [DVS Gesture](https://research.ibm.com/interactive/dvsgesture/) [7] | 11 gestures of 29 people | 1342, several seconds | 128 × 128, ON and OFF | for some of the gestures |
#
# `events.load` opens them and downloads what is missing: SHD from its own files, the others with `tonic` installed
# (`pip install tonic`); `events.read_nmnist` reads files of N-MNIST that you have without it. To try it, set `PUBLISHED` in
# the parameters cell. All your functions above work on these recordings unchanged, except `backwards` on SHD, which has no OFF events.

# %%
if PUBLISHED:
    published = events.load(PUBLISHED, "test")
    recording, label = published[0]
    print(f"{len(published)} recordings of {published.classes} classes; the first, label {label}: {recording}")
    print("frames of 10 ms:", tuple(events.to_frames(recording, window=10_000).shape))
else:
    print('PUBLISHED = "": nothing is downloaded. The code would be:\n')
    print('published = events.load("nmnist", "train")   # published[i]: a recording and its label')
    print("together = partial(events.collate, window=10_000)")
    print("loader = DataLoader(published, batch_size=64, shuffle=True, collate_fn=together)")

# %% [markdown]
# ## Quiz

# %%
quiz("event_data")

# %%
scorecard("event_data")

# %% [markdown]
# ## Where next
#
# Every network so far had a loss and a gradient. **[07 · Local learning](07_local_learning.ipynb)** has neither: synapses
# learn from the spikes that they see.
#
# Meanwhile: `QUICK = False`; `models.EventRecurrentNet` in place of the convolutions; `events.record` with your own scene,
# for example your initials.
#
# **Worth reading**
#
# 1. P. Lichtsteiner, C. Posch, T. Delbruck, *A 128 × 128 120 dB 15 µs latency asynchronous temporal contrast vision sensor*, IEEE Journal of Solid-State Circuits 43
#    (2008). [doi:10.1109/JSSC.2007.914337](https://doi.org/10.1109/JSSC.2007.914337)
# 2. G. Orchard, A. Jayawant, G. K. Cohen, N. Thakor, *Converting static image datasets to spiking neuromorphic datasets using saccades*, Frontiers in Neuroscience 9
#    (2015). [doi:10.3389/fnins.2015.00437](https://doi.org/10.3389/fnins.2015.00437)
# 3. X. Lagorce, G. Orchard, F. Galluppi, B. E. Shi, R. B. Benosman, *HOTS: a hierarchy of event-based time-surfaces for pattern recognition*, IEEE TPAMI 39
#    (2017). [doi:10.1109/TPAMI.2016.2574707](https://doi.org/10.1109/TPAMI.2016.2574707)
# 4. A. Z. Zhu, L. Yuan, K. Chaney, K. Daniilidis, *Unsupervised event-based learning of optical flow, depth, and egomotion*, CVPR (2019).
#    [arXiv:1812.08156](https://arxiv.org/abs/1812.08156)
# 5. L. R. Iyer, Y. Chua, H. Li, *Is neuromorphic MNIST neuromorphic? Analyzing the discriminative power of neuromorphic datasets in the time domain*, Frontiers in
#    Neuroscience 15 (2021). [doi:10.3389/fnins.2021.608567](https://doi.org/10.3389/fnins.2021.608567)
# 6. B. Cramer, Y. Stradmann, J. Schemmel, F. Zenke, *The Heidelberg spiking data sets for the systematic evaluation of spiking neural networks*, IEEE Transactions on Neural
#    Networks and Learning Systems 33 (2022). [doi:10.1109/TNNLS.2020.3044364](https://doi.org/10.1109/TNNLS.2020.3044364)
# 7. A. Amir et al., *A low power, fully event-based gesture recognition system*, CVPR (2017).
#    [doi:10.1109/CVPR.2017.781](https://doi.org/10.1109/CVPR.2017.781)
# 8. G. Gallego et al., *Event-based vision: a survey*, IEEE TPAMI 44 (2022). [doi:10.1109/TPAMI.2020.3008413](https://doi.org/10.1109/TPAMI.2020.3008413). Start here.
