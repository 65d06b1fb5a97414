"""The scaling model: the arithmetic of its parts, known answers, bad input."""

import pytest

from snnkit.lab.hardware import scaling
from snnkit.lab.hardware.scaling import Cluster, Link, Workload, all_reduce_s, fit_link, predict

MEBI = 2**20
SLOW = Link("slow", 1e9, 1e-3, "made up")
FAST = Link("fast", 100e9, 1e-6, "made up")
PAIR = Cluster("pair", ranks_per_node=4, inside=FAST, between=SLOW, nodes=2, source="made up")
HALL = Cluster(
    "hall", ranks_per_node=4, inside=FAST, between=SLOW, adapters=2, nodes=1024, source="made up", start=1e-4
)
WORK = Workload("net", samples=256, step_s=0.1, gradient_bytes=8 * MEBI)


def made(**settings):
    return scaling.this_machine(2, link=Link("loop", 1e9, 1e-4, "made up")).with_settings(**settings)


def test_a_ring_on_one_node_takes_its_steps_and_its_bytes():
    # Four ranks: six steps of a quarter each.
    assert all_reduce_s(4e6, PAIR, 4) == pytest.approx(6 * (1e-6 + 1e6 / 100e9))
    assert all_reduce_s(4e6, PAIR, 3) == pytest.approx(4 * (1e-6 + 4e6 / 3 / 100e9))
    assert all_reduce_s(4e6, PAIR, 1) == 0.0
    assert all_reduce_s(0, HALL, 2) == pytest.approx(1e-4 + 2 * 1e-6)  # each pays its start


def test_two_nodes_add_what_crosses_the_network_once_for_each_node():
    inside = 6 * (1e-6 + 1e6 / 100e9)
    # Each of two nodes sends S in all, through its one adapter.
    assert all_reduce_s(4e6, PAIR, 8) == pytest.approx(inside + 2 * 1e-3 + 4e6 / 1e9)
    two = PAIR.with_settings(adapters=2)
    assert all_reduce_s(4e6, two, 8) == pytest.approx(inside + 2 * 1e-3 + 4e6 / 2e9)
    # A rank that is alone on its node drives one adapter, whatever else is in the box.
    lone = Cluster("lone", ranks_per_node=1, inside=FAST, between=SLOW, adapters=2, nodes=2, source="made up")
    assert all_reduce_s(4e6, lone, 2) == pytest.approx(2 * 1e-3 + 4e6 / 1e9)


def test_between_many_nodes_a_tree_takes_over_from_the_ring():
    def across(size, nodes):
        return all_reduce_s(size, HALL, 4 * nodes) - all_reduce_s(size, HALL, 4)

    # The tree: 2 log2 levels, up and down, with a chunk of 256 KiB each, then the data over two adapters at 90 %.
    assert across(0, 1024) == pytest.approx(2 * 10 * 1e-3)
    assert across(8e6, 32) == pytest.approx(10 * (1e-3 + 2**18 / 1e9) + 31 / 16 * 8e6 / 2e9 / 0.9)
    assert across(1e9, 2) == pytest.approx(2 * 1e-3 + 1e9 / 2e9)  # the ring


def test_the_catalogue_comes_close_to_what_somebody_measured():
    # NVIDIA/nccl issue 1048: two nodes with eight A100 and four HDR200 adapters reach 86 GB/s of "bus bandwidth", which
    # is 2 (n - 1) / n bytes over the time. NCCL's ring goes through all ranks, so the model is the faster one.
    nodes = Cluster(
        "two", ranks_per_node=8, inside=scaling.LINKS["nvlink3"], between=scaling.LINKS["infiniband-hdr200"],
        adapters=4, nodes=2, source="issue 1048",
    )  # fmt: skip
    bus = 2 * 15 / 16 * 4e9 / all_reduce_s(4e9, nodes, 16)
    assert 86e9 <= bus < 1.25 * 86e9


def test_one_bucket_waits_until_backward_is_over_and_is_not_hidden():
    work = Workload("net", 256, 0.1, MEBI)
    p = predict(work, PAIR, 8)
    assert p.exposed_s == pytest.approx(all_reduce_s(MEBI, PAIR, 8))
    assert p.efficiency == pytest.approx(0.1 / (0.1 + p.exposed_s)) and p.samples_per_s == 8 * 256 / p.step_s


def test_where_the_network_is_the_slower_one_buckets_queue():
    p = predict(Workload("net", 256, 0.03, 51 * MEBI), PAIR, 8)
    queue = 0.02 / 51 + all_reduce_s(MEBI, PAIR, 8)
    for ready in (26 / 51, 1.0):
        queue = max(queue, 0.02 * ready) + all_reduce_s(25 * MEBI, PAIR, 8)
    assert p.exposed_s == pytest.approx(queue - 0.02)


def test_without_hardware_for_it_nothing_is_hidden():
    work = Workload("net", 256, 1.0, 51 * MEBI)
    busy = predict(work, PAIR.with_settings(overlap=0.0), 8)
    assert busy.exposed_s == pytest.approx(2 * all_reduce_s(25 * MEBI, PAIR, 8) + all_reduce_s(MEBI, PAIR, 8))
    half = predict(work, PAIR.with_settings(overlap=0.5), 8)
    assert half.exposed_s == pytest.approx((busy.exposed_s + predict(work, PAIR, 8).exposed_s) / 2)


def test_ranks_that_share_cores_take_turns_and_get_into_each_others_way():
    assert [scaling.slowdown(made(), n) for n in (1, 2, 3, 4)] == [1.0, 1.0, 1.5, 2.0]
    assert [scaling.slowdown(made(sharing=0.1), n) for n in (1, 2, 4)] == pytest.approx([1.0, 1.1, 2.2])
    assert scaling.slowdown(PAIR.with_settings(sharing=0.1), 3) == pytest.approx(1.2)


def test_weak_scaling_keeps_a_ranks_batch_and_strong_scaling_that_of_all():
    weak, strong = (predict(WORK, PAIR, 8, scaling=how) for how in ("weak", "strong"))
    assert (weak.samples, strong.samples) == (8 * 256, 256)
    assert strong.compute_s == pytest.approx(0.1 / 8)
    assert weak.compute_s == 0.1
    assert strong.efficiency < weak.efficiency
    # What doesn't shrink with the batch limits the speed-up (Amdahl 1967): here to two.
    half = predict(Workload("net", 256, 0.1, 1, fixed_s=0.05), PAIR, 8, scaling="strong")
    assert half.compute_s == pytest.approx(0.05 + 0.05 / 8)
    assert 8 * half.efficiency < 2


def test_a_link_is_found_from_all_reduces():
    loop = made()
    sizes = (2**10, 2**16, 2**24)
    measured = [(n, size, all_reduce_s(size, loop, n)) for n in (2, 4) for size in sizes]
    found = fit_link("loop", measured, "these")
    assert found.bandwidth == pytest.approx(1e9)
    assert found.latency == pytest.approx(1e-4)
    assert found.source == "these"


def test_every_figure_has_its_source():
    for name, link in scaling.LINKS.items():
        assert name == link.name
        assert link.source.startswith("measured by") or ("bandwidth:" in link.source and "latency:" in link.source)
    assert scaling.LINKS["ethernet-10g"].bandwidth == pytest.approx(1.177e9, rel=1e-3)
    juwels = scaling.JUWELS_BOOSTER
    assert (juwels.nodes, juwels.ranks_per_node, juwels.adapters) == (936, 4, 4) and "https://" in juwels.source
    assert juwels.placed(8) == (2, 4) and juwels.placed(3) == (1, 3)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: PAIR.with_settings(between=None), "between must be a Link where there are 2 nodes"),
        (lambda: predict(WORK, PAIR, 9), "ranks on pair must be at most 8"),
        (lambda: predict(WORK, PAIR, 7, scaling="strong"), "ranks must share 256 samples evenly"),
        (lambda: fit_link("loop", [(2, 8, 1.0), (4, 8, 2.0)], "these"), "two sizes"),
        (lambda: fit_link("loop", [(2, 8, 1.0), (2, 8000, 0.5)], "these"), "longer for more bytes"),
        (lambda: fit_link("loop", [(1, 8, 1.0), (1, 16, 2.0)], "these"), "two sizes"),
    ],
)
def test_what_can_not_be_is_named(call, words):
    with pytest.raises((TypeError, ValueError), match=words):
        call()
