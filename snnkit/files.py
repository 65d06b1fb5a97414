"""Files that are whole or not there at all."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import stat
import struct
import time
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

from snnkit.checks import free_memory

_PART = re.compile(r"\.(.+)\.\d+-[0-9a-f]{8}\.part")  # of the file of this name, which is being written


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Write a file that takes the place of `path` when the block ends, and vanishes if the block raises.

    Readers see the old file or the new one, never a part; several processes may write the same path at once. The new
    file has the mode of the old one; where `path` is a symbolic link, it stays one, and what it points at is replaced.
    Folders are made as needed. Partial files of killed writers, an hour old or more, are removed from the folder.

    Raises FileExistsError for what exists and is no regular file, such as a device or a pipe, and OSError naming `path`
    where the disk is full.
    """
    target = destination(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(target.parent)
    part = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        with open(part, "x+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists() and (mode := stat.S_IMODE(target.stat().st_mode)) != stat.S_IMODE(part.stat().st_mode):
            part.chmod(mode)
        os.replace(part, target)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO) and error.filename is None:
            error.filename = str(path)  # writing into an open file tells no name
        raise
    finally:
        part.unlink(missing_ok=True)


def remove_leftovers(folder: Path, *, of: str | None = None) -> None:
    """Remove what killed writers left in it: partial files to which nothing was written for an hour.

    The number of a process would not tell whether it still writes: it may run on another machine. `of`: the name of a
    file of which the caller is the only writer; its parts are removed at once, and no others.
    """
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            part = _PART.fullmatch(entry.name)
            if part and of in (None, part[1]):
                with contextlib.suppress(OSError):  # another writer was faster, or it is another user's
                    if of or time.time() - entry.stat(follow_symlinks=False).st_mtime > 3600:
                        os.unlink(entry.path)


HAS_LOCKS = find_spec("fcntl") is not None


@contextlib.contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold a file for the block; without `wait`, say whether it could be had. Where there are no locks, it always can.

    The system releases it with the open file, so that no lock is left after `kill -9`.
    """
    with open(path, "ab") as file:
        mine = True
        if HAS_LOCKS:
            import fcntl

            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                mine = False
        yield mine


def write_text(path: Path, text: str) -> None:
    """Replace the file at `path` by `text` (UTF-8, `\\n`), keeping its mode; if interrupted, it stays as it was."""
    with replacing(path) as file:
        file.write(text.encode())


def read_small(path: Path, largest: int) -> bytes:
    """The bytes of a file that other people wrote.

    Raises ValueError saying what is wrong with it: no regular file (a pipe would be waited for), or more than `largest`
    bytes; and OSError.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("no regular file")
    if status.st_size > largest:
        raise ValueError(f"too large: {status.st_size / 1e6:.3g} MB")
    with open(path, "rb") as file:
        content = file.read(largest + 1)
    if len(content) > largest:  # of a file that grows, or has no size, as in /proc
        raise ValueError(f"too large: more than {largest / 1e6:.3g} MB")
    return content


def small_json(path: Path, largest: int) -> Any:
    """A JSON file that other people wrote. Raises as `read_small`, and ValueError if it is no JSON, or not UTF-8."""
    content = read_small(path, largest)
    for encoding in dict.fromkeys(("utf-8-sig", json.detect_encoding(content), "latin-1")):
        try:
            data = json.loads(content.decode(encoding))
        except (ValueError, RecursionError):
            continue
        if encoding != "utf-8-sig":
            raise ValueError(f"in {encoding.upper()}, but JSON must be in UTF-8: save it again")
        return data
    raise ValueError("no JSON, or only a part of it")


MOST_ALIASES = 10  # in YAML; each may double what a text says


def read_yaml(text: str) -> Any:
    """What YAML that people wrote holds. Of two equal keys PyYAML would silently take the last one.

    PyYAML takes some 30 s for a megabyte, so limit what you read of others (`read_small`).

    Raises ValueError, in one line, for a key that is given twice, too many aliases, and what is no YAML.
    """
    import yaml

    class Loader(yaml.SafeLoader):
        aliases = 0

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            keys = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
            if twice := [key for key, count in keys.items() if count > 1]:
                problem = f"the key {twice[0]} is given twice"
                raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
            return super().construct_mapping(node, deep)

        def compose_node(self, parent: Any, index: Any) -> Any:
            self.aliases += self.check_event(yaml.AliasEvent)
            if self.aliases > MOST_ALIASES:
                raise yaml.YAMLError(f"it has more than {MOST_ALIASES} aliases (*name)")
            return super().compose_node(parent, index)

    try:
        return yaml.load(text, Loader)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except Exception as error:  # PyYAML converts a value by its tag, and lets out whatever that raises
        raise ValueError(f"a value does not fit its tag ({type(error).__name__}: {error})") from None


MOST_NESTED = 100  # groups of HDF5; readers call themselves for each
DEFLATE = 1032  # bytes that zip, gzip and HDF5 can unpack from one


def check_size(what: object, announced: int, stored: int | None = None, *, times: float = 1) -> None:
    """Compare what a file says that it holds with what is there, before memory is allocated for it.

    Args:
        what: what says so, for the message.
        announced: its bytes in memory.
        stored: bytes of the file; None: not known.
        times: how many bytes may come of one of the file, where it is packed.

    Raises:
        ValueError: `announced` is more than `stored` bytes can hold, or than the free memory.
    """
    limits = {"the memory that is free": free_memory()}
    if stored is not None:
        limits = {f"all that its {stored:,} bytes can hold": stored * times, **limits}
    for why, limit in limits.items():
        if announced > limit:
            raise ValueError(f"the size of {what} must be at most {int(limit):,} bytes, {why}, but it is {announced:,}")


def check_hdf5(path: str | os.PathLike[str]) -> None:
    """Raise ValueError unless an HDF5 file can hold the arrays that it announces, in groups that can be walked through.

    OSError if it is none.
    """
    import h5py

    if not stat.S_ISREG((status := os.stat(path)).st_mode):  # a pipe would be waited for
        raise ValueError(f"{path} is no regular file")
    stored, seen, announced = status.st_size, 0, 0
    with h5py.File(path, "r") as file:
        todo: list[tuple[Any, int]] = [(file, 0)]
        while todo:
            part, depth = todo.pop()
            seen += 1
            if (seen + len(todo)) * 8 > stored:  # each takes more bytes than that
                raise ValueError(f"groups in {path} must not hold each other")
            if depth > MOST_NESTED:
                raise ValueError(f"groups in {path} must be nested at most {MOST_NESTED} deep")
            if isinstance(part, h5py.Group):
                for name in part:
                    if isinstance(part.get(name, getlink=True), h5py.ExternalLink):
                        raise ValueError(f"{path} must hold its own contents, but its {name} is in another file")
                    todo.append((part.get(name), depth + 1))  # None for a link that leads nowhere
            else:
                announced += getattr(part, "nbytes", 0)
    check_size(path, announced, stored, times=DEFLATE)


def destination(path: Path) -> Path:
    """The file that writing to `path` makes or replaces: symbolic links are followed.

    Raises FileExistsError for what exists and is no regular file: replacing a device or a pipe would take it away.
    """
    target = Path(os.path.realpath(path))
    try:
        kind = target.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return target
    if not stat.S_ISREG(kind):
        raise FileExistsError(errno.EEXIST, "only a regular file can be replaced, but this is none", str(path))
    return target


def expanded(path: str | os.PathLike[str]) -> Path:
    """`path` with its ~ resolved; FileNotFoundError if there is no such home folder, or none at all."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise FileNotFoundError(errno.ENOENT, "there is no such home folder", str(path)) from None


def user_cache() -> Path:
    """The folder of this library in the user's cache; FileNotFoundError if there is no home folder."""
    import pooch

    try:
        return expanded(pooch.os_cache("snnkit"))
    except RuntimeError:  # in some versions of what pooch uses
        return expanded("~/.cache/snnkit")


def exposed(path: Path) -> str:
    """Why code at `path`, a file or folder that exists, may be that of another user; "" where it can't be.

    As ssh looks at keys: `path` must belong to this user or to root, the folders above it as well, up to the home
    folder, and none may be writable by others. In a folder with the sticky bit, such as /tmp, they can't replace it.

    Others are all users; each group but this user's own, which has the user's name and no other member; and whoever
    an access control list (POSIX, of Linux) lets write, into it or into what will be made in it. What the system does
    not tell is not seen: lists of macOS and of NFSv4 servers, and who else has a right to be this user.
    """
    if not hasattr(os, "getuid"):  # Windows
        return ""  # folders below that of a user are the user's alone
    path = Path(os.path.realpath(path))
    home = os.path.realpath(os.path.expanduser("~"))
    owners = {os.getuid(), 0}
    for place in (path, *path.parents):
        status = place.stat()
        if status.st_uid not in owners:
            return f"{place} belongs to user {status.st_uid}"
        sticky = place != path and status.st_mode & stat.S_ISVTX
        if status.st_mode & stat.S_IWOTH and not sticky:
            return f"all users can write to {place}"
        if status.st_mode & stat.S_IWGRP and not sticky and not _is_own_group(status.st_gid):
            return f"group {status.st_gid} can write to {place}"
        if not sticky and (writer := _listed_writer(place, status)):
            return f"by its access control list, {writer} can write to {place}"
        if str(place) == home:
            break
        owners.add(os.stat(os.sep).st_uid)  # of folders: root's number where this is a container
    return ""


# Tags of entries, <linux/posix_acl.h>
_ACL_USER, _ACL_GROUP_OWNER, _ACL_GROUP, _ACL_MASK, _ACL_OTHER = 0x02, 0x04, 0x08, 0x10, 0x20
_ACL_WRITE = 2


def _listed_writer(place: Path, status: os.stat_result) -> str:
    """Who else may write by the POSIX access control lists of a file or folder; "" if no one may.

    The layout of a list is that of <linux/posix_acl_xattr.h>: a version, then entries of a tag, rights and a number.
    """
    for kind in ("access", "default") if hasattr(os, "getxattr") else ():
        try:
            content = os.getxattr(place, f"system.posix_acl_{kind}")
        except OSError:  # it has none, or the file system has none
            continue
        entries = list(struct.iter_unpack("<HHI", content[4:]))
        mask = next((rights for tag, rights, _ in entries if tag == _ACL_MASK), _ACL_WRITE)
        for tag, rights, number in entries:
            if tag == _ACL_OTHER and rights & _ACL_WRITE:
                return "everybody"
            if not rights & mask & _ACL_WRITE:
                continue
            if tag == _ACL_USER and number not in (os.getuid(), 0):
                return f"user {number}"
            number = status.st_gid if tag == _ACL_GROUP_OWNER else number
            if tag in (_ACL_GROUP, _ACL_GROUP_OWNER) and not _is_own_group(number):
                return f"group {number}"
    return ""


def _is_own_group(number: int) -> bool:
    """Whether it is a group that systems make for this user: it has the user's name, and no other member but root.

    Who is in a group can't always be listed: directories of users may tell nothing but names. So an empty list alone
    proves nothing, and a name that is the user's does (login and pam_umask decide by it, too).
    """
    try:
        import grp
        import pwd

        user, group = pwd.getpwuid(os.getuid()), grp.getgrgid(number)
    except (ImportError, KeyError):
        return False
    others = {one.pw_name for one in pwd.getpwall() if one.pw_gid == number} | set(group.gr_mem)
    return user.pw_gid == number and group.gr_name == user.pw_name and others <= {user.pw_name, "root"}
