"""`tracekit set groups`: the volumes of a set that behave alike."""

from __future__ import annotations

import tracekit as tk
from tracekit.commands import options


def groups(place: options.TraceSet, *, as_json: options.Json = False) -> None:
    """Group the volumes that behave alike, after `analyze`, each with a typical member.

    By rate, burstiness, working set, shares of writes, of random requests and of updates, and skew
    of reads and writes; how many groups there are is chosen by how well they are apart.
    """
    options.show(tk.open_set(place).groups(), as_json=as_json)
