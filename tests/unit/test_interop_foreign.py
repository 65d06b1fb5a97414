"""Files of other programs and of earlier times: what they do not say, and what is said about it."""

import warnings

import numpy as np
import pytest
import torch

nir, h5py = pytest.importorskip("nir"), pytest.importorskip("h5py")

from snnkit.interop import InexactWarning, from_nir  # noqa: E402
from tests.unit.nir_cases import DT, quick, run  # noqa: E402


def each(value, shape=(2,)):
    return np.full(shape, value)


def lif(**changed):
    return nir.LIF(**{"tau": each(4e-3), "r": each(4.0), "v_leak": each(0.0), "v_threshold": each(1.0), **changed})


NEURONS = {
    "IF": lambda: nir.IF(r=each(1 / DT), v_threshold=each(1.0)),
    "LIF": lif,
    "CubaLIF": lambda: nir.CubaLIF(each(2e-3), each(4e-3), each(4.0), each(0.0), each(1.0), w_in=each(0.6)),
}


def file_of(path, *nodes, version="0.2.0", output=(2,), resets=False):
    """As nir wrote it before 1.0.6: without ``v_reset``."""
    graph = nir.NIRGraph.from_list(*nodes)
    graph.nodes["output"].output_type = {"output": np.array(output)}
    graph.output_type = {"output": np.array(output)}
    nir.write(path, graph)
    with h5py.File(path, "a") as file:
        del file["version"]
        file["version"] = version
        for node in file["node/nodes"].values():
            if "v_reset" in node and not resets:
                del node["v_reset"]
        for node, shape in (("output", output),):
            del file[f"node/nodes/{node}/shape"]
            file[f"node/nodes/{node}/shape"] = np.array(shape)
    return path


def loaded(path, dt=DT, **options):
    """The network, and what was said."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        net = from_nir(path, dt, **options)
    assert all(warning.filename == __file__ for warning in said), "a warning points at the call"
    return quick(net), [(warning.category, str(warning.message)) for warning in said]


@pytest.mark.parametrize("kind", NEURONS)
def test_the_reset_of_files_that_do_not_say_it(tmp_path, kind):
    path = file_of(tmp_path / "net.nir", NEURONS[kind](), version="1.0.5")
    x = torch.full((12, 1, 2), 0.9, dtype=torch.float64)
    zero, said = loaded(path, dtype=torch.float64)
    ((category, message),) = said
    name = kind.lower()
    assert category is InexactWarning
    assert f"graph does not say how neurons are reset ({name})" in message and 'reset="subtract"' in message
    spikes = {}
    for reset in ("zero", "subtract"):
        net, said = loaded(path, reset=reset, dtype=torch.float64)
        assert not said
        spikes[reset] = run(net, x)
    assert torch.equal(run(zero, x), spikes["zero"])
    assert spikes["subtract"].sum() > spikes["zero"].sum() > 0
    v, wanted = 0.0, []  # of the IF, by hand
    for value in x[:, 0, 0].tolist():
        v += value
        wanted.append(float(v > 1))
        v -= wanted[-1]
    assert kind != "IF" or spikes["subtract"][:, 0, 0].tolist() == wanted


def test_a_reset_that_is_given_though_the_file_says_it(tmp_path):
    path = file_of(tmp_path / "net.nir", lif(v_reset=each(-0.1)), version="1.0.8", resets=True)
    assert loaded(path)[1] == []
    net, said = loaded(path, reset="subtract")
    assert net[0].v_reset == pytest.approx(-0.1)
    assert [category for category, _ in said] == [UserWarning] and 'reset="subtract" changes nothing' in said[0][1]
    graph = nir.read(path)
    graph.nodes["lif"].v_reset = None  # left open by hand
    assert from_nir(graph, DT, reset="subtract")[0].v_reset is None
    with pytest.raises(TypeError, match="reset must be 'zero' or 'subtract' or None, but it is 'soft'"):
        from_nir(graph, DT, reset="soft")


def test_an_output_of_another_shape_is_ignored(tmp_path):
    """As Rockpool writes it: [1, 1, N] behind N neurons."""
    path = file_of(tmp_path / "net.nir", lif(v_reset=each(0.0)), version="1.0.8", output=(1, 1, 2), resets=True)
    net, said = loaded(path)
    assert said == [(UserWarning, "the output of graph is of shape [2]; [1, 1, 2] of its node is ignored")]
    assert run(net, torch.ones(3, 1, 2)).shape == (3, 1, 2)
    graph = nir.NIRGraph.from_list(lif())
    graph.nodes["output"].output_type = {"output": None}
    assert run(from_nir(graph, DT), torch.ones(3, 1, 2)).shape == (3, 1, 2)


def test_a_file_from_before_nir_1(tmp_path):
    path = file_of(tmp_path / "net.nir", lif())
    _, said = loaded(path, reset="zero")
    assert said == [
        (
            UserWarning,
            f"graph: {str(path)!r} is from before nir 1.0: its version is 0.2.0. Compare its spikes with those of its "
            "author",
        )
    ]
    ends = {"input": nir.Input({"input": [2]}), "output": nir.Output({"output": [2]})}
    inner = nir.NIRGraph.from_list(lif())
    nir.write(path, nir.NIRGraph({**ends, "sub": inner}, [("input", "sub"), ("sub", "output")]))
    with h5py.File(path, "a") as file:  # as in two files of the NIR paper
        file["node/nodes/sub/edges"][0] = ("input", "other")
        file["version"][()] = "0.2.0"
    with pytest.raises(ValueError, match=r"'other' which does not exist.*\(it is from before nir 1.0: its version"):
        from_nir(path, DT)


@pytest.mark.parametrize(
    "neuron, gain, dt, silent",
    [
        (nir.IF(r=each(1.0), v_threshold=each(1.0), v_reset=each(0.0)), 1.8, 1e-3, True),  # as Sinabs writes it
        (nir.IF(r=each(1.0), v_threshold=each(1.0), v_reset=each(0.0)), 1.8, 1.0, False),
        (lif(v_reset=each(0.0)), 1.0, 1e-3, False),
        (lif(v_reset=each(0.0)), 1.0, 1e-6, True),
        (lif(v_reset=each(0.0)), 100.0, 1e-5, False),
        (lif(v_reset=each(0.0), v_leak=each(1.2)), 1.0, 1e-6, False),  # fires without any input
        (nir.CubaLIF(*map(each, (2e-4, 1e-3, 10.0, 0.0, 1.0, 0.0, 2.2))), 1.0, 1e-4, False),  # of the NIR paper
        (nir.CubaLIF(*map(each, (2e-4, 1e-3, 10.0, 0.0, 1.0, 0.0, 2.2))), 1.0, 1e-7, True),
        (nir.LI(each(2e-2), each(1e-3), each(0.0)), 1.0, 1e-6, False),  # has no threshold
    ],
)
def test_a_step_too_short_for_any_spike(neuron, gain, dt, silent):
    graph = nir.NIRGraph.from_list(nir.Linear(np.array([[gain, 0.1], [-0.2, 0.3]])), neuron)
    _, said = loaded(graph, dt)
    assert len(said) == silent
    if silent:
        ((category, message),) = said
        assert category is InexactWarning and f"in a step of dt = {dt:.3g} s, one spike" in message
        assert "at most 0.0018 of the way" in message or gain != 1.8


@pytest.mark.parametrize("dtype", [">f4", ">f8", "<f8", np.longdouble, np.float16])
def test_weights_of_any_precision_and_byte_order(dtype):
    weight = np.linspace(-1, 1, 6).reshape(2, 3).astype(np.float16).astype(dtype)
    found = from_nir(nir.NIRGraph.from_list(nir.Affine(weight, weight[:, 0])), 1e-3)
    (layer,) = (module for module in found.modules() if isinstance(module, torch.nn.Linear))
    assert torch.equal(layer.weight, torch.tensor(weight.astype(float)).float())
    assert torch.equal(layer.bias, layer.weight[:, 0])
