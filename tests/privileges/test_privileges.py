"""What runs with root's rights is root's own, and what it makes for somebody belongs to them."""

import ast
import os
import pwd
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.command_line import invoke, succeed
from tests.house.tree import ROOT, nodes, place, product
from tests.privileges.others import (
    NOBODY,
    OTHER,
    as_other,
    forked,
    looking,
    mode,
    owners,
    rights_of,
    seen,
)
from tracekit.durable import make_folder
from tracekit.errors import TracekitError, UsageError
from tracekit.helper_programs import find_helper, helper_environment, run_helper, why_missing
from tracekit.invoking_user import chosen_user, hand_over, invoking_user
from tracekit.lab import image
from tracekit.store import write_json

STEERED = {"LD_BIND_NOW": "1", "PYTHONPATH": "/nothing", "IFS": "x", "GLIBC_TUNABLES": "a=b"}


def program(folder: Path, name: str = "tool") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("#!/bin/sh\nenv\n")
    (folder / name).chmod(0o755)
    return folder / name


@pytest.mark.root
def test_a_helper_of_root_gets_nothing_that_steers_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{program(tmp_path / 'bin').parent}:/usr/bin:/bin")
    for name, value in {**STEERED, "LANG": "C", "PERL5OPT": "-d"}.items():
        monkeypatch.setenv(name, value)
    # WHEN it shows its variables
    shown = run_helper(["tool"], variables={"LC_ALL": "C"}, capture_output=True, text=True).stdout
    variables = dict(line.split("=", 1) for line in shown.splitlines())
    # THEN those that choose what it loads are gone, and others are there
    assert not {*STEERED, "PERL5OPT"} & variables.keys()
    assert (variables["LANG"], variables["LC_ALL"]) == ("C", "C")


@pytest.mark.parametrize("opened", ["owner", "group", "others", "sticky", "above"])
def test_root_runs_no_program_that_others_can_replace(
    theirs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: str
) -> None:
    # GIVEN a folder in front of PATH that somebody else can change, or put another in its place
    folder = theirs / "bin" if opened == "above" else tmp_path / "bin"
    bad, good = program(folder), program(tmp_path / "safe")
    if opened == "owner":
        os.chown(folder, OTHER, 0)
    elif opened == "group":
        os.chown(folder, 0, OTHER)
        folder.chmod(0o775)
    elif opened in ("others", "sticky"):
        folder.chmod(0o757 if opened == "others" else 0o1777)
    # THEN the next one is taken, or none with the reason
    monkeypatch.setenv("PATH", f"{folder}:{good.parent}")
    assert find_helper("tool") == str(good)
    monkeypatch.setenv("PATH", f"{folder}:bin")
    assert find_helper("tool") is None
    assert why_missing("tool") == f"{bad} is not run by root: others than root can replace it"
    with pytest.raises(TracekitError, match="others than root can replace it"):
        run_helper(["tool"])


@pytest.mark.root
def test_folders_of_root_stay_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN one below a folder in which only owners remove files, and one that is not there
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    folder = program(tmp_path / "shared/bin").parent
    path = f"{folder}:{tmp_path}/nothing:/usr/bin"
    monkeypatch.setenv("PATH", path)
    assert helper_environment()["PATH"] == path


@pytest.mark.usefixtures("theirs")
def test_a_plain_user_keeps_path_and_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_BIND_NOW", "1")
    monkeypatch.setenv("PATH", f"relative:{os.environ['PATH']}")
    assert as_other(lambda: helper_environment() == dict(os.environ)) == "True"


STARTERS = {"run", "Popen", "call", "check_call", "check_output", "system", "popen", "fork"}
ALLOWED = {
    "tracekit/helper_programs.py",  # programs of others
    "tracekit/capture/command.py",  # the user's own command
    "tracekit/_native/players.py",  # the replay program, found beside the package
}


def test_every_program_is_started_in_one_of_three_places() -> None:
    found = {
        place(path)
        for path in product()
        for node in nodes(path)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in ("subprocess", "os")
        and (
            node.func.attr in STARTERS
            or node.func.attr.startswith(("exec", "spawn", "posix_spawn"))
        )
    }
    assert found == ALLOWED


def test_no_name_in_a_shared_folder_can_be_guessed() -> None:
    # Those of tempfile are random; the guest's scripts are alone in their machine.
    sources = [*product(), *(ROOT / "replayer").rglob("*.[ch]")]
    shared = re.compile(r"""["'](/tmp|/var/tmp|/dev/shm|/var/lock|/run/lock)\b""")
    assert [str(path) for path in sources if shared.search(path.read_text())] == []


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


@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")
def test_the_command_has_the_rights_of_who_used_sudo(
    theirs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN variables that steer programs, and a command that shows its rights and variables
    for name, value in {"SUDO_UID": OTHER, "SUDO_GID": OTHER, "PYTHONPATH": "/nothing"}.items():
        monkeypatch.setenv(name, str(value))
    options = ("--repeat", "1", "--events", "page-faults", "-o", theirs / "out")
    succeed("counters", *options, "--", *looking(theirs / "seen"))
    # THEN it had no right of root, and all variables; perf counted, and what it wrote is theirs
    rights, variables = seen(theirs / "seen")
    assert rights == rights_of(OTHER, OTHER)
    assert (variables["PYTHONPATH"], variables["USER"]) == ("/nothing", str(OTHER))
    (counted,) = pq.read_table(theirs / "out/counters/counters.parquet")["count"].to_pylist()
    assert counted > 50
    assert owners(theirs) == {(OTHER, OTHER)}
