"""What is in object storage, read without the code under test: by pyarrow alone."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from pyarrow.fs import FileSelector, FileSystem


def objects(url: str) -> dict[str, bytes]:
    """Return the content of all objects of a folder by their names in it."""
    system, root = FileSystem.from_uri(url.replace(" ", "%20"))
    listed = system.get_file_info(FileSelector(root, recursive=True, allow_not_found=True))
    return {
        one.path[len(root) + 1 :]: system.open_input_stream(one.path, compression=None).read()
        for one in listed
        if one.is_file
    }


def put(url: str, content: bytes) -> None:
    system, path = FileSystem.from_uri(url)
    if url.startswith("file:"):
        system.create_dir(path.rpartition("/")[0], recursive=True)
    with system.open_output_stream(path, compression=None) as out:
        out.write(content)


def remove(url: str) -> None:
    system, path = FileSystem.from_uri(url)
    system.delete_file(path)


def files(url: str) -> dict[str, str]:
    """Return the digests of a volume's files by place; all objects are in its list, as it says."""
    found = objects(url)
    listed = json.loads(found.pop("files.json"))["files"]
    assert {one["object"] for one in listed.values()} == {*found}
    for one in listed.values():
        assert one["sha256"] == hashlib.sha256(found[one["object"]]).hexdigest()
        assert one["bytes"] == len(found[one["object"]])
    return {place: one["sha256"] for place, one in listed.items()}


def listed_files(url: str) -> dict[str, str]:
    """Return the same, where objects may be left over that are in no list."""
    found = objects(url)
    listed = json.loads(found["files.json"])["files"]
    return {
        place: hashlib.sha256(found[one["object"]]).hexdigest() for place, one in listed.items()
    }


def files_here(folder: Path) -> dict[str, str]:
    """Return the same of a folder of this machine."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }
