"""Memory of large results is used again, and nobody ever sees a block that is still in use."""

import gc
import multiprocessing
import os
import platform
import random
import subprocess
import sys
import threading

import psutil
import pytest
import torch

from snnkit import engine, neuron
from snnkit.engine import page_pool
from snnkit.engine.page_pool import SMALLEST, PagePool

MIB = 1 << 20


@pytest.fixture
def pool():
    return PagePool(64 * MIB)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.uint8])
def test_a_block_goes_from_one_tensor_to_the_next(pool, dtype):
    count = 3 * MIB // dtype.itemsize
    with torch.device("meta"):  # whatever the default is
        first = pool.empty((3, count // 3), dtype)
    assert first.shape == (3, count // 3) and first.dtype == dtype and first.is_contiguous() and not first._is_view()
    place = first.data_ptr()
    assert place % (2 * MIB) == 0 and pool.free_bytes() == 0
    last = first[1:].view(-1)[5:].detach()  # the last that looks at it
    del first
    assert pool.free_bytes() == 0 and pool.empty((count,), dtype).data_ptr() != place
    del last
    assert pool.free_bytes() == 2 * 3 * MIB
    assert place in (pool.empty((count,), dtype).data_ptr(), pool.empty((count,), dtype).data_ptr())
    pool.clear()
    assert pool.free_bytes() == 0


def test_what_is_small_or_beyond_the_limit_is_plain_memory(pool):
    for count in (0, 1, SMALLEST - 1, 64 * MIB + 1):
        assert pool.empty((count,), torch.uint8).shape == (count,)
        assert pool.free_bytes() == 0


def test_the_longest_unused_go_where_the_limit_is_reached(pool):
    tensors = [pool.empty((size * MIB,), torch.uint8) for size in (16, 30, 32)]
    places = [tensor.data_ptr() for tensor in tensors]
    while tensors:
        del tensors[0]
    assert pool.free_bytes() == 62 * MIB
    assert [pool.empty((size * MIB,), torch.uint8).data_ptr() for size in (30, 32)] == places[1:]


def test_other_holders_of_the_memory_keep_it(pool):
    """NumPy, DLPack, a gradient of autograd and a graph."""
    tensor = pool.empty((MIB,), torch.float32).fill_(1)
    array = tensor.numpy()
    del tensor
    taken = torch.from_dlpack(pool.empty((MIB,), torch.float32).fill_(2))
    weight = torch.ones(MIB, requires_grad=True)
    product = (pool.empty((MIB,), torch.float32).fill_(3) * weight).sum()  # the graph holds the factor
    for _ in range(3):
        pool.empty((MIB,), torch.float32).fill_(9)
    product.backward()
    assert (array == 1).all() and bool((taken == 2).all()) and bool((weight.grad == 3).all())


def test_threads_that_take_and_give_never_meet(pool):
    wrong = []

    def work(number):
        draw, held = random.Random(number), []
        for i in range(150):
            tensor = pool.empty((draw.choice((MIB, MIB + 5, 2 * MIB)),), torch.uint8)
            mark = (number * 61 + i) % 251
            held.append((tensor.fill_(mark)[::4096], mark))
            while len(held) > draw.randrange(1, 6):
                view, mark = held.pop(draw.randrange(len(held)))
                wrong.extend(view[view != mark].tolist())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and pool.free_bytes() <= pool.limit


def _child(tensor, result):
    torch.set_num_threads(1)  # the parent's threads are not here
    tensor.fill_(7)
    other = page_pool.POOL.empty(tensor.shape, tensor.dtype).fill_(8)
    out, _ = neuron.LIF(engine="cpp")(torch.ones(4, MIB))
    result.put((bool((tensor == 7).all()), bool((other == 8).all()), float(out.sum())))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="there is no fork on this system")
def test_a_forked_child_has_memory_of_its_own():
    tensor = page_pool.POOL.empty((MIB,), torch.float32).fill_(1)
    context = multiprocessing.get_context("fork")
    result = context.Queue()
    with page_pool.POOL._lock:  # as if another thread was in it
        child = context.Process(target=_child, args=(tensor, result))
        child.start()
    assert result.get(timeout=60)[:2] == (True, True)
    child.join()
    assert bool((tensor == 1).all())


def test_sizes_that_change_leave_nothing_behind():
    pool, draw = PagePool(16 * MIB), random.Random(0)
    process = psutil.Process()
    before = 0
    for i in range(400):
        pool.empty((draw.randrange(MIB, 8 * MIB),), torch.uint8).fill_(1)
        if i == 100:
            before = process.memory_info().rss
    assert process.memory_info().rss - before < 48 * MIB


PLAIN_SCRIPT = """
import resource, sys, torch
from snnkit import device, neuron
torch.set_num_threads(1)
x, layer = torch.rand(int(sys.argv[1]), 2**18), neuron.LIF(engine="cpp")
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(8):
        layer(x)[0].mul(2), x * 2, x * 3  # of the pool, and three of the C library
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
with torch.no_grad():
    layer(x)
    if "emptied" in sys.argv:
        device.empty_cache("cpu")
    print([faults() for _ in range(4)][-1])
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt(3) is glibc's")
def test_a_plain_script_waits_for_no_fresh_pages_unless_its_user_wants_it():
    def faults(steps, *more, **settings):
        command = [sys.executable, "-c", PLAIN_SCRIPT, str(steps), *more]
        return int(subprocess.check_output(command, env={**os.environ, **settings}))

    pages = 3 * 8 * 2048  # of 4 kB in what PyTorch allocates
    assert faults(8) < pages / 4 < pages <= faults(8, MALLOC_MMAP_THRESHOLD_="131072") < pages + 2048
    # Each tensor is larger than what glibc would keep; small ones between them may cost one or two.
    assert faults(96) < 12 * pages / 8
    assert faults(96, "emptied") < 12 * pages / 8


ROOM_SCRIPT = """
import psutil, resource, sys, torch
from snnkit.engine import page_pool
if "limited" in sys.argv:
    resource.setrlimit(resource.RLIMIT_AS, (2**36, 2**36))
process = psutil.Process()
before = process.memory_info()
page_pool._limit_c_library(2**32)
if "limited" in sys.argv:
    [torch.empty(2**24, dtype=torch.uint8) for _ in range(16)]
after = process.memory_info()
print(after.vms - before.vms, after.rss - before.rss)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt(3) is glibc's")
def test_room_in_the_heap_takes_addresses_alone_and_none_where_they_are_limited():
    def grown(*arguments):
        huge = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}  # as on systems that always give huge pages
        command = [sys.executable, "-c", ROOM_SCRIPT, *arguments]
        return map(int, subprocess.check_output(command, env={**os.environ, **huge}).split())

    addresses, resident = grown()
    assert addresses > 512 * MIB and resident < 32 * MIB
    addresses, _ = grown("limited")
    assert addresses < 64 * MIB


KEPT_SCRIPT = """
import psutil, torch
from snnkit.engine import page_pool
process = psutil.Process()
page_pool._limit_c_library(2**32)
before = process.memory_info().rss
[torch.ones(2**24) for _ in range(6)]
kept = process.memory_info().rss
page_pool.limit_kept_memory(0)
print(kept - before, process.memory_info().rss - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt(3) is glibc's")
def test_a_lower_limit_returns_what_the_heap_has_kept():
    kept, left = map(int, subprocess.check_output([sys.executable, "-c", KEPT_SCRIPT]).split())
    assert kept > 256 * MIB and left < 32 * MIB


def test_without_memory_for_it_a_tensor_is_as_any_other(pool, monkeypatch):
    def refused(*_, **__):
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(page_pool.mmap, "mmap", refused)
    assert pool.empty((2 * MIB,), torch.uint8).fill_(1).sum() == 2 * MIB and pool.free_bytes() == 0


def test_the_limit():
    before = page_pool.POOL.limit
    try:
        del [page_pool.POOL.empty((MIB,), torch.float32)][0]
        assert page_pool.POOL.free_bytes() > 0
        engine.limit_kept_memory(0)
        assert page_pool.POOL.free_bytes() == 0
        for bad in (-1, 1.5, "1 GB", None):
            with pytest.raises((TypeError, ValueError), match="limit must be"):
                engine.limit_kept_memory(bad)
    finally:
        page_pool.POOL.limit = before


@pytest.mark.parametrize("name", ["cpp", "block"])
def test_large_layers_equal_eager_and_their_outputs_can_be_changed_in_place(name):
    x = torch.randn(8, 3, 100_000)
    results = []
    for one in (name, "eager"):
        leaf = x.clone().requires_grad_()
        out, state = neuron.LIF(engine=one)(leaf)
        out.mul_(2)
        (out.sum() + state.v.square().sum()).backward()
        results.append((out.detach(), state.v.detach(), leaf.grad))
        del out, state, leaf
        gc.collect()
    assert all(map(torch.equal, *results))
