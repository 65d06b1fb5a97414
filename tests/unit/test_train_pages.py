"""The C library's settings for ranks on CPUs."""

from snnkit.measure.memory import MALLOC_SETTINGS, missing_malloc_settings
from snnkit.train import launch, start


def test_what_a_user_set_stays():
    assert missing_malloc_settings({}) == MALLOC_SETTINGS
    assert missing_malloc_settings({"MALLOC_TOP_PAD_": "1"}) == {
        name: MALLOC_SETTINGS[name] for name in MALLOC_SETTINGS if name != "MALLOC_TOP_PAD_"
    }


def test_ranks_of_the_command_get_them(monkeypatch):
    given = {}
    monkeypatch.setattr(start, "launch", lambda *_, **options: given.update(options))
    for name in MALLOC_SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MALLOC_TOP_PAD_", "1")
    start.ranks("digits", {}, ["digits"], 2, 1, 0, "cpu", None, False)
    env = launch._environment(given["env"], 0, 2, 1, "job")
    assert env["MALLOC_TOP_PAD_"] == "1"
    assert env["MALLOC_MMAP_THRESHOLD_"] == MALLOC_SETTINGS["MALLOC_MMAP_THRESHOLD_"]
