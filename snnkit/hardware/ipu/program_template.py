"""What stands in every program that ``write_program`` writes; names between @ and in braces are filled in."""

from __future__ import annotations

HEAD = '''
"""{name}: a spiking network in plain PyTorch, and its training on an IPU through PopTorch 3.4.

Written by snnkit {version} (hardware.ipu.write_program). It imports PyTorch alone, and PopTorch where it is asked to
train on an IPU: it is meant for the environment of PopTorch 3.4, PyTorch 2.0.1 and Python 3.8. It was compared with the
network that it was written from; **it has never run on an IPU.**

    python {name}.py data.pt              # training on this computer's processor
    python {name}.py data.pt --ipu        # on an IPU

data.pt holds (x, y), as torch.save((x, y), "data.pt") writes it; {name}.pt, beside this file, the weights before
training. {name}_trained.pt gets those after it, under the names that the network has in snnkit:
net.load_state_dict(torch.load("{name}_trained.pt")).
"""

import argparse
import pathlib

import torch
import torch.nn.functional as F
from torch import nn
'''

BODY = '''
def once(layer, x):
    """A layer without state on steps that are all the same: on one of them."""
    return [layer(x[0])] * len(x)


def folded(layer, x):
    """A layer without state on all steps at once, time folded into the batch."""
    out = layer(torch.stack(x).flatten(0, 1))
    return list(out.unflatten(0, (len(x), out.shape[0] // len(x))).unbind(0))


def over_time(rest, step, x, tensors=(), weight=None):
    """The step of a layer of neurons at every step, from rest; ``weight``: of what they gave out last."""
    state, out, outs = rest(x[0], *tensors), torch.zeros_like(x[0]), []
    for current in x:
        if weight is not None:
            current = current + weight(out)
        out, *state = step(current, *state, *tensors)
        outs.append(out)
    return outs


def frozen(layer):
    """A layer that is not trained."""
    return layer.requires_grad_(False)


class Net(nn.Module):
    """x @SHAPE@ to out [B, T, ...]."""

    def __init__(self):
        super().__init__()
@MADE@

    def put(self, path, part):
        """Register a layer, parameter or buffer under a path such as "2.weight"."""
        *above, name = path.split(".")
        owner = self
        for key in above:
            if key not in owner._modules:
                owner.add_module(key, nn.Module())
            owner = owner._modules[key]
        if isinstance(part, nn.Module):
            owner.add_module(name, part)
        elif isinstance(part, nn.Parameter):
            owner.register_parameter(name, part)
        else:
            owner.register_buffer(name, part)

    def at(self, path):
        """What was put there."""
        above, _, name = path.rpartition(".")
        owner = self.get_submodule(above)
        return next(store[name] for store in (owner._modules, owner._parameters, owner._buffers) if name in store)

    def forward(self, x):
        x = list(@START@)
@FORWARD@
        return torch.stack(x, 1)


class WithLoss(nn.Module):
    """``out = model(x)``; ``out, loss = model(x, y)``, with the loss marked by ``mark``, as an IPU wants it."""

    def __init__(self, net, mark=None):
        super().__init__()
        self.net, self.mark = net, mark

    def forward(self, x, y=None):
        out = self.net(x)
        if y is None:
            return out
        value = loss_of(out.transpose(0, 1), y)
        return out, value if self.mark is None else self.mark(value, "none")


def loss_of(out, y):
    """Of out [T, B, C]."""
    return @LOSS@
'''

MAIN = '''
def train_here(net, x, y, epochs, batch, lr):
    """On this computer's processor; the mean loss of each epoch."""
    model = WithLoss(net)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for epoch in range(epochs):
        losses = []
        for few in torch.randperm(len(x)).split(batch):
            optimizer.zero_grad()
            _, loss = model(x[few], y[few])
            loss.backward()
            optimizer.step()
            losses.append(float(loss))
        print(f"epoch {epoch + 1}: loss {sum(losses) / len(losses):.4f}")


def train_on_ipu(net, x, y, epochs, batch, lr, iterations):
    """Through PopTorch; the last loss of each epoch."""
    import poptorch

    options = poptorch.Options()
    options.deviceIterations(iterations)  # training steps between two visits of the host
    data = torch.utils.data.TensorDataset(x, y)
    loader = poptorch.DataLoader(options, data, batch_size=batch, shuffle=True, drop_last=True)
    model = WithLoss(net, poptorch.identity_loss)
    optimizer = poptorch.optim.Adam(model.parameters(), lr=lr)
    trained = poptorch.trainingModel(model, options=options, optimizer=optimizer)
    for epoch in range(epochs):
        for few_x, few_y in loader:
            _, loss = trained(few_x, few_y)
        print(f"epoch {epoch + 1}: loss {float(loss):.4f}")
    trained.copyWeightsToHost()
    trained.destroy()


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="a file that holds (x, y)")
    parser.add_argument("--ipu", action="store_true", help="train on an IPU through PopTorch")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch", type=int, default=@BATCH@, help="samples of a training step")
    parser.add_argument("--lr", type=float, default=1e-3, help="learning rate of Adam")
    parser.add_argument("--iterations", type=int, default=8, help="training steps of one call of the IPU")
    asked = parser.parse_args(arguments)
    here = pathlib.Path(__file__)
    net = Net()
    net.load_state_dict(torch.load(str(here.with_suffix(".pt")), map_location="cpu"))
    x, y = torch.load(asked.data, map_location="cpu")
    needed = asked.batch * (asked.iterations if asked.ipu else 1)
    if len(x) < needed:
        raise SystemExit(f"{asked.data} must hold at least {needed} samples (batch x iterations), but holds {len(x)}")
    if asked.ipu:
        train_on_ipu(net, x, y, asked.epochs, asked.batch, asked.lr, asked.iterations)
    else:
        train_here(net, x, y, asked.epochs, asked.batch, asked.lr)
    torch.save(net.state_dict(), str(here.with_name(here.stem + "_trained.pt")))


if __name__ == "__main__":
    main()
'''
