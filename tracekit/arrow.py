"""Arrow arrays of numpy's, by their buffers: `pa.array` imports pandas, most of a short run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


def words_of(codes: NDArray[Any], words: Sequence[str]) -> pa.Array:
    """Return a dictionary array of words by their places; a negative place is null."""
    import numpy as np
    import pyarrow as pa

    places = array_of(codes.astype(np.int32), valid=codes >= 0)
    return pa.DictionaryArray.from_arrays(places, texts_of(words))


def array_of(values: NDArray[Any], *, valid: NDArray[np.bool_] | None = None) -> pa.Array:
    """Return an array of bool, int32 or int64 numbers, null where `valid` is not true."""
    import numpy as np
    import pyarrow as pa

    types = {"b": pa.bool_(), "i4": pa.int32(), "i8": pa.int64()}
    kind = types[values.dtype.str[1:].replace("b1", "b")]
    packed = np.packbits(values, bitorder="little") if kind == pa.bool_() else values
    bits = None
    if valid is not None and not valid.all():
        bits = pa.py_buffer(np.packbits(valid, bitorder="little"))
    data = pa.py_buffer(np.ascontiguousarray(packed))
    return pa.Array.from_buffers(kind, len(values), [bits, data])


def texts_of(words: Sequence[str]) -> pa.Array:
    """Return an array of strings."""
    import numpy as np
    import pyarrow as pa

    data = [word.encode() for word in words]
    ends = np.zeros(len(data) + 1, np.int64)
    np.cumsum([len(one) for one in data], out=ends[1:])
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(data))]
    return pa.Array.from_buffers(pa.large_string(), len(data), buffers).cast(pa.string())
