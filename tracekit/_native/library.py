"""The shared library as its C headers declare it, for numpy arrays and plain Python values."""

from __future__ import annotations

import errno
import functools
import os
import weakref
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tracekit._native import library_path
from tracekit._native.declarations import ffi  # the build makes it of replayer/tracekit.h
from tracekit.errors import TracekitError

CData = Any
"""A value of C."""
FLOATS = ("float", "double")
POINTED_TO = (np.ndarray, list, tuple, type(None))
"""What a function gets a pointer to the items of, or NULL."""

_targets: weakref.WeakKeyDictionary[CData, list[CData]] = weakref.WeakKeyDictionary()


@functools.cache
def library() -> CData:
    """Load the shared library once; its functions release the GIL.

    Raise TracekitError when its interface is not the one that this package was built for.
    """
    path = library_path()
    # It stays where it is when Python ends: objects that are freed then call it.
    native = ffi.dlopen(str(path), os.RTLD_NOW | os.RTLD_NODELETE)
    found, expected = native.tk_interface_version(), constant("TK_INTERFACE_VERSION")
    if found != expected:
        raise TracekitError(
            f"{path} has interface {found}, not {expected}", hint="build it: make setup"
        )
    return native


def constant(name: str) -> int:
    """Return a macro or an enumerator of the headers."""
    return int(ffi.integer_const(name))


def enumerators(enumeration: str, prefix: str) -> tuple[str, ...]:
    """Return the names of an enumeration by value: without their prefix, in lower case."""
    values = ffi.typeof(f"enum {enumeration}").relements
    return tuple(name.removeprefix(prefix).lower() for name in sorted(values, key=values.get))


@functools.cache
def dtype_of(kind: str) -> np.dtype[Any]:
    """Return the type of numpy that lies in memory as one of C: `struct page_run`."""
    found: np.dtype[Any] = np.dtype(_layout(ffi.typeof(kind)))
    return found


def _layout(kind: CData) -> Any:
    if kind.kind == "struct":
        fields = [(name, _layout(field.type), field.offset) for name, field in kind.fields]
        names, formats, offsets = map(list, zip(*fields, strict=True))
        size = ffi.sizeof(kind)
        return {"names": names, "formats": formats, "offsets": offsets, "itemsize": size}
    if kind.kind == "array":
        is_text = kind.item.cname == "char"
        return f"S{kind.length}" if is_text else (_layout(kind.item), (kind.length,))
    is_signed = int(ffi.cast(kind, -1)) < 0
    letter = "f" if kind.cname in FLOATS else "i" if is_signed else "u"
    return f"<{letter}{ffi.sizeof(kind)}"


def struct(kind: str, /, **fields: Any) -> CData:
    """Return a new structure, zero but for these fields: `struct("cache_setup", capacity=8)`.

    Arrays of numpy and sequences are pointed to, and stay as long as the structure; a mapping or a
    dataclass is a structure inside.
    """
    targets: list[CData] = []
    whole = ffi.typeof(f"struct {kind}")
    made = ffi.new(f"struct {kind} *", _initializer(whole, fields, targets))
    _targets[made] = targets
    return made


def structs(kind: str, items: Sequence[Any]) -> CData:
    """Return an array of new structures, each as `struct` makes it of a mapping or a dataclass."""
    return _pointer(ffi.typeof(f"struct {kind} *"), items)


def columns_for(kind: str, columns: Any) -> dict[str, NDArray[Any]]:
    """Return a dataclass's arrays as a structure points to them: of its types, without gaps."""
    fields = dict(ffi.typeof(f"struct {kind}").fields)
    return {
        name: np.ascontiguousarray(column, _layout(fields[name].type.item))
        for name, column in vars(columns).items()
    }


def _initializer(kind: CData, value: Any, targets: list[CData]) -> Any:
    """Return what cffi takes for a value of this type; `targets` keeps what it points to."""
    if kind.kind == "struct":
        fields = dict(kind.fields)
        items = value.items() if isinstance(value, Mapping) else vars(value).items()
        return {name: _initializer(fields[name].type, item, targets) for name, item in items}
    if kind.kind != "pointer" or isinstance(value, ffi.CData):
        return value
    made = _pointer(kind, value)
    targets.append(made)
    return made


def _pointer(kind: CData, value: Any) -> CData:
    """Return what points to the items of an array or a sequence, or to text."""
    if value is None:
        return ffi.NULL
    if isinstance(value, np.ndarray):
        if value.itemsize != ffi.sizeof(kind.item) or not value.flags.c_contiguous:
            raise TypeError(f"an array of {value.dtype} where the library takes {kind.cname}")
        return ffi.from_buffer(kind, value)
    if isinstance(value, bytes):
        return ffi.new("char[]", value)
    targets: list[CData] = []
    items = [_initializer(kind.item, item, targets) for item in value]
    made = ffi.new(ffi.typeof(f"{kind.item.cname}[]"), items)
    _targets[made] = targets
    return made


def plain(value: CData) -> Any:
    """Return a value of C for Python: a structure as a dictionary, an array as a tuple or bytes."""
    if not isinstance(value, ffi.CData):
        return value
    kind = ffi.typeof(value)
    if kind.kind == "pointer":
        return plain(value[0])
    if kind.kind == "struct":
        return {name: plain(getattr(value, name)) for name, _ in kind.fields}
    is_text = kind.item.cname == "char"
    return ffi.string(value) if is_text else tuple(plain(item) for item in value)


def text_at(pointer: CData, size: int | None = None) -> bytes:
    """Return the text that ends with a zero byte, or has so many bytes; nothing for NULL."""
    if pointer == ffi.NULL:
        return b""
    found = ffi.string(pointer) if size is None else ffi.buffer(pointer, size)[:]
    return bytes(found)


def array(kind: str, items: Any) -> CData:
    """Return an array of these items, or of so many zeros."""
    return ffi.new(f"{kind}[]", items)


def out(kind: str, value: Any = None) -> CData:
    """Return a place for the library to write a value to, which is then `[0]`."""
    return ffi.new(f"{kind} *", value)


def address(value: CData) -> int:
    """Return where a value of C lies."""
    return int(ffi.cast("uintptr_t", value))


@functools.cache
def _function(name: str) -> tuple[CData, tuple[CData, ...]]:
    """Return a function of the library and the types of its arguments."""
    function = getattr(library(), name)
    return function, ffi.typeof(function).args


def call(name: str, *arguments: Any) -> Any:
    """Call a function of the library: arrays go as they lie in memory, None as NULL."""
    function, kinds = _function(name)
    return function(
        *(
            _pointer(kind, value) if isinstance(value, POINTED_TO) else value
            for kind, value in zip(kinds, arguments, strict=True)
        )
    )


def check(status: int, failure: str) -> int:
    """Return a number that a function returned; raise TracekitError for a negative errno."""
    if status < 0:
        hint = "close other programs and try again" if status == -errno.ENOMEM else ""
        raise TracekitError(f"{failure}: {os.strerror(-status)}", hint=hint)
    return status


class Owned:
    """An object of the library that Python owns: a context manager, for one thread at a time."""

    kind: ClassVar[str]
    """The beginning of the names of its functions, which `made_by` and `freed_by` end."""
    made_by = "new"
    freed_by: ClassVar[str] = "free"
    failure: ClassVar[str]
    """What a function that fails could not do."""

    def __init__(self, *arguments: Any, refusal: str | None = None) -> None:
        """Make it with these arguments of the library's; `refusal` is what a failure means then."""
        name = f"{self.kind}_{self.made_by}"
        place = ffi.new(_function(name)[1][-1])
        self._check(call(name, *arguments, place), refusal)
        self._handle = ffi.gc(place[0], _function(f"{self.kind}_{self.freed_by}")[0])

    def __enter__(self) -> Self:
        """Return the object itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Free it."""
        ffi.release(self._handle)
        self._handle = ffi.NULL

    def _call(self, name: str, *arguments: Any) -> Any:
        """Call a function of this object."""
        return call(f"{self.kind}_{name}", self._handle, *arguments)

    def _read(self, name: str, kind: str, *arguments: Any) -> Any:
        """Return the structure that a function writes to its last argument, as a dictionary."""
        found = struct(kind)
        self._call(name, *arguments, found)
        return plain(found)

    def _check(self, status: int, failure: str | None = None) -> int:
        """Return a number that a function returned; raise TracekitError for a negative errno."""
        return check(status, failure or self.failure)
