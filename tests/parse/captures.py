"""Captures on disk for the tests of `parse`."""

import json
from pathlib import Path
from typing import Any

from tests.decode.records import pack

LAYOUT: dict[str, Any] = {
    "layout_version": 1,
    "kernel": "6.18",
    "devices": [{"device": "loop0", "major": 7, "minor": 0, "size_sectors": 5000}],
    "partitions": [
        {
            "device": "loop0",
            "partition": "259,0",
            "name": "loop0p1",
            "start_sector": 2048,
            "sectors": 2000,
            "role": "fs",
            "filesystem": "ext4",
            "mount": "/mnt",
            "evidence": "mounted",
            "uuid": "u",
        }
    ],
    "processes": {"1": "writer"},
    "loss": {"overrun": 3, "dropped": 4},
}


def capture(folder: Path) -> Path:
    """Write a capture of two CPUs with a layout."""
    folder.mkdir()
    (folder / "c.blktrace.0").write_bytes(pack("100 A W 3048+8 of=259,0:1000\n101 Q W 3048+8"))
    (folder / "c.blktrace.1").write_bytes(pack("200 C W 3048+8 cpu=1"))
    (folder / "layout.json").write_text(json.dumps(LAYOUT))
    return folder
