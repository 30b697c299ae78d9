"""The guest's drivers: which modules of the kernel, in which order, and the first file system."""

from __future__ import annotations

import lzma
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tracekit.errors import TracekitError

WANTED = (
    *("crc32c_generic", "virtio_pci", "virtio_blk", "ext4", "overlay", "configfs"),
    *("libnvdimm", "nd_e820", "nd_pmem", "null_blk", "dm_mod", "dm_flakey"),
    *("device_dax", "dax_pmem"),
)
"""Modules that the guest uses; what they depend on comes along."""
PARAMETERS = {"null_blk": "nr_devices=0"}
SIGNED = b"~Module signature appended~\n"
SIGNATURE_FACTS = struct.Struct(">8xI")
"""The kernel's struct module_signature, of which only the length of the signature is read."""
_SUFFIX = re.compile(r"\.ko(\.xz)?$")
_FACT = re.compile(rb"(?:^|\0)(depends|softdep)=([^\0]*)")


def in_loading_order(modules: Path) -> list[Path]:
    """Return the files of WANTED and of their dependencies, each behind what it needs."""
    files = {_name(path): path for path in modules.rglob("*.ko*") if _SUFFIX.search(path.name)}
    order: list[Path] = []

    def add(name: str, *, is_soft: bool = False) -> None:
        if name not in files:
            if is_soft:
                return
            raise TracekitError(f"the kernel package has no module {name}")
        path = files[name]
        if path not in order:
            for needed, softly in _needs(_content(path)):
                add(needed, is_soft=softly)
            order.append(path)

    for name in WANTED:
        add(name)
    return order


def _name(path: Path) -> str:
    return _SUFFIX.sub("", path.name).replace("-", "_")


def _content(path: Path) -> bytes:
    data = path.read_bytes()
    return lzma.decompress(data) if path.suffix == ".xz" else data


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
        text = value.decode("ascii", "replace")
        if kind == b"depends":
            for name in filter(None, text.split(",")):
                yield name.replace("-", "_"), False
        else:
            before = text.partition("pre:")[2].partition("post:")[0]
            for name in before.split():
                yield name.replace("-", "_"), True


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
        (tree / f"modules/{name}.ko").write_bytes(without_signature(_content(path)))
        order += f"{name}.ko {PARAMETERS.get(name, '')}\n"
    (tree / "modules/order").write_text(order)
    members = sorted(str(path.relative_to(tree)) for path in tree.rglob("*"))
    # The guest's own program packs it: the host needs no cpio.
    done = subprocess.run(
        [str(tree / "bin/busybox"), "cpio", "-o", "-H", "newc"],
        input="".join(f"{name}\n" for name in members).encode(),
        cwd=tree,
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        raise TracekitError(f"busybox cpio: {done.stderr.decode(errors='replace').strip()}")
    target.write_bytes(done.stdout)
    shutil.rmtree(tree)
