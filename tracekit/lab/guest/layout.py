"""Print the layout of the disks that a file names, as `tracekit capture` would save it.

Runs in the guest, with the host's modules on its path and nothing beside the standard library.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tracekit.capture.layout import find_disk, read_layout
from tracekit.capture.mounts import read_mounts


def main() -> None:
    """Print one layout of all disks: what each has is added to the first one's."""
    disks = Path(sys.argv[1]).read_text().split()
    layouts = [read_layout(find_disk(disk), read_mounts()) for disk in disks]
    for key in ("devices", "partitions"):
        layouts[0][key] = [entry for layout in layouts for entry in layout[key]]
    sys.stdout.write(json.dumps(layouts[0]))


main()
