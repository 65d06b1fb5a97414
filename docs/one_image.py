"""Draws docs/one_image_in_spikes.png, one image on its way through a network, from the root of the clone."""

from functools import partial

import torch
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from snnkit import data, encode, loss, neuron, nn, train
from snnkit.lab.viz import concepts
from snnkit.lab.viz.theme import AXIS_HEX, GREEN, INK_TEXT, NIGHT, WHITE

T, SHOWN = 40, 0
torch.set_num_threads(1)
train.seed_everything(0)
images, labels = data.load("digits", "test")
net = nn.Sequential(
    torch.nn.Flatten(), torch.nn.Linear(64, 128), neuron.Leaky(0.9), torch.nn.Linear(128, 10), neuron.Leaky(0.9)
)
see = partial(encode.repeat, steps=T)
train.fit(net, data.load("digits"), (images, labels), encode=see, loss=loss.count_cross_entropy, lr=5e-3, epochs=10)
picture, label = data.to_unit(images[SHOWN]), int(labels[SHOWN])
with torch.no_grad():
    _, current, hidden, drive, out = (layer[:, 0] for layer in net.record(see(picture[None])).layers)
    cell, state, membrane = net[2], None, []
    which = int((hidden.sum(0) - 7).abs().argmin())  # a neuron with about seven spikes
    for x in current:
        state = cell.initial_state(x) if state is None else state
        _, state = cell.step(x, state)
        membrane.append(float(state.mem[which]))
fired = hidden[:, which].nonzero().flatten().tolist()

page = Figure(figsize=(10, 3.1), dpi=180)
axes = page.subplots(1, 4, width_ratios=(0.8, 1.5, 1.5, 1.5))
axes[0].imshow(picture[0], cmap=LinearSegmentedColormap.from_list("light", [NIGHT, WHITE]))
axes[0].set(title="a digit", xticks=[], yticks=[])
axes[1].axhline(1, color=concepts.colour("threshold"), linestyle="--", linewidth=1.2)
axes[1].plot(membrane, color=concepts.colour("membrane"), drawstyle="steps-post")
axes[1].plot(fired, [1.45] * len(fired), "v", color=concepts.colour("spike"), markersize=5)
axes[1].set(title="one neuron charges and fires", ylabel="membrane potential", ylim=(None, 1.6))
when, who = hidden[:, hidden.sum(0).argsort(descending=True)].nonzero(as_tuple=True)
axes[2].plot(when, who, "|", color=concepts.colour("spike"), markersize=3)
axes[2].set(title=f"the hidden layer: {int(hidden.sum())} spikes", ylabel="neuron (sorted)")
for k, votes in enumerate(out.cumsum(0).T.tolist()):
    axes[3].plot(
        votes,
        drawstyle="steps-post",
        color=GREEN if k == label else AXIS_HEX,
        linewidth=2.5 if k == label else 1,
        zorder=k == label,
    )
axes[3].text(T, float(out[:, label].sum()), f" {label}", color=INK_TEXT, weight="bold", va="center")
axes[3].set(title="the output neurons vote", ylabel="spikes so far", xlim=(None, T * 1.12))
axes[3].yaxis.get_major_locator().set_params(integer=True)
for ax in axes:
    ax.title.set(color=INK_TEXT, size=10)
    ax.tick_params(colors=INK_TEXT, labelsize=8)
    ax.xaxis.label.set(color=INK_TEXT, size=9)
    ax.yaxis.label.set(color=INK_TEXT, size=9)
    ax.spines[:].set_color(AXIS_HEX)
    ax.spines[["top", "right"]].set_visible(ax is axes[0])
for ax in axes[1:]:
    ax.set_xlabel("time step")
page.tight_layout(w_pad=1.5)
page.savefig("docs/one_image_in_spikes.png")
