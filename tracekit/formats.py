"""What the readers and the writers of other tools' formats share."""

from __future__ import annotations

import numpy as np

FILETIME_OF_1970 = 116_444_736_000_000_000
"""Windows file time of the Unix epoch, in units of 100 ns since 1601."""
ORACLE_RECORD = np.dtype([("time", "<u4"), ("object", "<u8"), ("size", "<u4"), ("next", "<i8")])
"""A record of an oracleGeneral file: seconds, object, bytes, position of the next access."""
