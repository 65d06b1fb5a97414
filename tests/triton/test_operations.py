"""The operations as torch.compile sees them: they keep PyTorch's rules, and the launch is there to be seen."""

import importlib
import logging

import pytest
import torch
from torch import nn
from torch._dynamo.backends.common import aot_autograd

from snnkit.engine import ops
from snnkit.neuron import LIF

from .flat import layer

importlib.import_module("snnkit.engine.triton.triton_ops")  # registers them

interpreted = [
    pytest.mark.usefixtures("interpreter"),
    pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning"),
]


def arguments(name, steps=9, save=True, uint8=False):
    one = layer(name, steps, torch.float32)
    x = one.flat_x.clone().requires_grad_(not uint8)
    state = [part.requires_grad_(not uint8) for part in one.flat_state]
    parameters = [p.clone().requires_grad_(not uint8) for p in one.parameters]
    return one, (x, state, parameters, ops.register(one.equation), uint8, save)


class TestInterpreted:
    pytestmark = interpreted

    @pytest.mark.parametrize("save", [True, False])
    @pytest.mark.parametrize("name", ["LIF", "CubaLIF-learnable", "LI"])
    def test_rules_of_operations(self, name, save):
        # Schema, autograd, shapes and strides without data, and all of it traced with symbols for sizes.
        _, given = arguments(name, save=save)
        torch.library.opcheck(torch.ops.snnkit.triton_forward.default, given)

    def test_gradients(self):
        one, given = arguments("CubaLIF-learnable", steps=19)
        x, state, parameters, *others, _ = given
        weight, found = torch.randn_like(x), []
        for save in (True, False):  # without, backward runs forward again
            out = torch.ops.snnkit.triton_forward(x, state, parameters, *others, save)[0]
            found.append(torch.autograd.grad((out * weight).sum(), [x, *state, *parameters]))
        assert all(map(torch.equal, *found))
        first = type(one.state)(*(part.view_as(one.x[0]) for part in state))
        out, _ = one.neuron(x.view_as(one.x), first)
        torch.testing.assert_close(
            found[0][:3], torch.autograd.grad((out.flatten(1) * weight).sum(), [x, *state]), rtol=1e-5, atol=1e-6
        )

    @pytest.mark.parametrize("dynamic", [False, True])
    def test_a_neuron_in_a_compiled_model_is_this_operation(self, dynamic):
        neuron = LIF(nn.Parameter(torch.linspace(1.5, 3.0, 4).reshape(4, 1, 1)), engine="triton")
        image = torch.rand(19, 2, 4, 3, 3) * 2
        channels_last = image.flatten(0, 1).contiguous(memory_format=torch.channels_last).unflatten(0, (19, 2))
        seen = []

        def backend(graph, _):
            seen.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
            return graph

        model = torch.compile(neuron, fullgraph=True, backend=backend, dynamic=dynamic)
        for x in (image, channels_last):
            results = []
            for call in (model, neuron):
                leaf = x.detach().requires_grad_()
                out, state = call(leaf)
                gradients = torch.autograd.grad((out * 0.3).sum() + state.v.sum(), [leaf, neuron.tau])
                results.append((out, state.v, *gradients))
            assert results[0][0].stride() == results[1][0].stride()
            torch.testing.assert_close(results[0], results[1], rtol=0, atol=0)
        assert any("triton_forward" in name for name in seen)


class Hopper:
    """What Triton asks a driver for while it looks at a kernel without running it."""

    def get_current_target(self):
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", 90, 32)

    def get_current_device(self):
        return 0


@pytest.fixture
def traced(monkeypatch):
    """``traced(function, *tensors)``: the graphs that a compiler gets of forward and backward; nothing is run."""
    from triton.runtime import driver

    monkeypatch.setattr(driver, "_active", Hopper(), raising=False)
    graphs = []

    def record(graph, _):
        graphs.append(graph)
        values = [getattr(node, "meta", {}).get("val") for node in graph.graph.output_node().args[0]]

        def nothing(arguments):
            return [
                torch.zeros([int(s) for s in v.shape], dtype=v.dtype) if isinstance(v, torch.Tensor) else v and int(v)
                for v in values
            ]

        nothing._boxed_call = True
        return nothing

    def trace(function, *tensors, dynamic=False):
        graphs.clear()
        torch._dynamo.reset()
        backend = aot_autograd(fw_compiler=record, bw_compiler=record)
        torch.compile(function, fullgraph=True, backend=backend, dynamic=dynamic)(*tensors).sum().backward()
        return list(graphs)

    return trace


def launches(graph):
    return [node for node in graph.graph.nodes if "triton_kernel_wrapper" in str(node.target)]


def test_compiler_sees_the_launch_and_what_it_fills(traced, caplog):
    neurons = 2**18
    equation = layer("LIF", 9, torch.float32).equation
    name = ops.register(equation)

    def model(x, v):
        return torch.ops.snnkit.triton_forward(x * 2, [v], [], name, False, True)[0] * 2

    inputs = torch.zeros(9, neurons, requires_grad=True), torch.zeros(neurons)
    with caplog.at_level(logging.WARNING):
        forward, backward = traced(model, *inputs)
    assert "identify_accessed_tensors" not in caplog.text
    (launch,) = launches(forward)
    assert launch.kwargs["grid"] == [(neurons // 512, 1, 1)]
    assert launch.kwargs["tensors_to_clone"] == ["out_ptr", "s0_last_ptr", "s0_saved_ptr"]
    assert launch.kwargs["kwargs"]["T"] == 9 and launch.kwargs["kwargs"]["UNIT"] == 16
    (launch,) = launches(backward)
    assert launch.kwargs["tensors_to_clone"] == ["d_x_ptr", "d0_first_ptr"]
