"""Trains a network without spikes on MNIST, converts it, and draws docs/ann_to_snn.png, from the root of the clone."""

from pathlib import Path

import torch
from torch import nn

from snnkit import data, device, encode, interop, loss, train
from snnkit.lab import viz

T, EPOCHS = 32, 3
torch.set_num_threads(1)
train.seed_everything(0)
(images, labels), (test_images, test_labels) = data.load("mnist"), data.load("mnist", "test")
ann = nn.Sequential(
    *(nn.Conv2d(1, 12, 5, bias=False), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2)),
    *(nn.Conv2d(12, 24, 5, bias=False), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2)),
    *(nn.Flatten(), nn.Dropout(0.2), nn.Linear(384, 96), nn.ReLU(), nn.Linear(96, 10)),
)
optimizer = torch.optim.Adam(ann.parameters())
updates = EPOCHS * -(-len(images) // 128)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, updates)
for _ in range(EPOCHS):
    for batch, targets in data.batches(images, labels, 128):
        nn.functional.cross_entropy(ann(data.to_unit(batch)), targets).backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()


def outputs(net, steps):
    """[T, N, 10] of all test images; of a network without spikes, T is 1."""

    def of(net, batch):
        x = data.to_unit(batch)
        return net(encode.repeat(x, steps))[0] if steps > 1 else net(x)[None]

    return device.batch_process(net, test_images, of, 100, out_dim=1, progress=False)


right = float(loss.accuracy(outputs(ann, 1), test_labels))
print(f"without spikes: {right:.2%}")
curves = {}
for v_init in (0.5, 0.0):
    snn = interop.ann_to_snn(ann, data.to_unit(images[:1000]), v_init=v_init)
    curves[f"v_init={v_init:g}"] = curve = loss.accuracy_over_time(outputs(snn, T), test_labels)
    print(f"v_init={v_init:g}: " + ", ".join(f"T = {t}: {curve[t - 1]:.2%}" for t in (1, 2, 4, 8, 16, 32)), flush=True)
first = 1 + int((curves["v_init=0.5"] >= right - 0.01).int().argmax())
title = f"After {first} steps a converted network is within 1 % of the one without spikes"
figure = viz.figures.accuracy_over_time(curves, right, title=title)
Path("docs/ann_to_snn.png").write_bytes(viz.png_bytes(figure))
