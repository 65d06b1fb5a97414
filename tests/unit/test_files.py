"""Writing files: whole or not at all, in place of regular files only, through links, with the mode of the old one."""

import errno
import grp
import os
import pwd
import struct
import time
from types import SimpleNamespace

import pytest

from snnkit import data, files
from snnkit.files import destination, replacing
from snnkit.lab.course import progress


def write(path, content=b"new"):
    with replacing(path) as file:
        file.write(content)


def names(folder):
    return sorted(file.name for file in folder.iterdir())


def test_pipes_and_folders_stay(tmp_path):
    pipe, folder = tmp_path / "pipe", tmp_path / "folder"
    os.mkfifo(pipe)
    folder.mkdir()
    (tmp_path / "link").symlink_to("pipe")
    for path in (pipe, tmp_path / "link", folder):
        with pytest.raises(FileExistsError, match="only a regular file can be replaced.*" + path.name):
            write(path)
        with pytest.raises(FileExistsError):
            files.write_text(path, "text")
    assert pipe.is_fifo() and folder.is_dir() and names(tmp_path) == ["folder", "link", "pipe"]


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_and_what_it_points_at_is_written(tmp_path, there):
    (tmp_path / "data").mkdir()
    target, link = tmp_path / "data" / "target", tmp_path / "link"
    if there:
        target.write_bytes(b"old")
    link.symlink_to(target)
    write(link)
    assert link.is_symlink() and not target.is_symlink() and target.read_bytes() == b"new"
    assert names(tmp_path / "data") == ["target"] and names(tmp_path) == ["data", "link"]


def test_links_in_a_circle(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError):
        destination(tmp_path / "a")


def test_the_mode_stays(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o600)
    write(path)
    assert path.stat().st_mode & 0o777 == 0o600 and path.read_bytes() == b"new"


@pytest.mark.parametrize("named", [None, "elsewhere"])
def test_a_full_disk_leaves_the_old_file_and_is_told_with_a_name(tmp_path, named):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(OSError) as caught, replacing(path) as file:
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device", named)
    assert caught.value.filename == (named or str(path))
    assert path.read_bytes() == b"old" and names(tmp_path) == ["file"]


def test_what_killed_writers_left_is_removed_and_what_others_write_now_stays(tmp_path):
    hour_ago = time.time() - 3700
    old = [".file.123-0a1b2c3d.part", ".epoch 3.pt.9-ffffffff.part"]  # of this file and of another one
    ours = [".file.124-0a1b2c3d.part"]
    foreign = [".file.part", "file.123-0a1b2c3d.part", ".file.x-0a1b2c3d.part"]
    for name in (*old, *ours, *foreign):
        (tmp_path / name).write_text("half")
        if name not in ours:
            os.utime(tmp_path / name, (hour_ago, hour_ago))
    (tmp_path / ".folder.1-0a1b2c3d.part").mkdir()
    os.utime(tmp_path / ".folder.1-0a1b2c3d.part", (hour_ago, hour_ago))
    write(tmp_path / "file")
    assert names(tmp_path) == sorted(["file", *ours, *foreign, ".folder.1-0a1b2c3d.part"])


@pytest.mark.parametrize("given", ["~no-one-at-all/x", ""])
def test_no_home_folder(monkeypatch, given):
    """Of a user who is not known, or of a process without HOME whose user is a mere number."""

    def unknown(user):
        raise KeyError(user)

    for name in ("SNNKIT_DATA", "SNNKIT_PROGRESS"):
        monkeypatch.setenv(name, given)
    for name in ("HOME", "XDG_CACHE_HOME", "SNNKIT_HEADLESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert not data.available("mnist")
    with pytest.raises(FileNotFoundError, match=f"no such home folder: '{given or '~/.cache'}"):
        data.load("mnist")
    with pytest.warns(UserWarning, match=f"Progress cannot be saved in {given or '~/.cache'}"):
        assert progress.default_path() is None


@pytest.mark.parametrize(
    ("name", "members", "users", "safe"),
    [
        ("me", [], {"me": 7}, True),  # a group for each user
        ("me", ["me"], {"me": 7, "root": 7}, True),
        ("me", ["you"], {"me": 7}, False),
        ("me", [], {"me": 7, "you": 7}, False),
        ("me", [], {"me": 3}, False),  # not the user's first group
        ("users", [], {"me": 7}, False),  # others may be in it, and a directory of users that does not list them
        ("staff", ["me"], {"me": 7}, False),
    ],
)
def test_a_group_may_write_that_is_this_users_alone(tmp_path, monkeypatch, name, members, users, safe):
    everyone = [SimpleNamespace(pw_name=user, pw_gid=gid) for user, gid in users.items()]
    me = SimpleNamespace(pw_name="me", pw_dir="/", pw_gid=users["me"])
    monkeypatch.setattr(pwd, "getpwuid", lambda _: me)
    monkeypatch.setattr(pwd, "getpwall", lambda: everyone)
    monkeypatch.setattr(grp, "getgrgid", lambda _: SimpleNamespace(gr_name=name, gr_mem=members))
    tmp_path.chmod(0o770)
    group = tmp_path.stat().st_gid
    monkeypatch.setattr(files, "_is_own_group", lambda number, real=files._is_own_group: real({group: 7}[number]))
    assert files.exposed(tmp_path) == ("" if safe else f"group {group} can write to {tmp_path}")


USER, GROUP, MASK, OTHER = 2, 8, 16, 32  # <linux/posix_acl.h>


@pytest.mark.parametrize("kind", ["access", "default"])
@pytest.mark.parametrize(
    ("entries", "who"),
    [
        ([(USER, 7, 4242), (MASK, 7, 0)], "user 4242"),
        ([(GROUP, 2, 4243), (MASK, 2, 0)], "group 4243"),
        ([(USER, 7, 4242), (MASK, 5, 0)], ""),  # the mask takes the right away
        ([(USER, 5, 4242), (GROUP, 4, 4243), (MASK, 7, 0)], ""),
        ([(USER, 7, 0), (USER, 7, os.getuid()), (MASK, 7, 0)], ""),
        ([(OTHER, 2, 0)], "everybody"),
    ],
)
def test_an_access_list_lets_nobody_else_write(tmp_path, monkeypatch, kind, entries, who):
    """The lists are those that the kernel gives; not each file system has them."""

    def getxattr(place, name):
        if place == tmp_path and name == f"system.posix_acl_{kind}":
            return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
        raise OSError

    monkeypatch.setattr(os, "getxattr", getxattr)
    expected = f"by its access control list, {who} can write to {tmp_path}" if who else ""
    assert files.exposed(tmp_path) == expected
