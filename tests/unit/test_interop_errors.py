"""What interop refuses, and what it says then."""

import itertools
import os
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from snnkit.neuron import (
    ALIF,
    IF,
    LI,
    LIF,
    QIF,
    AdEx,
    Alpha,
    CubaLIF,
    Izhikevich,
    Leaky,
    OneToOne,
    Readout,
    Recurrent,
    Refractory,
    Synaptic,
)
from snnkit.nn import PerStep, Residual, Sequential, Voting

nir, h5py = pytest.importorskip("nir"), pytest.importorskip("h5py")

from snnkit.interop import EulerIF, Graph, Scale, from_nir  # noqa: E402
from tests.unit.nir_cases import DT, nir_neuron, written  # noqa: E402

X = torch.zeros(2, 1, 3)
IMAGES = torch.zeros(2, 1, 1, 6, 6)


class Own(nn.Module):
    def forward(self, x):
        return x


class Twice(Recurrent):
    def forward(self, x, state=None):
        return super().forward(2 * x, state)


SKIPS = Graph({"a": nn.Identity()}, [("input", "a"), ("a", "output"), ("input", "output")])
WIDTHS = Graph({"a": nn.Linear(3, 2)}, [("a", "output"), ("input", "a"), ("input", "output")])


@pytest.mark.parametrize(
    "model, example, dt, error, message",
    [
        (IF(v_reset=None), X, DT, ValueError, "if of model: IF has a soft reset .* v_reset=0.0"),
        (Sequential(nn.Linear(3, 3), LIF(v_reset=None)), X, DT, ValueError, "1 of model: LIF has a soft reset"),
        (Leaky(0.9), X, DT, ValueError, 'reset_mechanism="subtract", which NIR'),
        (Leaky(torch.tensor([1, 0.5, 1]), reset_mechanism="zero"), X, DT, ValueError, "beta of Leaky must be below 1"),
        (CubaLIF(dt=1e-3), X, 1e-4, ValueError, "dt must be that of the network's CubaLIF, 0.001 s, but it is 0.0001"),
        (LIF(torch.full((4,), 2.0)), X, DT, ValueError, r"its tau of shape \[4\] does not broadcast against samples"),
        (ALIF(), X, DT, TypeError, "NIR has no node for ALIF, as its threshold adapts; it has nodes for IF, LIF"),
        (Izhikevich(), X, DT, TypeError, "NIR has no node for Izhikevich, as its membrane is quadratic, and it adapts"),
        (QIF(), X, DT, TypeError, "qif of model: NIR has no node for QIF, as its membrane is quadratic"),
        (AdEx(), X, DT, TypeError, "NIR has no node for AdEx, as its membrane is exponential"),
        (Alpha(0.9, 0.8), X, DT, TypeError, "NIR has no node for Alpha, as its two currents and its membrane are"),
        (Refractory(LIF(), 2), X, DT, TypeError, "NIR has no node for Refractory, as no node has a refractory period"),
        (Recurrent(OneToOne(LIF()), 3), X, DT, TypeError, "NIR has no node for OneToOne, as a neuron with weights to"),
        (Recurrent(LIF(), connection=nn.Tanh()), X, DT, TypeError, "NIR has no node for Tanh"),
        (Synaptic(0.5, 0.5), X, DT, ValueError, 'reset_mechanism="subtract", which NIR can\'t express; use "zero"'),
        (Synaptic(0.5, 0.5, reset_mechanism="zero"), X, DT, ValueError, '="zero", reset_delay=True, which NIR can'),
        (Synaptic(1.0, 0.5, reset_mechanism="zero", reset_delay=False), X, DT, ValueError, "alpha of Synaptic must be"),
        (Readout(1.0, decay_input=True), X, DT, ValueError, "beta of Readout with decay_input must be below 1"),
        (Readout(torch.tensor([1, 0.5, 1])), X, DT, ValueError, "beta of Readout must be below 1 for all its neurons"),
        (Sequential(Own()), X, DT, TypeError, "0 of model: NIR has no node for Own"),
        (Sequential(Voting(3)), X, DT, TypeError, "0 of model: NIR has no node for Voting"),
        (Residual(PerStep(nn.Identity())), X, DT, TypeError, "main of model: NIR has no node for PerStep"),
        (Residual(nn.Identity()), X, DT, ValueError, "output of Graph gets one signal twice"),
        (nn.MaxPool2d(2), IMAGES, DT, TypeError, "MaxPool2d; use nn.AvgPool2d or interop.SumPool2d"),
        (nn.BatchNorm2d(1), IMAGES, DT, TypeError, "fuse_conv_bn_eval"),
        (nn.Linear(6, 2), IMAGES, DT, ValueError, "put nn.Flatten before it"),
        (nn.Conv2d(1, 1, 3, padding=1, padding_mode="circular"), IMAGES, DT, ValueError, 'padding_mode .* "circular"'),
        (nn.AvgPool2d(2, ceil_mode=True), IMAGES, DT, ValueError, "AvgPool2d in NIR has neither ceil_mode"),
        (weight_norm(nn.Linear(3, 3)), X, DT, TypeError, "ParametrizedLinear: call .*remove_parametrizations"),
        (LI(tau_mem_inv=torch.tensor(90.0), dt=torch.tensor([1e-3, 2e-3, 1e-3])), X, DT, ValueError, "dt must be that"),
        (EulerIF(r=1.0, v_threshold=1.0, v_reset=None, dt=DT), X, DT, ValueError, "EulerIF has a soft reset"),
        (Twice(LIF(), 3), X, DT, TypeError, "NIR has no node for Twice"),
        (SKIPS, X, DT, ValueError, "output of Graph gets one signal twice, which NIR can't express"),
        (WIDTHS, X, DT, ValueError, r"signals added at output must have one shape, but have \[2\] and \[3\]"),
        (Scale(torch.ones(3, 1)), X, DT, ValueError, r"scale of model: .*of its scale, \[3, 1\], but it is \[3\]"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else None,
)
def test_what_cannot_be_written(model, example, dt, error, message):
    with pytest.raises(error, match=message):
        written(model, example, dt)


def node(kind="LIF", **changed):
    made = nir_neuron(nir, kind, (3,), 0)
    for name, value in changed.items():
        setattr(made, name, value)
    return made


def graph_of(nodes, edges, size=3):
    ends = {"input": nir.Input(input_type={"input": [size]}), "output": nir.Output(output_type={"output": [3]})}
    return nir.NIRGraph({**ends, **nodes}, edges, type_check=False)


def chain(*nodes, size=3):
    names = [str(i) for i in range(len(nodes))]
    row = ["input", *names, "output"]
    return graph_of(dict(zip(names, nodes, strict=True)), list(itertools.pairwise(row)), size)


def linear(weight):
    made = nir.Linear(weight=np.ones((3, 3)))
    made.weight = weight
    return made


LINEAR = nir.Linear(weight=np.ones((3, 3)))
THROUGH = [("input", "a"), ("a", "output")]


@pytest.mark.parametrize(
    "graph, message",
    [
        (chain(nir.Linear(weight=np.full((3, 3), np.nan))), "weight of node '0' of graph must be finite"),
        (chain(nir.Linear(weight=np.ones((2, 3, 3)))), r"weight must be a matrix \[out, in\]"),
        (chain(nir.Affine(np.ones((3, 3)), np.ones(2))), r"bias must be of shape \[3\], but its shape is \[2\]"),
        (chain(node(v_leak=np.zeros(1))), r"v_leak must have the shape of its input, but its shape is \[1\]"),
        (graph_of({"a": node()}, [*THROUGH, ("a", "output")]), "edges of graph must differ"),
        (chain(nir.Scale(scale=np.ones(1))), r"'0' of graph \(Scale\) .* must be that of its scale, \[1\], but it is"),
        (chain(nir.Linear(weight=np.broadcast_to(1.0, (3, 2**40)))), "size of all numbers of graph must be at most"),
        (
            chain(linear(np.full((3, 3), 1e300))),
            r"weight of node '0' of graph must fit into torch.float32, but it holds 1e\+300",
        ),
        (chain(linear("text")), "weight of node '0' of graph must be an array of numbers, but it is 'text'"),
        (chain(linear(np.full((3, 3), b"1"))), r"weight of node '0' .* an array of numbers, but it is of \|S1"),
        (chain(linear([[1], [1, 2]])), r"weight of node '0' .* an array of numbers, but it is \[\[1\], \[1, 2\]\]"),
        (chain(nir.Threshold(np.ones(3))), "the kind of node '0' of graph must be one of 'Input', .* is 'Threshold'"),
        (chain(node(tau=np.array(0.01))), r"'0' of graph \(LIF\) .*: tau must have one value per neuron"),
        (chain(node(v_threshold=np.full(3, -1.0))), "v_threshold of EulerLIF must be greater than v_reset"),
        (chain(node(tau=np.full(3, 1e-5))), "tau must be at least dt, 0.001 s, but it is 1e-05 s: take a smaller dt"),
        (chain(LINEAR, size=4), r"node '0' of graph \(Linear\) with input \[4\]"),
        (graph_of({"a": node()}, [*THROUGH, ("a", "b")]), "edge 'a' → 'b' of graph: there is no node 'b'"),
        (graph_of({"a": node(), "b": node()}, [*THROUGH, ("a", "b")]), "node 'b' of graph must be on a path"),
        (graph_of({"a": LINEAR}, [*THROUGH, ("a", "a")]), "loops of graph must be weights .* but there is a → a"),
        (graph_of({"a": LINEAR, "b": LINEAR}, [*THROUGH, ("a", "b"), ("b", "a")]), "loops of graph must be weights"),
        (graph_of({"a": node(), "c": nir.Input({"input": [3]})}, [*THROUGH, ("c", "a")]), "one input, but it has 2"),
    ],
)
def test_graphs_that_cannot_be_read(graph, message):
    with pytest.raises(ValueError, match=message):
        from_nir(graph, DT)


def test_a_graph_that_holds_itself():
    graph = graph_of({"a": LINEAR}, THROUGH)
    graph.nodes["a"] = graph
    with pytest.raises(ValueError, match="subgraph 'a' of graph must not hold itself"):
        from_nir(graph, DT)
    inner = graph_of({}, [("input", "output")])
    with pytest.raises(ValueError, match=r"loops of graph|its own input"):
        from_nir(graph_of({"a": inner, "b": LINEAR}, [("input", "a"), ("a", "b"), ("b", "output"), ("a", "a")]), DT)


def spoilt(path, change):
    nir.write(path, chain(node()))
    with h5py.File(path, "a") as file:
        change(file)


def text_for_numbers(file):
    del file["node/nodes/0/tau"]
    file["node/nodes/0/tau"] = "long"


def in_place_of(name, value, file):
    del file[f"node/{name}"]
    if value is None:
        file.create_group(f"node/{name}")
    else:
        file[f"node/{name}"] = value


def many_groups(file):
    group = file["node"]
    for _ in range(1500):
        group = group.create_group("x")


def elsewhere(file):
    file["node/nodes/0/more"] = h5py.ExternalLink("/dev/zero", "/")


@pytest.mark.parametrize(
    "change, message",
    [
        (text_for_numbers, "tau of node '0' must be numbers, but its dtype is object"),
        (many_groups, "groups in .* must be nested at most 100 deep"),
        (elsewhere, "must hold its own contents, but its more is in another file"),
        (lambda file: file["node/nodes/0"].create_dataset("metadata", data=3), None),
        (
            partial(in_place_of, "edges", "x"),
            r"edges of 'graph' must be pairs of names \[n, 2\], but their shape is \(\)",
        ),
        (
            partial(in_place_of, "nodes/0/tau", h5py.Empty("f4")),
            "tau of node '0' must be numbers, but it is empty or a",
        ),
        (partial(in_place_of, "nodes/0/tau", None), "tau of node '0' must be numbers, but it is empty or a group"),
        (lambda file: file["node/nodes/0"].__delitem__("type"), "node '0' has no type"),
    ],
    ids=["text", "groups", "link", "metadata", "edges", "empty", "group", "no type"],
)
def test_files_that_hold_something_else(tmp_path, change, message):
    spoilt(tmp_path / "net.nir", change)
    if message is None:
        assert from_nir(tmp_path / "net.nir", DT)
        return
    with pytest.raises(ValueError, match=message):
        from_nir(tmp_path / "net.nir", DT)


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.nir")
    with pytest.raises(ValueError, match="is no regular file"):
        from_nir(tmp_path / "pipe.nir", DT)


def test_files_that_are_none(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        from_nir(tmp_path / "missing.nir", DT)
    (tmp_path / "text.nir").write_text("no HDF5")
    with pytest.raises(ValueError, match=r"text.nir' can't be read as a NIR graph"):
        from_nir(tmp_path / "text.nir", DT)
    with h5py.File(tmp_path / "other.nir", "w") as file:
        file["numbers"] = np.arange(3)
    with pytest.raises(ValueError, match="can't be read as a NIR graph"):
        from_nir(str(tmp_path / "other.nir"), DT)
    nir.write(tmp_path / "net.nir", chain(node()))
    with h5py.File(tmp_path / "net.nir", "a") as file:
        del file["node/nodes/0/type"]
        file["node/nodes/0/type"] = "Nonsense"
    with pytest.raises(ValueError, match="a node of a kind that the package nir does not know"):
        from_nir(tmp_path / "net.nir", DT)


def test_a_file_that_announces_more_than_it_has_is_refused_before_it_is_read(tmp_path):
    nir.write(tmp_path / "net.nir", chain(node()))
    with h5py.File(tmp_path / "net.nir", "a") as file:
        file.create_dataset("node/nodes/0/more", (2**38,), "f4", chunks=True)
    with pytest.raises(ValueError, match=r"can't be read as a NIR graph: the size of .*net\.nir must be at most"):
        from_nir(tmp_path / "net.nir", DT)


def test_the_package_is_imported_when_it_is_needed_and_without_it_the_error_says_what_to_install():
    code = (
        "import sys, torch; from snnkit import interop, neuron\n"
        "print('nir' in sys.modules, 'h5py' in sys.modules)\n"
        "sys.modules['nir'] = None\n"
        "calls = ((interop.to_nir, neuron.IF(), torch.zeros(1, 1, 1), 1e-3), (interop.from_nir, 'x', 1e-3))\n"
        "for function, *arguments in calls:\n"
        "    try: function(*arguments)\n"
        "    except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("False False") and done.stdout.count('pip install "snnkit[nir] @ git+') == 2
