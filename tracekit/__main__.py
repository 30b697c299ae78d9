"""The program: `tracekit`, and `python -m tracekit` too."""

from __future__ import annotations

import gc
import os
import signal

OBJECTS_A_COLLECTION = 50_000


def main() -> None:
    """Run the program with few collections: modules are most of what a short command makes.

    None of them becomes garbage while they are loaded, those of the command line included.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Until the command line is there to end in order: nothing is begun that could be half done.
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    gc.set_threshold(OBJECTS_A_COLLECTION)
    from tracekit.cli import program

    program()


if __name__ == "__main__":
    main()
