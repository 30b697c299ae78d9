"""The parts of a guest that last: kernel, drivers and root file system, made once and kept."""

from __future__ import annotations

import fcntl
import hashlib
import lzma
import os
import platform
import re
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tracekit.errors import TracekitError, UsageError
from tracekit.helper_programs import find_helper, run_helper, start_helper
from tracekit.store import new_folder, write_json
from tracekit.units import SECTOR_BYTES

WANTED = (
    *("crc32c_generic", "virtio_pci", "virtio_blk", "ext4", "overlay", "configfs"),
    *("libnvdimm", "nd_e820", "nd_pmem", "null_blk", "dm_mod", "dm_flakey"),
    *("device_dax", "dax_pmem", "nvme", "quota_v2"),
)
"""Modules that the guest uses; what they depend on comes along."""
PARAMETERS = {"null_blk": "nr_devices=0", "nvme": "poll_queues=1"}
"""nvme takes no more polled queues than the machine has processors: one where time is exact."""
SIGNED = b"~Module signature appended~\n"
SIGNATURE_FACTS = struct.Struct(">8xI")
"""The kernel's struct module_signature, of which only the length of the signature is read."""
_SUFFIX = re.compile(r"\.ko(\.xz)?$")
_FACT = re.compile(rb"(?:^|\0)(depends|softdep)=([^\0]*)")


def in_loading_order(modules: Path, wanted: Sequence[str] = WANTED) -> list[Path]:
    """Return the files of these modules and of their dependencies, each behind what it needs."""
    files = {_name(path): path for path in modules.rglob("*.ko*") if _SUFFIX.search(path.name)}
    order: list[Path] = []

    def add(name: str, *, is_soft: bool = False) -> None:
        if name not in files and not is_soft:
            raise TracekitError(f"the kernel package has no module {name}")
        path = files.get(name)
        if path is not None and path not in order:
            for needed, softly in _needs(_content(path)):
                add(needed, is_soft=softly)
            order.append(path)

    for name in wanted:
        add(name)
    return order


def _name(path: Path) -> str:
    return _SUFFIX.sub("", path.name).replace("-", "_")


def _content(path: Path) -> bytes:
    data = path.read_bytes()
    return lzma.decompress(data) if path.suffix == ".xz" else data


def loadable(path: Path) -> bytes:
    """Return a module as a guest loads it: neither packed nor signed."""
    return without_signature(_content(path))


def without_signature(module: bytes) -> bytes:
    """Return a module without the signature behind it.

    A guest without KVM takes longer to check those of all its modules than to load them. It has no
    secure boot, so the kernel takes a module without one, but not one with a damaged one.
    """
    if not module.endswith(SIGNED):
        return module
    facts_at = len(module) - len(SIGNED) - SIGNATURE_FACTS.size
    (length,) = SIGNATURE_FACTS.unpack_from(module, facts_at)
    return module[: facts_at - length]


def _needs(module: bytes) -> Iterator[tuple[str, bool]]:
    """Yield the names of the modules that a module depends on, and whether it can do without."""
    for kind, value in _FACT.findall(module):
        text, is_soft = value.decode("ascii", "replace").replace("-", "_"), kind == b"softdep"
        if is_soft:
            text = text.partition("pre:")[2].partition("post:")[0]
        for name in text.replace(",", " ").split():
            yield name, is_soft


def make_initramfs(target: Path, *, modules: list[Path], busybox: Path, init: Path) -> None:
    """Write the guest's first file system: busybox, the modules in their order, and `init`."""
    tree = target.with_name("initramfs")
    (tree / "bin").mkdir(parents=True)
    (tree / "modules").mkdir()
    shutil.copy(busybox, tree / "bin/busybox")
    shutil.copy(init, tree / "init")
    (tree / "init").chmod(0o755)
    order = ""
    for path in modules:
        name = _name(path)
        (tree / f"modules/{name}.ko").write_bytes(loadable(path))
        order += f"{name}.ko {PARAMETERS.get(name, '')}\n"
    (tree / "modules/order").write_text(order)
    members = sorted(str(path.relative_to(tree)) for path in tree.rglob("*"))
    # The guest's own program packs it: the host needs no cpio.
    done = run_helper(
        [str(tree / "bin/busybox"), "cpio", "-o", "-H", "newc"],
        input="".join(f"{name}\n" for name in members).encode(),
        cwd=tree,
        capture_output=True,
    )
    if done.returncode != 0:
        raise TracekitError(f"busybox cpio: {done.stderr.decode(errors='replace').strip()}")
    target.write_bytes(done.stdout)
    shutil.rmtree(tree)


# The setup header of Linux on x86, Documentation/arch/x86/boot.rst.
SETUP_SECTORS = 0x1F1
MAGIC = (0x202, b"HdrS")
VERSION_OFFSET = 0x206
PAYLOAD_OFFSET = 0x248
OLDEST_WITH_PAYLOAD = 0x0208
XZ = b"\xfd7zXZ\x00"
ELF = b"\x7fELF"


def unpack_kernel(packed: Path, target: Path) -> None:
    """Write the ELF kernel that a Debian vmlinuz holds; QEMU starts it through its PVH entry.

    One that is packed in another way than by xz is copied: it unpacks itself, which takes longer.
    Raise TracekitError where the file is no kernel or is damaged.
    """
    data = packed.read_bytes()
    payload = _payload(data)
    if not payload:
        raise TracekitError(f"{packed}: no packed Linux kernel")
    if not payload.startswith(XZ):
        target.write_bytes(data)
        return
    try:
        # Behind the stream lies the size of its content: a decompressor ends before it.
        unpacking = lzma.LZMADecompressor(lzma.FORMAT_XZ)
        kernel = unpacking.decompress(payload)
    except lzma.LZMAError as error:
        raise TracekitError(f"{packed}: the packed kernel is damaged: {error}") from None
    if not unpacking.eof:
        raise TracekitError(f"{packed}: the packed kernel is damaged: it ends too early")
    if not kernel.startswith(ELF):
        raise TracekitError(f"{packed}: what is packed in it is no kernel")
    target.write_bytes(kernel)


def _payload(data: bytes) -> bytes:
    """Return what the setup header says is the packed kernel; nothing if there is no header."""
    at, magic = MAGIC
    if len(data) < PAYLOAD_OFFSET + 8 or data[at : at + len(magic)] != magic:
        return b""
    (version,) = struct.unpack_from("<H", data, VERSION_OFFSET)
    if version < OLDEST_WITH_PAYLOAD:
        return b""
    offset, length = struct.unpack_from("<II", data, PAYLOAD_OFFSET)
    # Zero means four, as it did when the field was made.
    begin = ((data[SETUP_SECTORS] or 4) + 1) * SECTOR_BYTES + offset
    return data[begin : begin + length]


TOOLS = ("apt-get", "apt-cache", "dpkg-deb", "tar")
NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+")
ADMIN_PATH = "/usr/sbin:/sbin"
PATIENCE_S = 600.0


def find_tool(name: str) -> str | None:
    """Return the path of a program, also where a plain user's PATH does not look."""
    return find_helper(name) or shutil.which(name, path=ADMIN_PATH)


def missing_tools(names: Iterable[str]) -> list[str]:
    """Return those of the programs that are not there."""
    return [name for name in names if find_tool(name) is None]


def run_tool(*command: str, folder: Path | None = None) -> str:
    """Run a program and return what it printed; raise TracekitError with its complaint."""
    try:
        done = run_helper(
            [find_tool(command[0]) or command[0], *command[1:]],
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE_S,
        )
    except subprocess.TimeoutExpired:
        raise TracekitError(f"{command[0]} did not end within {PATIENCE_S:.0f} s") from None
    except OSError as error:
        raise TracekitError(f"{command[0]} cannot be started: {error.strerror}") from None
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines() or [f"status {done.returncode}"]
        hint = "apt-get update, and the network, may help" if command[0] == "apt-get" else ""
        raise TracekitError(f"{command[0]}: {lines[-1]}", hint=hint)
    printed: str = done.stdout
    return printed


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
    packed = ["dpkg-deb", "--fsys-tarfile", str(archive)]
    with start_helper(packed, stdout=subprocess.PIPE) as package:
        done = run_helper(tar, stdin=package.stdout, capture_output=True, text=True)
    if done.returncode or package.returncode:
        raise TracekitError(f"{archive} cannot be unpacked: {done.stderr.strip()}")


QEMU = "qemu-system-x86_64"
NEEDED = {QEMU: "qemu-system-x86", "mke2fs": "e2fsprogs"}
KERNEL = "linux-image-amd64"
PACKAGES = (
    *("bash", "blktrace", "busybox-static", "coreutils", "dash", "dmsetup", "e2fsprogs", "fdisk"),
    *("findutils", "grep", "mount", "ndctl", "python3", "sed", "tar", "util-linux"),
)
GUEST = Path(__file__).resolve().parent / "guest"
ABOUT = "image.json"
IMAGE_VERSION = 2
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
    """Return what is missing on this machine for a guest, and how to get it; None if nothing."""
    if platform.machine() != "x86_64":
        return f"the lab has guests for x86-64 only, this is {platform.machine()}"
    if missing := missing_tools(NEEDED):
        packages = " ".join(NEEDED[name] for name in missing)
        return f"{', '.join(missing)} not on PATH: apt install {packages}"
    return None


def find_image(packages: Sequence[str] = ()) -> Image:
    """Return the image with these packages beside the lab's own, whether or not it is built.

    Raise UsageError for what cannot be the name of a package.
    """
    for name in packages:
        if not NAME.fullmatch(name):
            raise UsageError(f"--package: '{name}' is not the name of a package")
    names = tuple(sorted({*PACKAGES, *packages}))
    init = (GUEST / "init").read_text()
    made_of = "\n".join([str(IMAGE_VERSION), *names, *WANTED, *PARAMETERS.values(), init])
    key = hashlib.sha256(made_of.encode()).hexdigest()[:16]
    return Image(cache_folder() / f"image-{key}", names)


def build(
    packages: Sequence[str] = (), *, again: bool = False, on_step: Callable[[str], None]
) -> Image:
    """Return a built image; what is there is taken unless `again`.

    Raise TracekitError when a tool is missing or apt cannot get a package.
    """
    image = find_image(packages)
    if reason := reason_not_to_run():
        raise TracekitError(f"no lab on this machine: {reason}")
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / "lock").open("w") as lock:
        # One build at a time uses the cache; the next one waits.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if image.is_built and not again:
            return image
        if missing := missing_tools(TOOLS):
            raise TracekitError(
                f"no lab can be built: {', '.join(missing)} not on PATH",
                hint="the lab is made of Debian's packages",
            )
        with new_folder(image.folder, overwrite=True, marker=ABOUT) as part:
            _make(Image(part, image.packages), on_step)
    return image


def _make(image: Image, on_step: Callable[[str], None]) -> None:
    archives = cache_folder() / "archives"
    on_step("downloading packages")
    found = download(image.packages, archives)
    kernel = download_kernel(KERNEL, archives)
    on_step("unpacking packages")
    root, kernel_tree = image.folder / "root", image.folder / "kernel"
    # Packages expect these folders to be there.
    for name in MERGED:
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    for name in FOLDERS:
        (root / name).mkdir(parents=True, exist_ok=True)
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
