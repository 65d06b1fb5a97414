"""Folders of compiled code between processes. Loading the code runs it, so only this user may write there.

The rule (``files.exposed``) is the same for libraries of the C++ engine and of plasticity, for the files of
``torch.compile``, and for Triton's kernels. If a folder breaks it, can't be written or has no home, a private folder
replaces it until the process ends. A warning says so, once.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

from snnkit.files import expanded, exposed

_warned: set[str] = set()


def kernel_folder() -> Path:
    """The folder of our own libraries: ``$SNNKIT_KERNELS``, or the user's cache. OSError if it can't be used."""
    given = os.environ.get("SNNKIT_KERNELS")
    return _usable(given or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "snnkit", "kernels"))


@functools.cache
def private_folder() -> Path:
    """A folder of this process. Raises OSError if none can be made."""
    folder = Path(tempfile.mkdtemp(prefix="snnkit-kernels-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def warn_of_private(what: str, reason: str) -> None:
    """Say, once, that ``what`` stays in a private folder."""
    if what in _warned:
        return
    _warned.add(what)
    warnings.warn(
        f"{what} is compiled again in each process, as its cache can't be used: {reason}. Make that a folder of your "
        "own (chmod go-w), or choose another one (SNNKIT_KERNELS, TORCHINDUCTOR_CACHE_DIR, TRITON_CACHE_DIR).",
        stacklevel=2,
    )


@functools.cache
def secure_inductor() -> None:
    """Call before ``torch.compile`` reads its files: by default they are in /tmp, under a known name."""
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    _secure("TORCHINDUCTOR_CACHE_DIR", default_cache_dir)
    try:
        _usable(default_cache_dir())
    except (OSError, KeyError):  # PyTorch's precompiled headers are there, whatever the variable says
        from torch._inductor import config

        config.cpp_cache_precompile_headers = False


@functools.cache
def secure_triton() -> None:
    """Call before Triton reads its files."""
    _secure("TRITON_CACHE_DIR", lambda: os.path.join(os.environ.get("TRITON_HOME") or "~", ".triton", "cache"))


def _secure(variable: str, default: Callable[[], str]) -> None:
    """Set the environment ``variable`` to a private folder, unless the current folder is safe."""
    try:
        _usable(os.path.abspath(given) if (given := os.environ.get(variable)) else default())
    except (OSError, KeyError) as error:  # KeyError: of an unknown user, in some versions of torch
        os.environ[variable] = str(private_folder() / variable.lower())
        warn_of_private("what torch.compile or Triton has made", str(error))


def _usable(path: str | os.PathLike[str]) -> Path:
    """This folder, made if needed; its links are followed once, here. OSError if it can't be used."""
    folder = Path(os.path.realpath(expanded(path)))
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    if reason := exposed(folder):
        raise PermissionError(reason)
    return folder
