"""Run a command with little memory, so that its reads reach the disk as on a busy machine."""

import os
import sys
from pathlib import Path

V1 = Path("/sys/fs/cgroup/memory")
V2 = Path("/sys/fs/cgroup")


def enter_group(name: str, limit_bytes: int) -> None:
    """Put this process into a new memory control group; its page cache counts as well."""
    version_1 = (V1 / "memory.limit_in_bytes").exists()
    group = (V1 if version_1 else V2) / name
    group.mkdir(exist_ok=True)
    limit = group / ("memory.limit_in_bytes" if version_1 else "memory.max")
    limit.write_text(str(limit_bytes))
    (group / "cgroup.procs").write_text(str(os.getpid()))


def remove_group(name: str) -> None:
    """Remove the empty group."""
    for root in (V1, V2):
        if (root / name).is_dir():
            (root / name).rmdir()


if __name__ == "__main__":
    enter_group(sys.argv[1], int(sys.argv[2]) << 20)
    os.execvp(sys.argv[3], sys.argv[3:])  # noqa: S606 - becoming the command is the purpose
