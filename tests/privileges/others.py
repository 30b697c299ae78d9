"""Another user, what a command of that user shows of its rights, and whose files are."""

import os
import shutil
import stat
import subprocess
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

OTHER = 12345
"""The number of a user without an entry in the user database."""
NOBODY = 65534
IDS = "for name in Uid Gid Groups CapInh CapPrm CapEff CapAmb; do grep ^$name: /proc/self/status"
LOOK = f"exec >%s; {IDS}; done; env"
"""Shell text that writes a command's rights and variables to a file."""


@contextmanager
def other_folder() -> Iterator[Path]:
    """Yield a folder that the other user can reach and write, as those of pytest are root's."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become another user")
    folder = Path(tempfile.mkdtemp(prefix="tracekit-test-"))
    os.chown(folder, OTHER, OTHER)
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def as_user(number: int) -> dict[str, Any]:
    """Return the options of a child of root's that is this user, without other groups."""
    return {"user": number, "group": number, "extra_groups": []}


def must_reach(program: Path, number: int) -> None:
    """Skip where this user may not run a program, as in the home of another one."""
    try:
        subprocess.run([program], capture_output=True, check=False, **as_user(number))
    except PermissionError:
        pytest.skip(f"needs a checkout that other users may read: {program}")


def looking(file: Path) -> list[str]:
    """Return a command that writes its rights and variables to the file."""
    return ["sh", "-c", LOOK % file]


def seen(file: Path) -> tuple[dict[str, set[str]], dict[str, str]]:
    """Return what `looking` wrote: rights by name, then variables."""
    lines = file.read_text().splitlines()
    rights = (line.partition(":\t") for line in lines if ":\t" in line)
    variables = (line.partition("=") for line in lines if ":\t" not in line)
    return (
        {name: set(values.split()) for name, _, values in rights},
        {name: value for name, _, value in variables},
    )


def rights_of(uid: int, gid: int) -> dict[str, set[str]]:
    """Return what a command of a user shows who has one group and no capability."""
    none = {key: {"0" * 16} for key in ("CapInh", "CapPrm", "CapEff", "CapAmb")}
    return {"Uid": {str(uid)}, "Gid": {str(gid)}, "Groups": {str(gid)}, **none}


def all_of(folder: Path) -> Iterator[Path]:
    yield folder
    yield from folder.rglob("*")


def owners(folder: Path) -> set[tuple[int, int]]:
    """Return the users and groups to whom a folder and all in it belong."""
    return {(one.lstat().st_uid, one.lstat().st_gid) for one in all_of(folder)}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def forked(function: Callable[[], object]) -> str:
    """Call a function in a process of its own, which may give up its rights; return its answer."""
    receiver, sender = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            answer, code = str(function()), 0
        except BaseException:
            answer = traceback.format_exc()
        finally:
            with os.fdopen(sender, "w") as out:
                out.write(answer)
            os._exit(code)
    os.close(sender)
    with os.fdopen(receiver) as told:
        answer = told.read()
    _, status = os.waitpid(pid, 0)
    assert status == 0, f"status {status} of the child: {answer}"
    return answer


def as_other(function: Callable[[], object]) -> str:
    """Call a function as the other user; return its answer as text."""

    def call() -> object:
        os.setgroups([])
        os.setresgid(OTHER, OTHER, OTHER)
        os.setresuid(OTHER, OTHER, OTHER)
        return function()

    return forked(call)
