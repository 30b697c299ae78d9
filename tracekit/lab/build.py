"""The parts of a guest that last: kernel, drivers and root file system, made once and kept."""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tracekit.errors import TracekitError
from tracekit.lab.drivers import WANTED, in_loading_order, make_initramfs
from tracekit.lab.kernel import unpack_kernel
from tracekit.lab.packages import (
    TOOLS,
    check_names,
    download,
    download_kernel,
    missing_tools,
    run_tool,
    unpack,
)
from tracekit.store import new_folder, write_json

QEMU = "qemu-system-x86_64"
NEEDED = {QEMU: "qemu-system-x86", "mke2fs": "e2fsprogs"}
KERNEL = "linux-image-amd64"
PACKAGES = (
    *("bash", "blktrace", "busybox-static", "coreutils", "dash", "dmsetup", "e2fsprogs", "fdisk"),
    *("findutils", "grep", "mount", "ndctl", "python3", "sed", "tar", "util-linux"),
)
GUEST = Path(__file__).resolve().parent / "guest"
ABOUT = "image.json"
VERSION = 2
"""Raised when an image that was made before can no longer be used."""
MERGED = ("bin", "sbin", "lib", "lib64")
FOLDERS = ("dev", "lab", "mnt", "out", "proc", "root", "run", "sys", "tmp", "etc", "opt/busybox")
ALTERNATIVES = ("blas", "lapack", "pulseaudio")
"""Folders below the libraries' folder that a package's script would have linked into it."""


@dataclass(frozen=True)
class Image:
    """What is kept of a build."""

    folder: Path
    packages: tuple[str, ...]

    @property
    def kernel(self) -> Path:
        """Return the kernel that QEMU starts, unpacked."""
        return self.folder / "vmlinux"

    @property
    def initramfs(self) -> Path:
        """Return the guest's first file system."""
        return self.folder / "initramfs.cpio"

    @property
    def root(self) -> Path:
        """Return the ext4 image with the packages; a guest never writes to it."""
        return self.folder / "root.img"

    @property
    def is_built(self) -> bool:
        """Say whether the build is there."""
        return (self.folder / ABOUT).is_file()


def cache_folder() -> Path:
    """Return where the lab keeps what it made: tracekit/lab in the user's cache folder."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "tracekit/lab"


def reason_not_to_run() -> str | None:
    """Say what this machine lacks for a guest, with the way to get it; None if nothing."""
    if platform.machine() != "x86_64":
        return f"the lab has guests for x86-64 only, this is {platform.machine()}"
    lacking = missing_tools(list(NEEDED))
    if lacking:
        packages = " ".join(NEEDED[name] for name in lacking)
        return f"{', '.join(lacking)} not on PATH: apt install {packages}"
    return None


def find_image(packages: Sequence[str] = ()) -> Image:
    """Return the image with these packages beside the lab's own, whether or not it is built."""
    check_names(packages)
    names = tuple(sorted({*PACKAGES, *packages}))
    made_of = "\n".join([str(VERSION), *names, *WANTED, (GUEST / "init").read_text()])
    key = hashlib.sha256(made_of.encode()).hexdigest()[:16]
    return Image(cache_folder() / f"image-{key}", names)


def build(
    packages: Sequence[str] = (), *, again: bool = False, on_step: Callable[[str], None]
) -> Image:
    """Return a built image; what is there is taken unless `again`.

    Raise TracekitError when the machine lacks a tool or apt cannot get a package.
    """
    reason = reason_not_to_run()
    if reason:
        raise TracekitError(f"no lab on this machine: {reason}")
    image = find_image(packages)
    cache_folder().mkdir(parents=True, exist_ok=True)
    with _only_build():
        if image.is_built and not again:
            return image
        lacking = missing_tools(TOOLS)
        if lacking:
            raise TracekitError(
                f"no lab can be built: {', '.join(lacking)} not on PATH",
                hint="the lab is made of Debian's packages",
            )
        with new_folder(image.folder, overwrite=True, marker=ABOUT) as part:
            _make(Image(part, image.packages), on_step)
    return image


@contextmanager
def _only_build() -> Iterator[None]:
    """Let one build at a time use the cache; the next one waits."""
    with (cache_folder() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(image: Image, on_step: Callable[[str], None]) -> None:
    archives = cache_folder() / "archives"
    on_step("downloading packages")
    found = download(image.packages, archives)
    kernel = download_kernel(KERNEL, archives)
    on_step("unpacking packages")
    root, kernel_tree = image.folder / "root", image.folder / "kernel"
    _lay_out(root)
    for archive in found:
        unpack(archive, root)
    _finish_root(root)
    _compile_python(root)
    kernel_tree.mkdir()
    unpack(kernel, kernel_tree)
    on_step("making images")
    modules = in_loading_order(kernel_tree)
    make_initramfs(
        image.initramfs, modules=modules, busybox=root / "bin/busybox", init=GUEST / "init"
    )
    unpack_kernel(next(kernel_tree.glob("boot/vmlinuz-*")), image.kernel)
    make_file_system(image.root, root, spare_bytes=64 << 20)
    shutil.rmtree(root)
    shutil.rmtree(kernel_tree)
    about = {"kernel": kernel.name, "packages": list(image.packages), "archives": len(found)}
    write_json(image.folder / ABOUT, about)


def _lay_out(root: Path) -> None:
    """Make the folders that a package expects to be there."""
    for name in MERGED:
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    for name in FOLDERS:
        (root / name).mkdir(parents=True, exist_ok=True)


def _finish_root(root: Path) -> None:
    """Do what the packages' scripts would have done and the guest needs."""
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    (root / "etc/hosts").write_text("127.0.0.1 localhost lab\n")
    shell = root / "usr/bin/sh"
    if not shell.exists():
        shell.symlink_to("dash")
    for name in run_tool(str(root / "bin/busybox"), "--list").split():
        (root / "opt/busybox" / name).symlink_to("/bin/busybox")
    (root / "opt/busybox/busybox").unlink(missing_ok=True)
    (root / "opt/busybox/busybox").symlink_to("/bin/busybox")
    libraries = root / "usr/lib/x86_64-linux-gnu"
    for folder in ALTERNATIVES:
        for path in (libraries / folder).glob("*.so*"):
            if not (libraries / path.name).exists():
                (libraries / path.name).symlink_to(f"{folder}/{path.name}")


def _compile_python(root: Path) -> None:
    """Let the guest's own Python compile its library, which a guest would do anew in each run."""
    loader, libraries = root / "lib64/ld-linux-x86-64.so.2", root / "usr/lib/x86_64-linux-gnu"
    python = (str(loader), "--library-path", str(libraries), str(root / "usr/bin/python3"))
    how = ("-q", "-j", "0", "--invalidation-mode", "unchecked-hash", "-s", str(root), "-p", "/")
    folders = [str(path) for path in sorted((root / "usr/lib").glob("python3*"))]
    run_tool("env", f"PYTHONHOME={root}/usr", *python, "-m", "compileall", *how, *folders)


def make_file_system(image: Path, tree: Path, *, spare_bytes: int) -> None:
    """Make an ext4 image file with the content of `tree`, without a mount and without root."""
    used = [path.lstat().st_size for path in tree.rglob("*")]
    # A file takes whole blocks, and an inode beside them.
    size = spare_bytes + sum(-(-file // 4096) * 4096 + 1024 for file in used) * 11 // 10
    with image.open("xb") as file:
        file.truncate(-(-size // 4096) * 4096)
    options = ["-q", "-t", "ext4", "-b", "4096", "-O", "^has_journal", "-E", "root_owner=0:0"]
    inodes = len(used) + 4096
    run_tool("mke2fs", *options, "-N", str(inodes), "-d", str(tree), str(image))
