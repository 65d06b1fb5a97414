"""One example of each figure of the kit, by its name: what the tests of all figures go through."""

import torch

from snnkit import nn, records
from snnkit.lab.hardware import roofline
from snnkit.lab.hardware.scaling import Measured
from snnkit.lab.viz import figures
from snnkit.lab.viz.figures import Marked
from snnkit.neuron import LI, LIF

from .test_viz_benchmarks import made

T, N = 20, 6
SPIKES = (torch.arange(T * N).reshape(T, N) % 5 == 0).float()
V = torch.linspace(0, 1, T)
IMAGE = torch.arange(64).reshape(8, 8) / 63
EVENTS = (torch.arange(4 * 2 * 8 * 8).reshape(4, 2, 8, 8) % 7 == 0).float()


def _demo():
    """A record of ``snnkit bench demo`` with made-up times."""
    row = {"mode": "training", "p10_s": 1e-3, "p90_s": 2e-3, "over_floor": 2.0, "model": "mlp", "dtype": "float32"}
    rows = [
        row | {"device": where, "batch": batch, "samples_per_s": 10.0 * batch**power}
        for where, power in (("cpu", 0.2), ("cuda", 0.9))
        for batch in (1, 32)
    ]
    return {"kind": "demo", "provenance": {"device": {"name": "Some GPU"}, "cpu": "Some CPU"}, "rows": rows}


def _supersteps():
    product = {"name": "mm", "kind": "matmul", "phase": "forward", "reads": 8e5, "writes": 4e5, "numel": 100_000}
    return figures.supersteps(roofline.Work("w", 1, (), (), 0, 0, 0), [roofline.Operation(**product)] * 2)


def recorded(states=True):
    """What two layers and a readout did."""
    net = nn.Sequential(LIF(), nn.Recurrent(LIF(v_threshold=0.3), N), LI())
    with torch.no_grad(), nn.recording(net, states=states) as rec:
        net(2 * SPIKES.reshape(T, 1, N).roll(1, 2) + V[:, None, None])
    return rec


EXAMPLES = {
    "accuracy_over_time": lambda: figures.accuracy_over_time({"from 0": V, "from half": V**0.5}, ann=0.97),
    "coded_image": lambda: figures.coded_image(IMAGE, (IMAGE.flatten() > torch.rand(5, 64)).float(), IMAGE / 2),
    "compared_spikes": lambda: figures.compared_spikes(torch.linspace(0, 1, N), SPIKES, SPIKES.roll(1, 0)),
    "comparison": lambda: figures.comparison(made()),
    "lines": lambda: figures.lines(
        {"a": V, "law": V**2}, x=V, x_title="x", y_title="loss", title="Lines", faint=["law"], levels={"guess": 0.7}
    ),
    "scaling_efficiency": lambda: figures.scaling_efficiency([Measured(1, 0.1), Measured(2, 0.11)], cores=1),
    "event_cloud": lambda: figures.event_cloud(EVENTS, dt=1e-3),
    "image_grid": lambda: figures.image_grid(IMAGE.expand(10, 1, 8, 8), torch.arange(10), columns=4),
    "confusion": lambda: figures.confusion(torch.eye(4) * 7 + 1),
    "gallery": lambda: figures.gallery({"a": (V, SPIKES[:, 0]), "b": (V**2, SPIKES[:, 1])}),
    "traces": lambda: figures.traces({"a": V, "b": V / 2}, {"b": SPIKES[:, 1]}, threshold=0.9, current=V),
    "pareto": lambda: figures.pareto(
        {"HIDDEN": [8, 8, 16, 16, 32, 32], "SEED": [0, 1] * 3, "acc": [0.7, 0.8, 0.95, 0.9, 0.9, 0.7], "n": range(6)},
        maximise="acc", minimise="n", seeds="SEED",
    ),
    "per_neuron_step": lambda: figures.per_neuron_step({"theirs": records.load("spikingjelly_rtx2080ti")}),
    "races": lambda: figures.races(records.load("cpu_epyc_1thread")),
    "rate_histogram": lambda: figures.rate_histogram(V),
    "device_rates": lambda: figures.device_rates(_demo()),
    "training_rates": lambda: figures.training_rates(records.load("training_cpu_epyc_1thread")),
    "break_even": lambda: figures.break_even(records.load("sparsity_cpu_epyc_1thread")),
    "framework_ratios": lambda: figures.framework_ratios(records.load("frameworks_cpu_epyc_1thread")),
    "roofline": lambda: figures.roofline([figures.Run("loop", 8e6, 1e8, 2e-2)], 1e10, 4e10),
    "shares": lambda: figures.shares({"before": {"conv": 6.0, "rest": 2.0}, "after": {"conv": 3.0}}, "ms"),
    "spans": lambda: figures.spans({"rank 0": [("forward", 0, 2), ("backward", 2, 5)], "net": [("send", 4, 5)]}),
    "raster": lambda: figures.raster(SPIKES),
    "recording": lambda: figures.recording(recorded()),
    "marked": lambda: figures.marked(
        [Marked("a net", "predicted", 2.0, 1.0, 4.0), Marked("a net", "measured", 3.0, 2.9, 3.1)], "ms", title="Both",
    ),
    "supersteps": _supersteps,
}  # fmt: skip
# In the namespace of the figures, but what figures are made of.
PARTS = {"panels", "spacing", "Marked", "Run"}
