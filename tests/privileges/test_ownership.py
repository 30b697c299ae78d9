"""What root makes for somebody belongs to them, and nothing else is given away."""

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import invoke, succeed
from tests.privileges.others import NOBODY, OTHER, as_other, forked, mode, owners
from tracekit.durable import make_folder
from tracekit.errors import TracekitError, UsageError
from tracekit.invoking_user import chosen_user, hand_over, invoking_user
from tracekit.lab import image
from tracekit.store import write_json


@pytest.fixture
def sudo(theirs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the other user have become root by sudo; return a folder of theirs."""
    monkeypatch.setenv("SUDO_UID", str(OTHER))
    monkeypatch.setenv("SUDO_GID", str(OTHER))
    return theirs


def test_a_trace_and_what_is_added_to_it(sudo: Path) -> None:
    # GIVEN a folder that is there, and others that are to be made
    trace = sudo / "new/folders/trace"
    succeed("generate", "paging", "--requests", "500", "-o", trace)
    # WHEN a stage adds tables and replaces trace.json
    succeed("classify", trace)
    # THEN all of it is the other user's, as if root had not been asked
    assert owners(sudo) == {(OTHER, OTHER)}
    assert (mode(trace), mode(trace / "requests.parquet")) == (0o755, 0o644)


def test_without_sudo_they_are_roots(theirs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)
    write_json(theirs / "folder/file.json", {})
    assert owners(theirs / "folder") == {(0, 0)}


def test_what_root_keeps_at_home_stays_roots(
    sudo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a state file in the home folder of root, to which another name leads
    root = pwd.getpwuid(0)
    changed = [str(tmp_path) if one == root.pw_dir else one for one in root]
    monkeypatch.setattr(pwd, "getpwuid", lambda _uid: pwd.struct_passwd(changed))
    (sudo / "home").symlink_to(tmp_path)
    write_json(sudo / "home/.local/state/file.json", {})
    assert owners(tmp_path) == {(0, 0)}


def test_what_is_there_is_not_given_away(sudo: Path, tmp_path: Path) -> None:
    # GIVEN a file of root with a second name, a link, and one of somebody else in a new folder
    precious = tmp_path / "precious"
    precious.write_text("root's")
    folder = tmp_path / "folder"
    make_folder(folder)
    (folder / "second").hardlink_to(precious)
    (folder / "link").symlink_to(precious)
    (folder / "own").write_text("")
    (folder / "foreign").write_text("")
    os.chown(folder / "foreign", NOBODY, NOBODY)
    # WHEN it is handed over
    hand_over(folder)
    # THEN the folder and its own file are, and nothing else
    assert precious.stat().st_uid == 0
    found = {path.name: path.lstat().st_uid for path in folder.iterdir()}
    assert found == {"second": 0, "link": 0, "own": OTHER, "foreign": NOBODY}
    assert folder.stat().st_uid == OTHER
    # AND a link in the place of the file itself is not followed
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        hand_over(folder / "link")
    assert owners(sudo) == {(OTHER, OTHER)}


@pytest.mark.parametrize(("variable", "uid"), [("PKEXEC_UID", NOBODY), ("SUDO_UID", OTHER)])
def test_who_invoked_it(
    theirs: Path, monkeypatch: pytest.MonkeyPatch, variable: str, uid: int
) -> None:
    assert theirs.exists()
    monkeypatch.delenv("SUDO_UID", raising=False)
    monkeypatch.delenv("SUDO_GID", raising=False)
    monkeypatch.setenv(variable, str(uid))
    found = invoking_user()
    # Without a group it is that of the user database, or one that owns nothing.
    assert (found and (found.uid, found.gid)) == (uid, NOBODY)
    assert chosen_user(None) == found
    assert chosen_user("root") is chosen_user(0) is None
    for text in ("", "0"):
        monkeypatch.setenv(variable, text)
        assert invoking_user() is None
    monkeypatch.setenv(variable, "12x")
    with pytest.raises(TracekitError, match=f"{variable} is '12x'"):
        invoking_user()


@pytest.mark.parametrize("user", ["no-such-user", "-1", str(2**32 - 1)])
def test_a_user_who_cannot_be(user: str) -> None:
    with pytest.raises(UsageError, match=f"--user {user}: "):
        chosen_user(user)


@pytest.mark.usefixtures("theirs")
def test_a_plain_user_becomes_nobody_else() -> None:
    def refusal() -> object:
        with pytest.raises(UsageError) as caught:
            chosen_user("nobody")
        return chosen_user(OTHER), chosen_user(None), str(caught.value)

    refused = "--user nobody: only root can run a command as another user"
    assert as_other(refusal) == str((None, None, refused))


def test_the_lab_goes_on_as_who_used_sudo(sudo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN programs that do nothing in the place of the lab's
    monkeypatch.setenv("XDG_CACHE_HOME", str(sudo / "cache"))
    folder = sudo / "bin"
    folder.mkdir()
    for name in ("qemu-system-x86_64", "mke2fs", "apt-get", "apt-cache", "dpkg-deb", "tar"):
        (folder / name).write_text("#!/bin/sh\nid -u >&2\nexit 1\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    # WHEN it builds an image, its modules being there before it gives up its rights
    assert image.TOOLS
    monkeypatch.setattr("tracekit.invoking_user.MODULES", ())
    answer = forked(lambda: invoke("lab", "build").exception)
    # THEN they run as the other user, to whom what is kept belongs
    assert answer == f"apt-get: {OTHER}"
    assert owners(sudo / "cache") == {(OTHER, OTHER)}


ALONE = """
import sys
from tracekit import cli, invoking_user
invoking_user.MODULES = (sys.argv.pop(1),)
cli.main()
"""


@pytest.mark.usefixtures("sudo")
def test_the_lab_of_root_alone(tmp_path: Path) -> None:
    # GIVEN a program that is installed where only root can read it
    words = [str(tmp_path / "module.py"), "lab", "run", "--", "true"]
    # WHEN it is to give up its rights, in a process without the threads of this one
    ran = subprocess.run(
        [sys.executable, "-c", ALONE, *words], capture_output=True, text=True, check=False
    )
    # THEN it says so
    message = f"{tmp_path}/module.py cannot be read by user {OTHER}, who used sudo"
    assert (ran.returncode, message in " ".join(ran.stderr.split())) == (1, True), ran.stderr
