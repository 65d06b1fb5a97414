"""Models that break one rule of an IPU each, in many ways, and what the check must say of them.

A line that breaks a rule carries the comment "planted", which the finding must point at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from snnkit import models, neuron, surrogate
from snnkit.lab.hardware import ipu
from snnkit.loss import count_cross_entropy

INPUTS, HIDDEN, CLASSES, STEPS, BATCH = 6, 5, 3, 3, 8


def example() -> tuple[Tensor, Tensor]:
    """x [B, inputs] and y [B]."""
    generator = torch.Generator().manual_seed(1)
    x = torch.rand(BATCH, INPUTS, generator=generator)
    return x, torch.randint(0, CLASSES, (BATCH,), generator=generator)


spike = ipu.Detached(surrogate.ATan())


def leaky_step(mem: Tensor, x: Tensor, threshold: Any = 1.0) -> tuple[Tensor, Tensor]:
    """One step of ``Leaky(0.9)`` with the state passed in and out."""
    mem = 0.9 * mem + x - (mem > threshold).to(mem.dtype) * threshold
    return spike(mem - threshold, strict=True), mem


class OnIPU(nn.Module):
    """A network of snnkit as an IPU takes it, from x [B, ...] shown for some steps, or a sequence, to [B, T, ...]."""

    def __init__(self, net: nn.Module, steps: int | None = STEPS) -> None:
        super().__init__()
        self.net, self.steps = net, steps
        for layer in net.modules():
            if isinstance(layer, neuron.Neuron):
                layer.engine = "eager"
                if isinstance(layer.surrogate, surrogate.Surrogate):
                    layer.surrogate = ipu.Detached(layer.surrogate)

    def forward(self, x: Tensor) -> Tensor:
        sequence = x.transpose(0, 1) if self.steps is None else x.expand(self.steps, *x.shape)
        return self.net(sequence)[0].transpose(0, 1)


def converted() -> OnIPU:
    """A small one."""
    return OnIPU(models.mlp((INPUTS, HIDDEN, CLASSES), flatten=False))


def batch_first(loss: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """A loss of ``snnkit.loss`` for out [B, T, C]."""
    return lambda out, y: loss(out.transpose(0, 1), y)


class Net(nn.Module):
    """A clean one: two layers of functional LIF neurons, written out over time, with its loss. Cases change a part."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(INPUTS, HIDDEN)
        self.second = nn.Linear(HIDDEN, CLASSES)
        nn.init.normal_(self.first.weight, std=1.0)
        nn.init.normal_(self.second.weight, std=1.0)
        for name, part in self.parts().items():
            setattr(self, name, part)

    def parts(self) -> dict[str, Any]:
        return {}

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        out = self.over_time(self.encode(x))
        return out, self.cost(out, y)

    def encode(self, x: Tensor) -> Tensor:
        return x

    def over_time(self, x: Tensor) -> Tensor:
        hidden, last = x.new_zeros(x.shape[0], HIDDEN), x.new_zeros(x.shape[0], CLASSES)
        outs = []
        for _ in range(STEPS):
            spikes, hidden = self.neuron(hidden, self.first(x))
            out, last = self.neuron(last, self.second(spikes))
            outs.append(out)
        return torch.stack(outs, 1)

    def neuron(self, mem: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return leaky_step(mem, x)

    def cost(self, out: Tensor, y: Tensor) -> Tensor:
        return ipu.identity_loss(F.cross_entropy(out.sum(1), y))


@dataclass
class Case:
    """A model, how it is checked, and the verdict: the rules broken, words of the reason, and where."""

    name: str
    model: Callable[[], nn.Module]
    rules: tuple[str, ...]
    words: str
    planted: bool = True
    module: str = ""
    example: Callable[[], tuple[Tensor, ...]] = example
    options: Callable[[], dict[str, Any]] = field(default=dict)


CASES: list[Case] = []


def planted(*rules: str, words: str, line: bool = True, module: str = "", **how: Any) -> Callable:
    """Add a class of model (or a function that makes one) to the cases."""

    def add(model: Any) -> Any:
        CASES.append(Case(model.__name__, model, rules, words, line, module, **how))
        return model

    return add


def encodes(name: str, rule: str, words: str, encode: Callable[[Tensor], Tensor]) -> None:
    """Add a clean net with this encoding to the cases; its line must carry the comment, too."""
    body = {"encode": lambda self, x: encode(x), "__module__": __name__}
    planted(rule, words=words)(type(name, (Net,), body))


@planted("static graph", words="truth value")
class ResetChosenByABuffer(Net):  # as snntorch-ipu's Leaky does (snnTorch issue 236)
    def parts(self):
        return {"reset_mechanism": nn.Buffer(torch.tensor(0))}

    def neuron(self, mem, x):
        if self.reset_mechanism == 0:  # planted
            return super().neuron(mem, x)
        return super().neuron(0 * mem, x)


@planted("static graph", words="a number")
class ThresholdAsANumber(Net):
    def neuron(self, mem, x):
        return leaky_step(mem, x, threshold=x.abs().mean().item())  # planted


encodes("AsAList", "static graph", "tolist", lambda x: x * x.mean(0).tolist()[0])  # planted
encodes("ThroughNumpy", "static graph", "numpy", lambda x: x + torch.from_numpy(x.detach().numpy() * 0))  # planted
encodes("ToTheHost", "static graph", "host", lambda x: x + x.mean().to("cpu"))  # planted
encodes("InAText", "static graph", "number in a text", lambda x: x + len(f"{x.mean():.3f}"))  # planted
encodes("TakesOutWithAMask", "static graph", "x[mask]", lambda x: x / x[x > 0].mean())  # planted
encodes("EventsAsIndices", "static graph", "nonzero", lambda x: x + len(torch.nonzero(x)))  # planted
encodes("CPUIndices", "static graph", "index_select", lambda x: x + x.index_select(1, torch.LongTensor([0])))  # planted


@planted("static graph", words="neither input, parameter nor buffer")
class ConstantInAnAttribute(Net):
    def parts(self):
        return {"scale": torch.ones(INPUTS)}

    def encode(self, x):
        return x * self.scale  # planted


@planted("static graph", words="torch.compile", line=False)
def CompiledModel() -> nn.Module:
    return torch.compile(Net())  # type: ignore[return-value]


@torch.compile(backend="eager")
def compiled_helper(x: Tensor) -> Tensor:
    return x * 0.9  # planted


@planted("static graph", words="torch.compile has made")
class CallsACompiledFunction(Net):
    def encode(self, x):
        return compiled_helper(x)


@planted("static graph", words="torch.func", line=False)
class DifferentiatesItself(Net):
    def encode(self, x):
        return x + torch.func.grad(lambda z: z.square().sum())(x)


@planted("state in place", words="hidden", module="model (BufferReassigned)")
class BufferReassigned(Net):  # as snnTorch 1.0's Leaky does
    def parts(self):
        return {"hidden": nn.Buffer(torch.zeros(BATCH, INPUTS))}

    def encode(self, x):
        self.hidden = 0.5 * self.hidden + x  # planted
        return self.hidden


@planted("state in place", words="hidden", module="model (BufferRegisteredAgain)")
class BufferRegisteredAgain(BufferReassigned):
    def encode(self, x):
        self.register_buffer("hidden", 0.5 * self.hidden + x)  # planted
        return self.hidden


@planted("state in place", words="second.bias", module="second (Linear)")
class ParameterReassigned(Net):
    def encode(self, x):
        self.second.bias = nn.Parameter(torch.zeros(CLASSES, device=x.device))  # planted
        return x


@planted("state in place", words="trace_of_input", module="model (DataExchanged)")
class DataExchanged(Net):
    def parts(self):
        return {"trace_of_input": nn.Buffer(torch.zeros(BATCH, INPUTS))}

    def encode(self, x):
        self.trace_of_input.data = x + 0.0  # planted
        return x


@planted("state in place", words="plain attribute")
class MembraneKeptInAnAttribute(Net):  # as multi-step modules do that must be reset between batches
    def parts(self):
        return {"v": 0.0}

    def encode(self, x):
        self.v = self.v * 0.5 + x  # planted
        return self.v


encodes("CleansNaN", "supported operations", "nan_to_num", lambda x: torch.nan_to_num(x))  # planted
encodes("UnsortedTopk", "supported operations", "sorted=False", lambda x: x + x.topk(1, sorted=False)[0])  # planted
encodes("UnevenPooling", "supported operations", "divide", lambda x: x + F.adaptive_avg_pool1d(x, 4)[:, :1])  # planted


@planted("supported operations", words="accumulate=True")
class AddsAtIndices(Net):
    def encode(self, x):
        rows = torch.zeros(2, dtype=torch.int64, device=x.device)
        return x.index_put((rows,), x[:2], accumulate=True)  # planted


@planted("supported operations", words="class weights")
class WeightedClasses(Net):
    def cost(self, out, y):
        weight = torch.ones(CLASSES, device=out.device)
        loss = F.cross_entropy(out.sum(1), y, weight)  # planted
        return ipu.identity_loss(loss)


class Step(torch.autograd.Function):
    """A surrogate as most packages have it."""

    @staticmethod
    def forward(ctx, u):
        ctx.save_for_backward(u)
        return (u > 0).to(u.dtype)

    @staticmethod
    def backward(ctx, grad):
        (u,) = ctx.saved_tensors
        return grad / (1 + u.abs()) ** 2


@planted("no autograd.Function", words="Step")
class OwnSurrogate(Net):
    def neuron(self, mem, x):
        mem = 0.9 * mem + x
        return Step.apply(mem - 1), mem  # planted


@planted("no autograd.Function", words="Checkpoint")
class Checkpointed(Net):
    def over_time(self, x):
        from torch.utils.checkpoint import checkpoint

        return checkpoint(super().over_time, x.requires_grad_(), use_reentrant=True)  # planted


@planted("no autograd.Function", words="BackwardHook", line=False, module="second (Linear)")
class BackwardHook(Net):
    def __init__(self) -> None:
        super().__init__()
        self.second.register_full_backward_hook(lambda module, grad_in, grad_out: None)


@planted(
    "no autograd.Function",
    words="Spike",
    line=False,
    module="net.1 (Leaky)",
    example=lambda: (example()[0].expand(BATCH, BATCH, INPUTS), example()[1]),
    options=lambda: {"loss": count_cross_entropy},
)
def NetworkOfSnnkitAsItIs() -> nn.Module:
    return models.mlp((INPUTS, HIDDEN, CLASSES), flatten=False)


@planted("gradients", words="register_hook")
class ClipsGradients(Net):
    def neuron(self, mem, x):
        spike, mem = super().neuron(mem, x)
        mem.register_hook(lambda grad: grad.clamp(-1, 1))  # planted
        return spike, mem


@planted("gradients", words="its gradient is lost", module="first (Linear)")
class NoSurrogate(Net):
    def over_time(self, x):
        spikes = (self.first(x) > 0).to(x.dtype)  # planted
        return torch.stack([self.second(spikes)] * STEPS, 1)


@planted("gradients", words="first.weight takes part", module="first (Linear)")
class NoSurrogateButAReset(Net):
    def neuron(self, mem, x):
        reset = (mem > 1).to(mem.dtype).detach()
        mem = 0.9 * mem + x - reset
        return (mem > 1).to(mem.dtype), mem  # planted

    def cost(self, out, y):
        return super().cost(out + self.second.weight.mean() + self.second.bias, y)


@planted("gradients", words="the loss has no gradient")
class AllWithoutGradients(Net):
    def over_time(self, x):
        with torch.no_grad():
            return torch.stack([self.second(self.first(x))] * STEPS, 1)  # planted


@planted("one loss", words="holds no loss", line=False)
class NoLoss(Net):
    def cost(self, out, y):
        return -torch.gather(out.sum(1), 1, y.unsqueeze(1)).mean()


@planted("one loss", words="2 losses")
class SecondLossOfTheFirstsInput(Net):
    def forward(self, x, y):
        out = self.over_time(x)
        loss = F.cross_entropy(out.sum(1), y)
        return ipu.identity_loss(loss), ipu.identity_loss(loss + out.mean())  # planted


@planted("one loss", words="2 losses")
class TwoLosses(Net):
    def cost(self, out, y):
        rate = F.mse_loss(out.mean(1), torch.zeros(out.shape[0], CLASSES, device=out.device))
        return F.cross_entropy(out.sum(1), y) + rate  # planted


@planted("one loss", words="not trained on")
class RegulariserNotMarked(Net):
    def cost(self, out, y):
        loss = F.cross_entropy(out.sum(1), y)  # planted
        return loss + 0.1 * out.mean()


@planted("one loss", words="no scalar")
class LossPerSample(Net):
    def cost(self, out, y):
        return ipu.identity_loss(F.cross_entropy(out.sum(1), y, reduction="none"))  # planted


def two_values(out: Tensor, y: Tensor) -> Any:
    return F.cross_entropy(out.sum(1), y), out.mean()


@planted("one loss", words="one scalar tensor", line=False, options=lambda: {"loss": two_values})
def LossFunctionOfTwoValues() -> nn.Module:
    return converted()


@planted("batch", words="can't be divided into 3", line=False, options=lambda: {"device_iterations": 3})
class BatchNotDivisible(Net):
    pass


@planted("batch", words="whole batch of 8, but not on a micro-batch of 4", options=lambda: {"device_iterations": 2})
class BatchWrittenOut(Net):
    def encode(self, x):
        return x.view(8, INPUTS)  # planted


@planted(
    "batch",
    words="first dimensions differ: 4, 8",
    line=False,
    example=lambda: (example()[0].expand(4, BATCH, INPUTS), example()[1]),
    options=lambda: {"device_iterations": 2},
)
class TimeFirst(Net):
    def encode(self, x):
        return x[0]


@planted("batch", words="input 2 has no batch", line=False, example=lambda: (*example(), torch.tensor(0.5)))
class ScalarInput(Net):
    def forward(self, x, y, scale):
        return super().forward(x * scale, y)


@planted(
    "dtypes", words="first.weight is torch.float64", line=False, example=lambda: (example()[0].double(), example()[1])
)
def DoubleThroughout() -> nn.Module:
    return Net().double()


encodes("DoubleInBetween", "dtypes", "float64", lambda x: x.double().cumsum(1).float())  # planted
encodes("BrainFloat", "dtypes", "bfloat16", lambda x: x.to(torch.bfloat16).float())  # planted


@planted("dtypes", words="beyond 32 bits")
class HashesLabels(Net):
    def cost(self, out, y):
        y = y * 2654435761 % CLASSES  # planted
        return super().cost(out, y)


@planted(
    "dtypes",
    words="input 1 holds integers beyond 32 bits",
    line=False,
    example=lambda: (example()[0], example()[1] + 2**40),
)
class LargeLabels(Net):
    def cost(self, out, y):
        return super().cost(out, (y - 2**40).clamp(0, CLASSES - 1))


@planted("same trace", words="state in Python")
class EverySecondCall(Net):
    def parts(self):
        return {"calls": 0}

    def encode(self, x):
        self.calls += 1
        return x * 2 if self.calls % 2 else x  # planted


@planted("same trace", words="a later call", line=False)
class WarmUp(Net):
    def parts(self):
        return {"warm": False}

    def encode(self, x):
        x = x if self.warm else torch.tanh(x)
        self.warm = True
        return x


class Wide(Net):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(INPUTS, width), nn.Linear(width, HIDDEN))


@planted("memory", words="does not fit", line=False, options=lambda: {"tiles": 4})
def WeightsTooLarge() -> nn.Module:
    return Wide(15000)
