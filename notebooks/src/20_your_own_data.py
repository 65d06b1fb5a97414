# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown] tags=["badge"]
# [![Open In Colab](drawings/open_in_colab.svg)](https://colab.research.google.com/github/snnkit/snnkit/blob/main/notebooks/20_your_own_data.ipynb)

# %% [markdown] tags=["slide"]
# # 20 · Your own data
#
# All data of this course came ready to load. Your own will not. Here you take a table, a sound and a recording of
# your own the whole way to spikes and a trained network. You also make spikes of a network that had none.
#
# **Afterwards you can**
#
# - bring a table to a network, and train it to answer with a number;
# - bring a sound to a network, as the spikes of a cochlea;
# - say what a result is worth: beside a baseline, and on a test that is one;
# - find out why a network does not learn, with `train.diagnose` and your own eyes;
# - convert a trained network without spikes, and give a network away as one HTML file.
#
# | | |
# |---|---|
# | Time | 65 minutes, and 5 more for the optional part |
# | GPU minutes | 0 |
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
QUICK: bool = True  # True: seconds on a laptop; False: more sounds and longer training, a few minutes
SOLVE: bool = False  # True: the exercises are filled in with their solutions
SEED: int = 0  # seed of weights, order of samples and made sounds
DEVICE: str = "auto"  # "auto", "cpu" or "cuda"
RECORDINGS: str = ""  # a folder with your WAV files; "": the notebook makes some
UPLOAD: bool = False  # True, on Colab: a button to choose your WAV files (section 3)

# %%
import math
import tempfile
from pathlib import Path

import torch

from snnkit import data, encode, interop, loss, neuron, nn, train
from snnkit.data import events, sounds
from snnkit.lab import course, pages, viz
from snnkit.lab.course import attempt, hint, outcome, predict, quiz, scorecard, solution

train.seed_everything(SEED)
course.start("your_own_data", solve=SOLVE)
device = data.resolve_device(DEVICE)
torch.set_num_threads(1)  # for layers this small, starting a second thread takes longer than the work
quiet = {"device": device, "progress": False}


def pictures(recordings):
    """What a cochlea recorded, as pictures [N, 1, channels, T] in [0, 1]: high pitch on top, time to the right."""
    counts, _ = events.cochleagrams(((one, 0) for one in recordings), window=20_000, duration=sounds.DURATION)  # µs
    spikes = counts.float() / 4  # a channel fires at most 4 times in 20 ms
    return spikes.clamp(max=1).transpose(1, 2).flip(1).unsqueeze(1).contiguous()


def by_word(folder):
    """The WAV files of each word in a folder, with names such as yes_1.wav: {word: [path, ...]}."""
    paths = sorted(folder.glob("*.wav"))
    words = sorted({path.stem.partition("_")[0] for path in paths})
    return {word: [path for path in paths if path.stem.partition("_")[0] == word] for word in words}


def own_recordings(folder, upload):
    """Your WAV files by their words; if they are too few, stand-ins: soft or loud, with a pause before and after."""
    folder = Path(folder).expanduser() if folder else Path(tempfile.mkdtemp())
    if upload and "google.colab" in sys.modules:
        from google.colab import files

        for name, content in files.upload().items():
            (folder / Path(name).name).write_bytes(content)
    takes = by_word(folder)
    if len(takes) >= 2 and min(map(len, takes.values())) >= 4:
        return takes
    found = ", ".join(f"{word}: {len(each)}" for word, each in takes.items())
    print(f"Too few recordings ({found})" if takes else "No recordings", "yet, so some are made by formula.")
    folder, draw = Path(tempfile.mkdtemp()), torch.Generator().manual_seed(SEED)
    for word in ("ai", "fade", "tone-hiss"):
        for take in range(1, 9):
            loudness, pause = torch.rand(2, generator=draw).tolist()
            sound = (0.1 + 0.9 * loudness) * sounds.waveform(word, seed=SEED + 2, take=take)
            sound = torch.cat([torch.zeros(int(5000 * pause)), sound, torch.zeros(3000)])
            sounds.write_wav(folder / f"{word}_{take}.wav", sound, sounds.RATE)
    return by_word(folder)


# %% [markdown] tags=["slide"]
# ## 1 · A table
#
# A table holds numbers, and a spiking network needs spikes. In a *population code* several inputs share one number. Each
# input fires most for a value of its own. The values that it responds to are its *receptive field*.
#
# **Explorer.** One number $x$ and $K$ inputs. The height of each curve is the rate of an input.
#
# 1. How many inputs are clearly active at a time? Does that depend on $K$?
# 2. Make $\sigma$ small, then large. Can you still read $x$ from the rates?


# %% tags=["slide"]
def activity(x=0.4, K=8, sigma=0.4):
    """All fields, and the rate that x causes in each input."""
    centres, across = torch.linspace(-2, 2, K), torch.linspace(-3, 3, 121)
    every = encode.population(across, K, low=-2, high=2, sigma=sigma).T  # [K, 121], one line that comes back K times
    answers = encode.population(torch.tensor([x]), K, low=-2, high=2, sigma=sigma)[0]
    title = f"x = {x:g}: {int((answers > 0.1).sum())} of {K} inputs have a rate above 0.1 spikes per step"
    look = {"x_title": "x, in standard deviations", "y_title": "spikes per step", "title": title}
    lines = {"fields": (across.repeat(K), every.flatten()), "of x": (centres, answers)}
    return viz.figures.lines(lines, marks={"x": x}, **look)


viz.explore(activity, x=(-2.5, 2.5, 0.1), K=(2, 16), sigma=(0.1, 1.5, 0.1))

# %% [markdown] tags=["slide"]
# So low and middle values get weights of their own, which one number alone does not allow.
#
# Now the table: 442 people with diabetes, and ten columns: age, sex, body mass index, blood pressure, and six values from
# the blood. The answer is a number: how far the disease had progressed a year later [1]. To answer with a number is
# *regression*. (A table of your own: `pandas.read_csv("mine.csv").to_numpy()`.) Every fifth row is for the test. Nothing may
# be learned from it, not even a mean.

# %%
from sklearn.datasets import load_diabetes

table = load_diabetes(scaled=False)
rows, progress = torch.tensor(table.data).float(), torch.tensor(table.target).float()
in_test = torch.arange(len(rows)) % 5 == 4
print(f"{len(rows)} rows, {int(in_test.sum())} of them for the test")
for name, column in zip([*table.feature_names, "progress"], torch.cat([rows, progress[:, None]], 1).T):
    print(f"{name:8} from {column.min():6.2f} to {column.max():6.2f}")

# %% [markdown] tags=["slide"]
# ### A question before any network
#
# $$\text{RMSE} = \sqrt{\frac{1}{B} \sum_{b=1}^{B} (\hat y_b - y_b)^2} \qquad \text{in points, as the answers}$$
#
# **Predict first.** The answers go from 25 to 346 points. How large is the RMSE of the best guess that looks at no row?

# %%
predict("your_own_data.a")

# %% [markdown]
# ### Exercise 20.1 · Scale by what you may know (5 minutes, ●○○)
#
# Some columns are near 2, others near 200, and thresholds are 1. So each column is *standardised*: less its mean, divided
# by its standard deviation. `train` and `test` are [rows, columns]. Return both, scaled. Where may the mean come from?
# Stuck? `hint("your_own_data.1")`.


# %% tags=["exercise"]
def standardised(train, test):
    """Columns with mean 0 and standard deviation 1 in `train` [N, columns]; `test` by the same numbers. A pair."""
    return ...


standardised = attempt("your_own_data.1", standardised)

# %%
x_train, x_test = standardised(rows[~in_test], rows[in_test])
y_train, y_test = standardised(progress[~in_test, None], progress[in_test, None])
point = progress[~in_test].std()  # so many points is 1 of what the network answers


def error(answer, wanted):
    """RMSE in points."""
    return point * (answer - wanted).square().mean().sqrt()


line = x_test @ torch.linalg.lstsq(x_train, y_train).solution  # needs no constant, as all means are 0
baselines = {"guess": error(torch.zeros_like(y_test), y_test).item(), "linear regression": error(line, y_test).item()}
for name, value in baselines.items():
    print(f"{name:17} error {value:.1f} points")
outcome("your_own_data.a", baselines["guess"])

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The error of the mean is the standard deviation of the answers. Linear regression takes a quarter off. Both are
# *baselines*, the answers of simple methods. A network that stays above the second number is not worth its trouble.
#
# </details>

# %% [markdown] tags=["slide"]
# ### Exercise 20.2 · Receptive fields (5 minutes, ●●○)
#
# The rate of input $k$, whose centre is $c_k$ [2]:
#
# $$a_k(x) = \exp\left(-\frac{(x - c_k)^2}{2\,\sigma^2}\right) \tag{1}$$
#
# $x$, $c_k$ and $\sigma$ in standard deviations of the column; $a_k$ from 0 to 1, in spikes per step. Write it for a table
# `x` [B, columns] and `centres` [K]. Return [B, columns · K]: first all fields of the first column, then those of the
# second. Stuck? `hint("your_own_data.2")`.


# %% tags=["exercise"]
def fields(x, centres, sigma):
    """How strongly each centre answers to each number: x [B, columns], centres [K] -> [B, columns · K]."""
    return ...


fields = attempt("your_own_data.2", fields)

# %% [markdown] tags=["slide"]
# ### A number as the answer
#
# The last neuron does not spike. It integrates, and its membrane $v$ is read out. The answer is the mean over time:
#
# $$\hat y = \frac{1}{T} \sum_{t=1}^{T} v[t], \qquad L = \frac{1}{B} \sum_{b=1}^{B} (\hat y_b - y_b)^2$$
#
# $T = 16$ time steps; $\hat y$ and $v$ in standard deviations of the answers. `train.fit` needs two things that you write: a
# `loss` to make smaller, and a `metric` that you can read. Both get the output [T, B, 1] and the answers [B, 1].
#
# **Predict first.** Two networks with 64 hidden neurons: one gets the ten numbers at each step, the other the spikes of
# eight receptive fields for each. By how much is the error of the better one smaller than that of linear regression?

# %%
predict("your_own_data.b")


# %% tags=["slide"]
STEPS = 16
centres, sigma = torch.linspace(-2, 2, 8), 8 / 21  # σ is 2/3 of the distance between two centres, as in [2]


def spikes_of(x):
    return encode.poisson(fields(x, centres.to(x.device), sigma), STEPS)  # [T, B, 80]


def squared_error(out, wanted):
    return (out.mean(0) - wanted).square().mean()


def rmse(out, wanted):
    return error(out.mean(0), wanted)


histories, rounds = {}, 20 if QUICK else 40
for name, code, inputs in (("ten numbers", lambda x: encode.repeat(x, STEPS), 10), ("receptive fields", spikes_of, 80)):
    train.seed_everything(SEED)
    net = nn.Sequential(torch.nn.Linear(inputs, 64), neuron.Leaky(0.9), torch.nn.Linear(64, 1), neuron.LI())
    sets = (x_train, y_train), (x_test, y_test)
    how = {"encode": code, "loss": squared_error, "metric": rmse, "epochs": rounds, "lr": 3e-3, "batch_size": 64}
    histories[name] = one = train.fit(net, *sets, **how, **quiet)
    print(f"{name:17} training rows {one.train_metric[-1]:5.1f}   test rows {one.test_metric[-1]:5.1f} points")
curves = {name: history.test_metric for name, history in histories.items()}
least = min(min(each) for each in [*curves.values(), baselines.values()])
look = {"x_title": "epoch", "y_title": "RMSE on test rows (points)", "levels": baselines}
look["between"] = 0.85 * least, 1.05 * max(baselines.values())
lower = min(curves, key=lambda name: curves[name][-1])
viz.show(viz.figures.lines(curves, title=f"On test rows, {lower} end with the smaller error", **look))
best = min(history.test_metric[-1] for history in histories.values()) / baselines["linear regression"]
outcome("your_own_data.b", 0 if best < 0.75 else 1 if best < 0.925 else 2)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# Neither network beats linear regression by more than another choice of 88 test rows would change. And the finer code is *worse*
# on test rows, although it is better on training rows. It has seven times the weights to remember 354 people with. A
# baseline costs two lines. Never leave it out.
#
# </details>

# %% [markdown] tags=["slide"]
# ## 2 · A sound
#
# A sound has time in it, so nothing need be repeated. A *cochlea* splits it into *channels*, one for each band of pitch. Each
# channel drives a neuron, whose rate $r$ grows with the level $L$ of the sound in this channel:
#
# $$r = 200\,\text{Hz} \cdot \left(1 + \frac{L}{50\,\text{dB}}\right) \quad \text{for } -50\,\text{dB} \le L \le 0$$
#
# $L$ in dB: 0 for the loudest sine that the file can hold. `data.sounds` makes ten sounds by formula, with another pitch,
# speed, loudness and noise for each take. `sounds.cochlea` has 32 channels here, spaced as in the ear [3]. Listen to two
# takes:

# %%
from IPython.display import Audio, display

for name in ("rise", "hiss-tone"):
    print(name)
    display(Audio(sounds.waveform(name, seed=SEED).numpy(), rate=sounds.RATE))

# %% tags=["slide"]
heard, named = {}, {}
for split, seed, count in (("train", SEED, 40 if QUICK else 120), ("test", SEED + 1, 20)):
    recordings, named[split] = sounds.record(count, channels=32, seed=seed)
    heard[split] = pictures(recordings)
viz.show(
    viz.figures.image_grid(heard["test"][:10], sounds.CLASSES, columns=5, title="Ten sounds, as a cochlea hears them")
)

# %% [markdown] tags=["slide"]
# `encode.columns` shows a picture from left to right, one column at each step: [B, 1, 32, 30] becomes [30, B, 1, 32]. So the
# network hears each sound once, in 30 steps of 20 ms.
#
# **Predict first.** Each column is replaced by the mean of all columns. The number of spikes in each channel stays, the
# order in time is gone. How many per cent of the ten sounds does a network name right?

# %%
predict("your_own_data.c")


# %% tags=["slide"]
def make_net(outputs, hidden=64, **first):
    """32 channels, leaky neurons with a memory of about 20 steps, one output for each word."""
    train.seed_everything(SEED)
    first, last = neuron.Leaky(0.95, **first), neuron.Leaky(0.95)
    return nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(32, hidden), first, torch.nn.Linear(hidden, outputs), last)


def without_time(pictures):
    return pictures.mean(-1, keepdim=True).expand_as(pictures)


listen = {"encode": encode.columns, "loss": loss.count_cross_entropy, "lr": 1e-2, "batch_size": 32} | quiet
right, trained = {}, {}
for name, change in (("as it sounds", lambda pictures: pictures), ("the mean of all columns", without_time)):
    net = make_net(10)
    sets = [(change(heard[split]), named[split]) for split in ("train", "test")]
    right[name] = [100 * share for share in train.fit(net, *sets, epochs=15, **listen).test_accuracy]
    trained[name] = net
hears = trained["as it sounds"]
look = {"x_title": "epoch", "y_title": "test sounds named right (%)", "levels": {"chance": 10}}
viz.show(
    viz.figures.lines(
        right, title=f"Without time, {right['the mean of all columns'][-1]:.1f} % are named right", **look
    )
)
for name, share in right.items():
    print(f"{name:23} {share[-1]:5.1f} %")
outcome("your_own_data.c", right["the mean of all columns"][-1])

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The sounds are five pairs, and one of each pair is the other played backwards. *Rise* and *fall* fill the same channels.
# Without time, the choice within a pair is luck. With time, membranes that leak slowly carry what came first. This is why
# sounds suit spiking networks, and a table does not need one.
#
# </details>
#
# ## 3 · A recording of your own
#
# Record two or more words, whistles or claps, each at least four times. Any telephone will do.
#
# - **Names.** The word comes before the underscore: `yes_1.wav`, `yes_2.wav`, `no_1.wav`.
# - **Format.** WAV. Telephones often write something else; `ffmpeg -i yes_1.m4a -c:a pcm_s16le yes_1.wav` changes it.
# - **On Colab** set `UPLOAD = True` in the parameters cell and run it, then the cell below. A button opens your files.
# - **Elsewhere** set `RECORDINGS` to the folder. In JupyterLab, files are dragged into the file browser on the left.
#
# You have no recordings yet? Go on: the notebook makes some.

# %%
takes = own_recordings(RECORDINGS, UPLOAD)
words, paths = list(takes), [path for each in takes.values() for path in each]
mine = torch.tensor([k for k, word in enumerate(words) for _ in takes[word]])  # their labels
held = torch.tensor([i % 4 == 3 for word in words for i in range(len(takes[word]))])  # every fourth of a word: the test
print(", ".join(f"{word}: {len(each)} recordings" for word, each in takes.items()))

# %% [markdown]
# ### Exercise 20.3 · Cut out the sound (6 minutes, ●●○)
#
# A recording has silence before and after the sound, and the network listens for 0.6 s. `wave` is [n]. Return the `length`
# samples in a row with the largest energy, which is the sum of their squares. A wave that is too short gets zeros at its
# end. Stuck? `hint("your_own_data.3")`.


# %% tags=["exercise"]
def loudest(wave, length):
    """The `length` samples in a row with the most energy; a shorter wave [n] gets zeros at its end."""
    return ...


loudest = attempt("your_own_data.3", loudest)


# %% tags=["slide"]
def recorded(path):
    """The cochlea's recording of a WAV file: its loudest 0.6 s, as loud as possible."""
    wave, rate = sounds.read_wav(path)
    part = loudest(wave, rate * sounds.DURATION // 1_000_000)
    return sounds.cochlea(0.9 * part / part.abs().max(), rate, channels=32)


own = pictures([recorded(path) for path in paths])
names = [path.stem for path in paths[:24]]
viz.show(viz.figures.image_grid(own[:24], names, columns=8, title="The recordings, as the cochlea hears them"))

# %% [markdown]
# ### Few recordings make many
#
# The ten words of section 2 are not yours, so yours need a network of their own. A few dozen recordings are little. So each
# becomes 20 *variants*: a bit earlier or later, louder or softer, with noise. But take care with the test.
#
# **Predict first.** We give each *recording* a label drawn by lot, so there is nothing to learn. All variants are shuffled,
# and a quarter of them is the test. Each test picture gets the label of the training picture that is most like it. How many
# per cent are right?

# %%
predict("your_own_data.d")


# %% tags=["slide"]
def varied(pictures, labels, times=20):
    """So many variants of each picture, and their labels."""
    some, labels = pictures.repeat_interleave(times, 0), labels.repeat_interleave(times)
    shift = torch.randint(-3, 4, (len(some),), generator=draw).tolist()
    some = torch.stack([one.roll(by, -1) for one, by in zip(some, shift)])
    louder = 0.7 + 0.5 * torch.rand(len(some), 1, 1, 1, generator=draw)
    return (louder * some + 0.05 * torch.rand(some.shape, generator=draw)).clamp(0, 1), labels


def most_alike(known, asked):
    """Share of the asked pictures that have the label of the known picture most like them, in %."""
    nearest = torch.cdist(asked[0].flatten(1), known[0].flatten(1)).argmin(1)
    return 100 * (known[1][nearest] == asked[1]).float().mean().item()


draw = torch.Generator().manual_seed(SEED)
by_variant, by_recording = [], []
for _ in range(20):
    lot = mine[torch.randperm(len(mine), generator=draw)]
    every, its = varied(own, lot)
    order = torch.randperm(len(every), generator=draw)
    rest, some = order.tensor_split([len(order) // 4])
    by_variant.append(most_alike((every[some], its[some]), (every[rest], its[rest])))
    by_recording.append(most_alike(varied(own[~held], lot[~held]), varied(own[held], lot[held])))
leaky, clean = (sum(each) / 20 for each in (by_variant, by_recording))
bars = {"variants shuffled, then split": {"read right": leaky}, "split, then varied": {"read right": clean}}
viz.show(
    viz.figures.shares(
        bars, "%", title=f"A leak: of labels drawn by lot, {leaky:.0f} % are right ({100 / len(words):.0f} % by chance)"
    )
)
outcome("your_own_data.d", leaky)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# Most are right, and nothing was learned. Nearly every test picture has variants of the same recording in the training set.
# This is a *leak* [4], and among the most common mistakes in published results. **Split first, then vary.** The same
# holds for several recordings of one person: hold out whole persons.
#
# </details>

# %% [markdown]
# Now the true labels, split by recording:

# %%
yours = make_net(len(words))
history = train.fit(yours, varied(own[~held], mine[~held]), (own[held], mine[held]), epochs=10, **listen)
print(f"named right: {history.test_accuracy[-1]:.0%} of {int(held.sum())} recordings that it never heard")
print(f"by chance:   {1 / len(words):.0%}")

# %% [markdown] tags=["slide"]
# ## 4 · What broke?
#
# Four colleagues train the network of section 2 on the same sounds. None of them gets an error, and none gets a network.
#
# - **Ada** divides her pictures by 255, "as one does with images".
# - **Ben** gives his hidden neurons a threshold of 100, so that noise does not make them fire.
# - **Cai** is in a hurry, and sets the learning rate to 3.
# - **Dee** sorts her labels, "to have them in order".

# %%
x, y = heard["train"][:400], named["train"][:400]
broken = {
    "Ada": (make_net(10), x / 255, y, 1e-2),
    "Ben": (make_net(10, threshold=100.0), x, y, 1e-2),
    "Cai": (make_net(10), x, y, 3.0),
    "Dee": (make_net(10), x, y.sort().values, 1e-2),
}
stuck = {}
for name, (net, samples, labels, rate) in broken.items():
    how = listen | {"lr": rate, "batch_size": 16}
    stuck[name] = train.fit(net, (samples, labels), epochs=6, **how).train_loss
figure = viz.figures.panels(1, len(stuck), list(stuck), shared_yaxes=True, horizontal_spacing=0.03)
for i, losses in enumerate(stuck.values(), start=1):  # each has a panel, as some have the same losses
    line = {"color": viz.theme.BLUE}
    figure.add_scatter(x=list(range(1, 7)), y=losses, mode="lines+markers", line=line, row=1, col=i)
figure.add_hline(y=math.log(10), line={"color": viz.theme.TEXT, "dash": "dash"})
figure.update_yaxes(type="log", tickvals=[0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100])
figure.update_xaxes(title="epoch", tickvals=[1, 3, 5]).update_yaxes(title="loss (nats)", col=1)
figure.update_layout(
    title={"text": "No loss falls far below ln 10 (dashed), that of guessing"}, height=320, showlegend=False
)
viz.show(figure)

# %% [markdown]
# The curves say that something is wrong, not what. `train.diagnose` makes a pass forward and backward and some short trials.
# Then it says what it saw, the likeliest cause first, with what to do.
#
# **Predict first.** Whose network can learn its samples by heart, and still says nothing about others?

# %%
predict("your_own_data.e")

# %%
found = {}
for name, (_, samples, labels, rate) in broken.items():
    fresh = make_net(10, threshold=100.0) if name == "Ben" else make_net(10)
    print(f"—— {name} ——")
    how = {"encode": encode.columns, "loss": loss.count_cross_entropy, "lr": rate, "device": device}
    found[name] = train.diagnose(fresh, samples[:200], labels[:200], **how)
    display(found[name])
(by_heart,) = [place for place, one in enumerate(found.values()) if "memorises" in one.findings[0].what]
outcome("your_own_data.e", by_heart)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# Each cause is named in the first line. In the table, `silent` is the share of neurons that never fired. `felt` is the
# share of inputs whose change the surrogate passes on. `change` is what one update does to the weights, relative to them.
# About 0.001 to 0.2 is healthy. Cai has more than 10: each update throws the old weights away.
#
# Dee's network is healthy. It learned 64 sounds by heart, labels and all. Whether the labels are wrong, the axes mixed up or
# the samples too few, the diagnosis cannot tell. **Look at some samples beside their labels**, or listen to them, before anything
# else. Each of the four mends it by changing one line.
#
# </details>
#
# ## 5 · A network that has no spikes yet
#
# Perhaps you have a trained network already: an *ANN*, an artificial neural network whose neurons give numbers instead of
# spikes. Most give $\max(0, z)$ of their input $z$, a *ReLU*. A spiking neuron can stand in for one. Without a leak and
# with a soft reset, it adds $z$ to its membrane in each of $T$ steps and fires
#
# $$n = \left\lfloor z\,T + v_0 \right\rfloor \quad \text{times, for } 0 \le z \le 1 \tag{2}$$
#
# where $v_0$ is its membrane at the start, in thresholds. So its rate $n/T$ is the ReLU, in steps of $1/T$. `interop.ann_to_snn`
# scales the weights until nearly all activations are at most 1, and puts such neurons in place of the ReLUs [5]. No surrogate
# and no further training are needed.
#
# **Predict first.** An ANN reads some 97 % of the test digits. After how many steps is the spiking one within one percentage
# point of it?

# %%
predict("your_own_data.f")

# %% tags=["slide"]
(images, digits), (test_images, test_digits) = data.load("digits"), data.load("digits", "test")
x, test = data.to_unit(images), data.to_unit(test_images)
train.seed_everything(SEED)
layers = torch.nn.Linear(64, 100), torch.nn.ReLU(), torch.nn.Linear(100, 100), torch.nn.ReLU(), torch.nn.Linear(100, 10)
ann = torch.nn.Sequential(torch.nn.Flatten(), *layers)
optimizer = torch.optim.Adam(ann.parameters(), lr=1e-2)
for _ in range(60):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(ann(x), digits).backward()
    optimizer.step()
without_spikes = (ann(test).argmax(1) == test_digits).float().mean().item()

curves = {}
for start in (0.5, 0.0):
    snn = interop.ann_to_snn(ann, x[:500], v_init=start)  # images to measure activations
    out, _ = snn(encode.repeat(test, 100))  # [T, N, 10]
    curves[f"v₀ = {start:g}"] = loss.accuracy_over_time(out, test_digits)
half = curves["v₀ = 0.5"]
close = (half >= without_spikes - 0.01).nonzero().flatten().tolist()  # none: this network takes longer
first = 1 + close[0] if close else math.inf
title = f"After {first} step{'s' * (first != 1)} the converted network is within one point of the ANN"
if not close:
    apart = 100 * (without_spikes - half[-1])
    title = f"After {len(half)} steps the converted network is still {apart:.1f} points below the ANN"
viz.show(viz.figures.accuracy_over_time(curves, without_spikes, title=title))
steps = 1, 2, 4, 8, 16, 32, 100
print("steps    ", *(f"{t:6}" for t in steps))
for name, right in curves.items():
    print(f"{name:9}", *(f"{right[t - 1]:6.1%}" for t in steps))
outcome("your_own_data.f", sum(first > limit for limit in (1, 10, 100)))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# A handful of steps is enough. Membranes that begin at half the threshold round $zT$ to the nearest count. Those that begin
# empty round it down: after one step hardly any has fired, and the answer is a guess. A network that was trained with
# spikes can use *when* they come, as in section 2. A converted one only counts.
#
# </details>
#
# ## 6 · A page that hears what you draw (optional, 3 minutes)
#
# `pages.page` writes the network of section 2 into one HTML file. It needs no Python and no server. The page shows a
# picture from left to right, as `encode.columns` does. So draw a sound: high is up, and time goes to the right.

# %% tags=["slide"]
with_yours = {"images": torch.cat([own, heard["test"]])[:100]} if RECORDINGS or UPLOAD else {}
home = pages.page(
    hears,
    "my_sounds.html",
    encode=encode.columns,
    **{"images": (heard["test"], named["test"])} | with_yours,
    labels=sounds.CLASSES,
    title="A network that hears what you draw",
    about="Draw a sound: high is up, time goes to the right. Trained on ten sounds in notebook 20 of snnkit.",
)
viz.embed(home)  # the file itself is in the folder of this notebook

# %% [markdown]
# **What to try**
#
# - Clear the field, and draw a line that rises. Then one that falls. At which step does the network know?
# - Two levels, one after the other: *low-high*. A cloud and then a line: *hiss-tone*.
# - Turn down the memory. Which sounds are lost first, and why these?
#
# For a page of your own words, put `yours` of section 3 in place of `hears`, `(own, mine)` in place of the images, and
# `labels=words`.

# %% [markdown]
# ## Quiz

# %%
quiz("your_own_data")

# %%
scorecard("your_own_data")

# %% [markdown]
# ## Where next
#
# **[21 · Sweeps](21_sweeps.ipynb)** runs dozens of trainings and says what may be concluded. `train.fit` also takes a `DataLoader`, recordings of an
# event camera (notebook 06) and targets for each time step. The page on [data](https://github.com/snnkit/snnkit/blob/main/docs/data.md)
# has spoken words as spikes, and how to choose an epoch without the test set.
#
# Meanwhile: `QUICK = False`; a table of your own; a network that knows your voice.
#
# **Worth reading**
#
# 1. B. Efron, T. Hastie, I. Johnstone, R. Tibshirani, *Least angle regression*, The Annals of Statistics 32 (2004): the table of section 1.
#    [doi:10.1214/009053604000000067](https://doi.org/10.1214/009053604000000067)
# 2. S. M. Bohte, J. N. Kok, H. La Poutré, *Error-backpropagation in temporally encoded networks of spiking neurons*, Neurocomputing 48 (2002).
#    [doi:10.1016/S0925-2312(01)00658-0](https://doi.org/10.1016/S0925-2312(01)00658-0)
# 3. B. R. Glasberg, B. C. J. Moore, *Derivation of auditory filter shapes from notched-noise data*, Hearing Research 47 (1990).
#    [doi:10.1016/0378-5955(90)90170-T](https://doi.org/10.1016/0378-5955(90)90170-T)
# 4. S. Kaufman, S. Rosset, C. Perlich, O. Stitelman, *Leakage in data mining: formulation, detection, and avoidance*, ACM Transactions on Knowledge
#    Discovery from Data 6 (2012). [doi:10.1145/2382577.2382579](https://doi.org/10.1145/2382577.2382579)
# 5. P. U. Diehl, D. Neil, J. Binas, M. Cook, S.-C. Liu, M. Pfeiffer, *Fast-classifying, high-accuracy spiking deep networks through weight and
#    threshold balancing*, IJCNN (2015). [doi:10.1109/IJCNN.2015.7280696](https://doi.org/10.1109/IJCNN.2015.7280696)
