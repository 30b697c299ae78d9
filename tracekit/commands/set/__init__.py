"""`tracekit set`: many traces in one folder, one file each of what can be done with it."""

from __future__ import annotations


def set() -> None:  # noqa: A001 - the word of the command
    """Keep the traces of many volumes in one folder, for commands that take them all.

    A trace set is a folder of trace folders, its volumes, and a catalogue, set.json, which is made
    from them; it can be in object storage, as s3://BUCKET/FOLDER. `tracekit import --split-by
    volume` makes one of a trace of many volumes, add makes one of trace folders. A volume that is
    missing or damaged is named and left out, with exit code 3; the others go on.
    """
