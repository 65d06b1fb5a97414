"""The references of the exercises are what the notebooks' text and the library say."""

import math

import polars
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from snnkit import encode, loss, plasticity
from snnkit.data import events
from snnkit.lab import challenge
from snnkit.lab.course import (
    exercises,
    grade,
    notebooks,
)
from snnkit.lab.exercises import (
    conv_snn,
    encodings,
    event_data,
    first_spiking_neuron,
    fused_neurons,
    ipu_cuda,
    local_learning,
    memory_precision_batching,
    microspike,
    moving_house,
    open_challenge,
    scaling_out,
    surrogate_gradients,
    sweeps,
    train_your_first_network,
)
from snnkit.lab.hardware import scaling
from snnkit.measure.traffic import Traffic
from snnkit.neuron import LIF, Leaky
from snnkit.neuron.base import MembraneState
from snnkit.nn import time_batched
from snnkit.surrogate import ATan, Triangle
from snnkit.train import slurm
from tests.course.answers.moving_house import _InTheWay
from tests.course.answers.scaling_out import BROKEN, repaired
from tests.course.answers.train_your_first_network import recipe

PLOTTED = [e for notebook in notebooks() for e in exercises(notebook) if e.plot is not None]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("exercise", PLOTTED, ids=lambda e: e.key)
def test_references_can_be_drawn(exercise):
    assert len(exercise.plot(exercise.reference, exercise.reference).data) >= 2


@pytest.mark.parametrize("v_reset", [0.0, None])
def test_01_the_steps_are_those_of_the_library(v_reset):
    x = torch.rand(60, 4, generator=seeded()) * 3
    v, spikes = torch.zeros(4), []
    for x_t in x:
        spike, v = first_spiking_neuron.fire(first_spiking_neuron.lif_step(x_t, v, 5.0), 1.0, v_reset)
        spikes.append(spike)
    wanted, state = LIF(tau=5.0, v_reset=v_reset)(x)
    assert torch.equal(torch.stack(spikes), wanted) and wanted.sum() > 5
    torch.testing.assert_close(v, state.v)


def test_01_the_population_is_a_neuron_of_the_library():
    x = (torch.rand(40, 3, 4, generator=seeded()) * 0.5).requires_grad_()
    wanted, state = LIF(tau=4.0, v_reset=None, decay_input=False)(x)
    spikes, v = first_spiking_neuron.population(x, 0.75, ATan(2.0))
    assert torch.equal(spikes, wanted) and wanted.sum() > 5
    torch.testing.assert_close(v, state.v)


@pytest.mark.parametrize("alpha", [0.5, 50.0])
def test_02_the_slope_is_the_surrogate_of_the_library(alpha):
    u = torch.linspace(-3, 3, 61, dtype=torch.float64)
    torch.testing.assert_close(
        surrogate_gradients.gradient(surrogate_gradients.MySpike, u, alpha), ATan(alpha).derivative(u)
    )


def test_02_the_triangle_is_a_surrogate_of_the_library():
    u = torch.linspace(-3, 3, 61).requires_grad_()
    (slope,) = torch.autograd.grad(surrogate_gradients.spike(u, 0.8).sum(), u)
    torch.testing.assert_close(slope, Triangle(1 / 0.8).derivative(u.detach()))


def test_03_the_codes_are_those_of_the_library():
    x = torch.linspace(0, 1, 65).view(5, 13)
    torch.testing.assert_close(encodings.latency_encode(x, 17), encode.latency(x, 17, linear=True))
    poisson = encode.poisson(x, 17, generator=seeded(3))
    torch.testing.assert_close(encodings.poisson_encode(x, 17, seeded(3)), poisson)


def test_04_the_loss_is_the_librarys_and_a_step_is_told_in_order():
    spikes, labels = (torch.rand(7, 5, 10, generator=seeded()) < 0.3).float(), torch.arange(5)
    torch.testing.assert_close(
        train_your_first_network.count_cross_entropy(spikes, labels), loss.count_cross_entropy(spikes, labels)
    )
    assert (
        grade("train_your_first_network.2", recipe("back", "zero", "step")).yours
        == "forward → backward → zero_grad → step"
    )


def test_05_a_moved_state_goes_on_and_the_last_check_sees_spikes():
    x, cell = torch.rand(8, 2, 3), LIF()
    _, middle = cell(x[:4])
    torch.testing.assert_close(cell(x[4:], moving_house.move_state(middle, "cpu"))[0], cell(x)[0][4:])
    net = moving_house.NestedSNN((6, 5, 3), torch.arange(1.0, 7.0))
    x, spikes = moving_house.lively(net), []
    for cell in net.cells:
        cell.register_forward_hook(lambda _, __, result: spikes.append(result[0]))
    net(x)
    assert len(spikes) == 2 and all(0.1 < layer.mean() < 0.9 for layer in spikes)
    assert "register_buffer" in grade("moving_house.2", _InTheWay).message
    assert moving_house.pack_light(torch.zeros(2, 1, 8, 8, dtype=torch.uint8), 7, "cpu").stride(0) == 0


def test_06_bytes_are_those_that_were_watched():
    assert fused_neurons.bytes_moved([], 4, 4) == (0, 8, 20) and fused_neurons.bytes_moved([], 2, 2) == (0, 4, 10)
    with Traffic() as seen:
        LIF(engine="eager").step(torch.rand(1), MembraneState(torch.zeros(1)))
    assert fused_neurons.bytes_moved(seen.kernels)[0] == seen.bytes > 80


@pytest.mark.parametrize("static", [False, True])
def test_07_the_price_is_that_of_pytorch(static):
    layer = torch.nn.Conv2d(3, 5, 3, padding=1, device="meta")
    x = encode.repeat(torch.zeros(1, 3, 6, 7, device="meta"), 4)
    with FlopCounterMode(display=False) as counter:
        time_batched(layer, x if static else x.contiguous())
    assert conv_snn.conv_flops(3, 5, 3, 6, 7, steps=4, static=static) == counter.get_total_flops()


@pytest.mark.parametrize(("samples", "size"), [(8, 2), (7, 3), (5, 8)])
def test_08_parts_leave_the_gradient_of_the_whole_batch(samples, size):
    net, diary, x, y = memory_precision_batching._task(samples)
    whole = memory_precision_batching._mean_loss(net(x)[0], y)
    (want,) = torch.autograd.grad(whole, diary.linear.weight)
    given = memory_precision_batching.accumulate(net, memory_precision_batching._mean_loss, x, y, size)
    assert torch.allclose(diary.linear.weight.grad, want, atol=1e-6) and given == pytest.approx(whole.item(), rel=1e-5)


def test_09_three_mistakes_are_planted_and_the_line_is_named():
    assert sorted(problem.rule for problem in slurm.check(BROKEN)) == ["devices", "port", "signal"]
    assert slurm.check(scaling_out.REPAIRED) == []
    outcome = grade("scaling_out.3", repaired(("=02:00:00", "=02:00")))
    assert "--signal" in outcome.yours and "line 10" in outcome.inputs


@pytest.mark.parametrize("ranks", [1, 7, 512])
def test_09_the_ring_is_that_of_the_scaling_model(ranks):
    link = scaling.Link("a link", 2e9, 5e-6, "made up")
    one_node = scaling.Cluster("a node", ranks_per_node=512, inside=link, between=None, source="made up")
    assert scaling_out.ring_seconds(ranks, 3e7, 5e-6, 2e9) == pytest.approx(scaling.all_reduce_s(3e7, one_node, ranks))


def test_10_neuron_and_spike_train_as_the_library_does():
    weights, smooth = torch.randn(5, 6, generator=seeded(1)), ATan().primitive
    x, mem, count = torch.randn(3, 6, generator=seeded(2)) * 2, torch.zeros(3, 5), torch.zeros(())
    w, v = weights.clone().requires_grad_(), weights.clone().requires_grad_()
    for _ in range(8):
        fired, mem = ipu_cuda.leaky(mem, x @ w.T, lambda u: ipu_cuda.spike(u, smooth))
        count = count + fired
    out, _ = Leaky(0.9, surrogate=ATan(), engine="eager")((x @ v.T).expand(8, 3, 5))
    assert torch.equal(count, out.sum(0)) and count.any()
    grads = [torch.autograd.grad((c * torch.arange(5)).sum(), p)[0] for c, p in ((count, w), (out.sum(0), v))]
    torch.testing.assert_close(*grads, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("bound", "mu"), [("hard", 0.0), ("soft", 1.0)])
def test_11_a_step_and_its_bounds_are_the_rule_of_the_library(bound, mu):
    rule = plasticity.PairSTDP(a_plus=0.2, a_minus=0.25, tau_plus=10e-3, tau_minus=30e-3, bound=bound)
    pre, post = (torch.rand(200, n, generator=seeded(n)).lt(0.1).double() for n in (6, 4))
    start = w = torch.rand(4, 6, generator=seeded()).double()
    x, y = torch.zeros(6).double(), torch.zeros(4).double()
    for pre_t, post_t in zip(pre, post, strict=True):
        x, y, increase, decrease = local_learning.stdp_step(pre_t, post_t, x, y, math.exp(-0.1), math.exp(-1 / 30))
        w = local_learning.bounded(w, rule.a_plus * increase, rule.a_minus * decrease, mu)
    want, _ = rule.run(pre[:, None], post[:, None], start)
    assert torch.allclose(w, want, rtol=0, atol=1e-12) and (want - start).abs().max() > 1e-2


def test_11_the_build_is_the_rule_of_the_library():
    rule = plasticity.PairSTDP(a_plus=0.2, a_minus=0.25, tau_plus=10e-3, tau_minus=10e-3)
    pre, post = (torch.rand(200, n, generator=seeded(n)).lt(0.1).double() for n in (6, 4))
    start = torch.rand(4, 6, generator=seeded()).double()
    w, traces = local_learning.stdp(pre[:80], post[:80], start, 10.0, 0.2, 0.25)
    w, _ = local_learning.stdp(pre[80:], post[80:], w, 10.0, 0.2, 0.25, traces)
    want, _ = rule.run(pre[:, None], post[:, None], start)
    assert torch.allclose(w, want, rtol=0, atol=1e-12) and (want - start).abs().max() > 1e-2


def test_11_labels_are_assigned_as_the_library_does():
    counts = torch.rand(60, 30, generator=seeded()).lt(0.05).float()
    counts[:, 3], labels = 0, torch.randint(9, (60,), generator=seeded(1))
    want = plasticity.assign_labels(counts, labels, 10)
    assert (
        torch.equal(local_learning.assign_labels(counts, labels, 10), want)
        and (want == -1).any()
        and len(want.unique()) > 5
    )


@pytest.mark.parametrize("window", [1, 700, 20_000])
def test_12_counts_are_those_of_the_library(window):
    recording = event_data.drawn(500, (7, 9), 10_000, seed=5)
    assert torch.equal(event_data.count_events(recording, window), events.to_frames(recording, window=window))


def test_12_a_witness_is_another_pixel_beside_and_not_long_before():
    recording = event_data.drawn(200, (6, 5), 9000, seed=7)
    t, x, y = (getattr(recording, name).tolist() for name in "txy")
    want = [
        any(0 <= t[i] - t[j] <= 400 and max(abs(x[i] - x[j]), abs(y[i] - y[j])) == 1 for j in range(i))
        for i in range(len(t))
    ]
    assert event_data.supported(recording, 400).tolist() == want and 0 < sum(want) < len(want)


def test_08_and_21_score_and_front_are_those_of_the_challenge():
    net = challenge.reference("thrifty")
    seen = challenge.evaluate(net, *challenge.samples(300, seed=8))
    value, error = open_challenge.score_of(seen.correct, seen.counts, challenge.PRICE)
    assert value == pytest.approx(seen.accuracy - challenge.PRICE * seen.spikes, abs=1e-6)
    assert error == pytest.approx(challenge.reference_score("thrifty").error * (2000 / 300) ** 0.5, rel=0.4)
    columns, _ = challenge.recorded_sweep()
    table = polars.DataFrame(columns)
    mine = sweeps.front(columns["accuracy"], columns["spikes"])
    beaten = [
        ((table["accuracy"] >= a) & (table["spikes"] <= s) & ((table["accuracy"] > a) | (table["spikes"] < s))).any()
        for a, s in table.select("accuracy", "spikes").rows()
    ]
    assert sorted(mine) == [i for i, one in enumerate(beaten) if not one]
    accuracy, spikes = (torch.tensor(columns[name], dtype=torch.float64) for name in ("accuracy", "spikes"))
    for price in torch.logspace(-5, 0, 20, dtype=torch.float64):  # whatever a spike costs, the winner is on the front
        assert int((accuracy - price * spikes).argmax()) in mine


def test_05_is_a_neuron_of_the_library():
    x = (torch.rand(40, 3, 4, generator=seeded()) * 0.5).requires_grad_()
    feedback = torch.zeros(4, 4, requires_grad=True)
    wanted, _ = Leaky(0.75)(x)
    assert torch.equal(microspike.recurrent(x, feedback, 0.75), wanted) and wanted.sum() > 5
