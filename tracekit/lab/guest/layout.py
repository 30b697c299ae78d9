"""Print the layout of the disks that a file names, as `tracekit capture` would save it.

Runs in the guest, with the host's modules on its path and nothing beside the standard library.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tracekit.capture.layout import find_disks, read_layout
from tracekit.stack.mounts import read_mounts


def main() -> None:
    """Print one layout of all disks."""
    disks = find_disks(Path(sys.argv[1]).read_text().split())
    sys.stdout.write(json.dumps(read_layout(disks, read_mounts())))


main()
