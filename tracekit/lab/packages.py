"""Packages of the distribution, through apt and without root: chosen, downloaded, unpacked."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tracekit.errors import TracekitError, UsageError

TOOLS = ("apt-get", "apt-cache", "dpkg-deb", "tar")
NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+")
ADMIN_PATH = "/usr/sbin:/sbin"
PATIENCE_S = 600.0


def find_tool(name: str) -> str | None:
    """Return the path of a program, also where a plain user's PATH does not look."""
    return shutil.which(name) or shutil.which(name, path=ADMIN_PATH)


def missing_tools(names: Sequence[str]) -> list[str]:
    """Return those of the programs that are not there."""
    return [name for name in names if find_tool(name) is None]


def run_tool(*command: str, folder: Path | None = None) -> str:
    """Run a program and return what it printed; raise TracekitError with its complaint."""
    try:
        done = subprocess.run(
            [find_tool(command[0]) or command[0], *command[1:]],
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TracekitError(f"{command[0]} did not end within {PATIENCE_S:.0f} s") from None
    except OSError as error:
        raise TracekitError(f"{command[0]} cannot be started: {error.strerror}") from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines() or [f"status {done.returncode}"]
        hint = "apt-get update, and the network, may help" if command[0] == "apt-get" else ""
        raise TracekitError(f"{command[0]}: {said[-1]}", hint=hint)
    return done.stdout


def check_names(packages: Sequence[str]) -> None:
    """Raise UsageError for what cannot be the name of a package."""
    for name in packages:
        if not NAME.fullmatch(name):
            raise UsageError(f"--package: '{name}' is not the name of a package")


def download(packages: Sequence[str], archives: Path) -> list[Path]:
    """Return the archives of the packages and of all that they depend on, downloaded if new.

    apt decides for a machine that has nothing, checks signatures and hashes, and installs nothing.
    """
    (archives / "partial").mkdir(parents=True, exist_ok=True)
    nothing = archives / "no-packages"
    nothing.touch()
    command = [
        *("apt-get", "-qq", "-y", "--no-install-recommends", "-o", f"Dir::State::status={nothing}"),
        *("-o", "Debug::NoLocking=1", "-o", "APT::Sandbox::User="),
    ]
    install = ["install", "--", *packages]
    # Only for an empty cache does apt name all archives.
    uris = run_tool(
        *command, "-o", f"Dir::Cache::archives={archives}/none", "--print-uris", *install
    )
    run_tool(*command, "-o", f"Dir::Cache::archives={archives}", "--download-only", *install)
    return [archives / line.split()[1] for line in uris.splitlines() if line.startswith("'")]


def download_kernel(package: str, archives: Path) -> Path:
    """Return the archive of the newest kernel that a package such as linux-image-amd64 names."""
    text = run_tool("apt-cache", "depends", "--important", package)
    found = re.search(r"^\s*Depends: (linux-image-\S+)$", text, re.MULTILINE)
    if found is None:
        raise TracekitError(f"{package} names no kernel", hint="the lab needs Debian and apt")
    archives.mkdir(parents=True, exist_ok=True)
    run_tool("apt-get", "-qq", "-o", "APT::Sandbox::User=", "download", found[1], folder=archives)
    return max(archives.glob(f"{found[1]}_*.deb"), key=lambda path: path.stat().st_mtime)


def unpack(archive: Path, root: Path) -> None:
    """Unpack the files of a package below `root`; none of its scripts runs."""
    tar = ["tar", "-x", "--keep-directory-symlink", "--no-same-owner", "-C", str(root)]
    with subprocess.Popen(
        ["dpkg-deb", "--fsys-tarfile", str(archive)], stdout=subprocess.PIPE
    ) as package:
        done = subprocess.run(
            tar, stdin=package.stdout, capture_output=True, text=True, check=False
        )
    if done.returncode or package.returncode:
        raise TracekitError(f"{archive} cannot be unpacked: {done.stderr.strip()}")
