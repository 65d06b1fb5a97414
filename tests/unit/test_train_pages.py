"""The C library's settings for ranks on CPUs."""

from snnkit.train import launch, start
from snnkit.train.pages import KEPT, kept


def test_what_a_user_set_stays():
    assert kept({}) == KEPT
    assert kept({"MALLOC_TOP_PAD_": "1"}) == {name: KEPT[name] for name in KEPT if name != "MALLOC_TOP_PAD_"}


def test_ranks_of_the_command_get_them(monkeypatch):
    given = {}
    monkeypatch.setattr(start, "launch", lambda *_, **options: given.update(options))
    for name in KEPT:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MALLOC_TOP_PAD_", "1")
    start.ranks("digits", {}, ["digits"], 2, 1, 0, "cpu", None, False)
    env = launch._environment(given["env"], 0, 2, 1, "job")
    assert env["MALLOC_TOP_PAD_"] == "1"
    assert env["MALLOC_MMAP_THRESHOLD_"] == KEPT["MALLOC_MMAP_THRESHOLD_"]
