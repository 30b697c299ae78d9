"""`tracekit simulate rivals`: caches of the same capacity beside the recommendation."""

from __future__ import annotations

from typing import Any

import tracekit as tk
from tracekit.commands import options


@options.of(tk.Simulate.rivals, placement=options.PLACEMENT)
def rivals(trace: options.Recommended, *, as_json: options.Json = False, **chosen: Any) -> None:
    """Say whether a cache beats the recommended placement: dm-cache, bcache and others."""
    options.show(tk.open(trace).simulate.rivals(**chosen), as_json=as_json)
