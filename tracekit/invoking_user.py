"""The user who became root to run this: whose rights a command gets, and whose the results are."""

from __future__ import annotations

import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracekit.errors import TracekitError, UsageError

BECAME_ROOT = {"SUDO_UID": "SUDO_GID", "PKEXEC_UID": ""}
"""Variables of the programs that make somebody root: of the user, of the group."""
MODULES = (os.__file__, __file__)
"""A module of Python's and one of this package."""
MOST_ID = 2**32 - 2
NO_GROUP = 65534
"""Of a user without an entry in the user database: a group that owns nothing."""


@dataclass(frozen=True)
class User:
    """Somebody by whose rights a command runs."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    name: str | None
    """None: not in the user database."""
    home: str

    @property
    def variables(self) -> dict[str, str]:
        """The variables that name the user."""
        name = self.name or str(self.uid)
        return {"HOME": self.home, "USER": name, "LOGNAME": name}


def invoking_user() -> User | None:
    """Return who became root by sudo or pkexec to run this; None where nobody did."""
    if os.geteuid() != 0:
        return None
    for variable, of_group in BECAME_ROOT.items():
        if text := os.environ.get(variable):
            uid, group = _number(variable, text), os.environ.get(of_group)
            return _user(uid, gid=_number(of_group, group) if group else None) if uid else None
    return None


def chosen_user(given: str | int | None) -> User | None:
    """Return the user, by name or number, to run a command as; None: with the rights of now.

    Without one that is the invoking user. Raise UsageError for one who is not known or not allowed.
    """
    if given is None:
        return invoking_user()
    try:
        uid = int(given)
    except ValueError:
        uid = _named(str(given))
    if not 0 <= uid <= MOST_ID:
        raise UsageError(f"--user {given}: not a user id", hint="getent passwd lists the users")
    if uid == os.geteuid():
        return None
    if os.geteuid() != 0:
        raise UsageError(
            f"--user {given}: only root can run a command as another user", hint="use sudo"
        )
    return _user(uid)


def popen_options(user: User | None) -> dict[str, Any]:
    """Return how subprocess.Popen starts a command of the user, who keeps no right of root."""
    if user is None:
        return {}
    return {
        "user": user.uid,
        "group": user.gid,
        "extra_groups": user.groups,
        "env": {**os.environ, **user.variables},
    }


def become_invoking_user() -> None:
    """Give up the rights of root for good where somebody became root to run this.

    Raise TracekitError when the modules that are not loaded yet are root's alone.
    """
    if (user := invoking_user()) is None:
        return
    os.setgroups(user.groups)
    os.setresgid(user.gid, user.gid, user.gid)
    os.setresuid(user.uid, user.uid, user.uid)
    os.environ.update(user.variables)
    for file in MODULES:
        if not os.access(file, os.R_OK):
            raise TracekitError(
                f"{file} cannot be read by user {user.name or user.uid}, who used sudo",
                hint="install tracekit where they can read it; or, as root, unset SUDO_UID",
            )


def hand_over(path: Path) -> None:
    """Give what root has just made, a file or a folder with all in it, to the invoking user."""
    if (user := _owner_of_new(path)) is not None:
        _hand_over(str(path), None, user)


def _owner_of_new(path: Path) -> User | None:
    """Return to whom a new file belongs; None: to root, as what is in root's own home does."""
    if (user := invoking_user()) is None:
        return None
    home = pwd.getpwuid(0).pw_dir
    return None if home != "/" and path.parent.resolve().is_relative_to(home) else user


def _hand_over(name: str, parent: int | None, user: User) -> None:
    descriptor = _opened(name, parent)
    try:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            for entry in list(os.scandir(descriptor)):
                if entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False):
                    _hand_over(entry.name, descriptor, user)
        # The folder last: until then nobody else can put something into it.
        _give(descriptor, user)
    finally:
        os.close(descriptor)


def _opened(name: str | Path, parent: int | None) -> int:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return os.open(name, flags, dir_fd=parent)


def _give(descriptor: int, user: User) -> None:
    """Give an open file or folder of root's away, but for one that has another name elsewhere."""
    found = os.fstat(descriptor)
    is_file = stat.S_ISREG(found.st_mode) and found.st_nlink == 1
    if found.st_uid == 0 and (is_file or stat.S_ISDIR(found.st_mode)):
        os.fchown(descriptor, user.uid, user.gid)


def _number(variable: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= MOST_ID):
        raise TracekitError(f"{variable} is '{text}', which is no number of a user or group")
    return int(text)


def _named(name: str) -> int:
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        hint = "getent passwd lists the users"
        raise UsageError(f"--user {name}: there is no such user", hint=hint) from None


def _user(uid: int, *, gid: int | None = None) -> User:
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        group = NO_GROUP if gid is None else gid
        return User(uid, group, (group,), None, "/")
    group = entry.pw_gid if gid is None else gid
    groups = tuple(os.getgrouplist(entry.pw_name, group))
    return User(uid, group, groups, entry.pw_name, entry.pw_dir)
