"""What the guest wrote on its result disk: a tar archive, of which only plain files are taken."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path, PurePosixPath

from tracekit.errors import TracekitError


def unpack_result(disk: Path, folder: Path) -> None:
    """Unpack files and folders of the archive below the new `folder`.

    What a guest says is not trusted: links and devices are left out, a name that leads elsewhere
    is refused. Raise TracekitError when the archive is damaged.
    """
    folder.mkdir()
    try:
        with tarfile.open(disk, "r:") as archive:
            for member in archive:
                _take(archive, member, folder)
    except tarfile.TarError as error:
        raise TracekitError(f"what the guest brought cannot be read: {error}") from None


def _take(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts:
        raise TracekitError(f"what the guest brought has a file named {member.name!r}")
    target = folder / name
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
    elif member.isfile():
        source = archive.extractfile(member)
        target.parent.mkdir(parents=True, exist_ok=True)
        if source is not None:
            with source, target.open("wb") as file:
                shutil.copyfileobj(source, file)
