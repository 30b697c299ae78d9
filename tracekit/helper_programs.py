"""Programs of others, such as perf and mount: where they are found, and their environment.

A process of root runs only what root alone can have put there, and hands on no variable by which
somebody else chooses what a program loads.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tracekit.errors import TracekitError

SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
STEERING = (
    *("GLIBC_TUNABLES", "GCONV_PATH", "LOCPATH", "NLSPATH", "TMPDIR", "PAGER", "HOSTALIASES"),
    *("BASH_ENV", "BASHOPTS", "SHELLOPTS", "ENV", "IFS", "PS4", "CDPATH"),
    *("TAR_OPTIONS", "APT_CONFIG", "RES_OPTIONS"),
)
"""Variables that choose what a program loads, reads or runs."""
STEERING_BEGINNINGS = (
    *("LD_", "MALLOC_", "BASH_FUNC_", "PYTHON", "PERL", "DEBUGINFOD_", "DPKG_"),
    *("PERF_", "BPFTRACE_", "QEMU_", "MKE2FS_", "BLKID_", "LIBMOUNT_"),
)
"""How the names of others begin."""


def helper_environment() -> dict[str, str]:
    """Return the environment of a helper: a plain user's own; root's without what steers it."""
    if os.geteuid() != 0:
        return dict(os.environ)
    return {name: value for name, value in os.environ.items() if not _is_steering(name)} | {
        "PATH": _path_of_root()
    }


def withheld() -> dict[str, str]:
    """Return the variables that a helper does not get, or gets otherwise."""
    given = helper_environment()
    return {name: value for name, value in os.environ.items() if given.get(name) != value}


def find_helper(name: str) -> str | None:
    """Return the path of a program on PATH, or None where there is none that may be run."""
    return shutil.which(name, path=helper_environment().get("PATH"))


def why_missing(name: str, absent: str = "is not on PATH") -> str:
    """Return why `find_helper` found nothing; `absent` is the rest of the sentence."""
    found = shutil.which(name)
    if found is None:
        return f"{name} {absent}"
    return f"{found} is not run by root: others than root can replace it"


def run_helper(
    command: Sequence[str], *, variables: Mapping[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """Run a helper to its end; raise TracekitError where it is missing, OSError as it comes."""
    environment = {**helper_environment(), **(variables or {})}
    path = _located(command[0])
    return subprocess.run(command, executable=path, env=environment, check=False, **options)


def start_helper(
    command: Sequence[str], *, variables: Mapping[str, str] | None = None, **options: Any
) -> subprocess.Popen[Any]:
    """Start a helper; raise TracekitError where it is missing, OSError as it comes."""
    environment = {**helper_environment(), **(variables or {})}
    return subprocess.Popen(command, executable=_located(command[0]), env=environment, **options)


def start_tracekit(*words: str, **options: Any) -> subprocess.Popen[Any]:
    """Start another process of tracekit, with a helper's environment; raise OSError as it comes."""
    command = [sys.executable, "-P", "-m", "tracekit", *words]
    return subprocess.Popen(command, env=helper_environment(), **options)


def _located(name: str) -> str:
    path = find_helper(name)
    if path is None:
        raise TracekitError(why_missing(name), hint=f"install {Path(name).name}")
    return path


def _is_steering(name: str) -> bool:
    return name in STEERING or name.startswith(STEERING_BEGINNINGS)


def _path_of_root() -> str:
    """Return those folders of PATH in which root alone can put programs."""
    folders = os.environ.get("PATH", SYSTEM_PATH).split(os.pathsep)
    return os.pathsep.join(filter(_belongs_to_root, folders)) or SYSTEM_PATH


def _belongs_to_root(folder: str) -> bool:
    """Whether nobody but root can change a folder, nor put another in its place."""
    if not Path(folder).is_absolute():
        return False
    path = Path(folder).resolve()
    found = [one.stat() for one in (path, *path.parents) if one.exists()]
    # In a container root may have another number outside: what owns / is root here.
    owners = {0, found[-1].st_uid}
    is_closed = [one.st_uid in owners and not _is_open_to_others(one) for one in found]
    # Where only its owner can remove a file, as in /tmp, a folder of root's stays what it is.
    is_sticky = [bool(one.st_mode & stat.S_ISVTX) and one.st_uid in owners for one in found]
    return is_closed[0] and all(map(any, zip(is_closed, is_sticky, strict=True)))


def _is_open_to_others(status: os.stat_result) -> bool:
    open_to_group = status.st_mode & stat.S_IWGRP and status.st_gid != 0
    return bool(status.st_mode & stat.S_IWOTH or open_to_group)
