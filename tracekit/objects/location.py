"""Files in object storage by their URL, read and written through pyarrow's file systems."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from threading import Event
from typing import Any

from tracekit.errors import InputError, TracekitError, first_line, named_for
from tracekit.paths import is_url
from tracekit.safe_open import TEXT_BYTES, open_regular

CHUNK_BYTES = 8 << 20
"""Each is a request of its own; multipart uploads have parts of 10 MiB."""
URL = re.compile(r"([a-z][a-z0-9+.-]+):/+([^/?]+)?/*([^?]*?)/*(\?[\w]+=.*)?", re.IGNORECASE)
KINDS = "s3://, gs://, hdfs://, abfs:// and file:///"
WITH_RENAMES = ("local", "hdfs", "viewfs")
"""File systems in which a half-written file can be seen; in the others an object appears whole."""
_CREDENTIALS = "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the rights in the bucket"
_ADDRESS = "check the network, the address in AWS_ENDPOINT_URL, and that the server runs"
REASONS = (
    (r"NO_SUCH_BUCKET|NoSuchBucket", "there is no such bucket", "make it, or check its name"),
    (
        r"ACCESS_DENIED|INVALID_ACCESS_KEY_ID|SIGNATURE_DOES_NOT_MATCH|INVALID_CLIENT_TOKEN_ID"
        r"|UNRECOGNIZED_CLIENT|EXPIRED_TOKEN|HTTP response code: 40[13]\b|PERMISSION_DENIED"
        r"|UNAUTHENTICATED|AccessControlException",
        "access is denied",
        f"{_CREDENTIALS}; of other systems what their clients need",
    ),
    (r"NETWORK_CONNECTION.*Details: (.+)", "no connection: {}", _ADDRESS),
    (r"NETWORK_CONNECTION|UNAVAILABLE|ConnectException", "no connection", _ADDRESS),
    (r"SLOW_DOWN|HTTP response code: 5\d\d|INTERNAL_FAILURE|SERVICE_UNAVAILABLE",
     "the server does not work", "run it again later"),
    (
        r"libjvm|libhdfs",
        "hdfs:// needs Java and Hadoop's library",
        "set JAVA_HOME, HADOOP_HOME, and CLASSPATH to what `hadoop classpath --glob` prints",
    ),
    (r"Unrecognized filesystem", "pyarrow has no file system of this kind", f"it has {KINDS}"),
)  # fmt: skip
"""What pyarrow's errors say, what is said of it, and what to do."""


class AbsentError(InputError):
    """There is no such object."""


@dataclass(frozen=True)
class Location:
    """A file or a folder in object storage; text of it has no password and no options."""

    scheme: str
    host: str
    """The bucket, or the host with its port, as in the URL: `user:password@` may stand before."""
    path: str
    options: str = ""
    """What stands behind the path, such as `?region=eu-west-1`."""

    @classmethod
    def of(cls, path: str | os.PathLike[str] | Location) -> Location | None:
        """Return the location that a URL names; None for a path of this machine."""
        if isinstance(path, Location):
            return path
        found = URL.fullmatch(os.fspath(path)) if is_url(path) else None
        if found is None:
            return None
        scheme, host, inner, options = found.groups("")
        if scheme.lower() == "file":
            host, inner = "", f"{host}/{inner}".strip("/")
        return cls(scheme.lower(), host, inner, options)

    def __str__(self) -> str:
        """Return the URL without what is secret in it."""
        inner = f"/{self.path}" if self.path else ""
        return f"{self.scheme}://{self.host.rpartition('@')[2]}{inner}"

    def __truediv__(self, place: str) -> Location:
        """Return a place in the folder."""
        return replace(self, path=f"{self.path}/{place}".lstrip("/"))

    @property
    def name(self) -> str:
        """The last part of the path, or the bucket."""
        return self.path.rpartition("/")[2] or self.host.rpartition("@")[2]

    @property
    def parent(self) -> Location:
        """The folder that it is in."""
        return replace(self, path=self.path.rpartition("/")[0])

    @property
    def _opened(self) -> tuple[Any, str]:
        with self._named():
            now = tuple(sorted(one for one in os.environ.items() if one[0].startswith("AWS_")))
            system, root = _file_system(self.scheme, self.host, self.options, now)
        return system, f"{root.rstrip('/')}/{self.path}" if self.path else root

    def read(self) -> bytes:
        """Return the content of a text; AbsentError where there is no such object."""
        system, place = self._opened
        with self._named(), system.open_input_stream(place, compression=None) as stream:
            content: bytes = stream.read(TEXT_BYTES)
        return content

    def exists(self) -> bool:
        """Say whether there is an object, or a folder with some."""
        system, place = self._opened
        with self._named():
            return bool(system.get_file_info(place).type.value)

    def check_bucket(self) -> None:
        """Raise InputError where there is not even the bucket, or it cannot be reached."""
        bucket = replace(self, path="")
        if self.scheme in ("s3", "gs", "gcs") and not bucket.exists():
            name = self.host.rpartition("@")[2]
            hint = f"make the bucket {name}, or check its name and the address in AWS_ENDPOINT_URL"
            raise InputError(f"{self}: there is no such bucket", hint=hint)

    def size_bytes(self) -> int:
        """Return how large the object is; AbsentError where there is none."""
        system, place = self._opened
        with self._named():
            found = system.get_file_info(place)
        if found.size is None:
            raise AbsentError(f"{self}: there is no such object", hint="check the URL")
        size: int = found.size
        return size

    def fetch(self, target: Path, stop: Event, *, most_bytes: int) -> str:
        """Copy the object into a new file and return its digest (SHA-256).

        Less is copied where the event is set, and a part more where there are more bytes.
        """
        system, place = self._opened
        digest = hashlib.sha256()
        with self._named():
            stream = system.open_input_stream(place, compression=None)
        with stream, target.open("xb") as out, named_for(target):
            while True:
                with self._named():
                    part = stream.read(CHUNK_BYTES)
                if not part or stop.is_set() or out.tell() > most_bytes:
                    return digest.hexdigest()
                digest.update(part)
                out.write(part)

    def put(self, file: Path, stop: Event) -> None:
        """Copy a file to the object, which is whole unless it was to stop."""
        with os.fdopen(open_regular(file), "rb") as source:
            parts = iter(lambda: source.read(CHUNK_BYTES), b"")
            self._write(part for part in parts if not stop.is_set())

    def write(self, content: bytes) -> None:
        """Replace the object, in one step, but of hdfs://."""
        self._write(iter([content]))

    def _write(self, parts: Iterator[bytes]) -> None:
        system, place = self._opened
        with self._named():
            target = place
            if system.type_name in WITH_RENAMES:
                system.create_dir(place.rpartition("/")[0], recursive=True)
                target = f"{place}.{secrets.token_hex(4)}.part"
            try:
                with system.open_output_stream(target, compression=None) as out:
                    for part in parts:
                        out.write(part)
                if target != place:
                    system.move(target, place)
            except BaseException:
                if target != place:
                    with suppress(OSError):
                        system.delete_file(target)
                raise

    def remove(self) -> None:
        """Remove the object; one that is gone already is no error."""
        system, place = self._opened
        with suppress(AbsentError), self._named():
            system.delete_file(place)

    def files(self) -> dict[str, Any]:
        """Return all objects of the folder by their places in it, with sizes and times."""
        return {
            place: one for place, one in self._listed(is_deep=True).items() if one.type.value == 2
        }

    def folders(self) -> list[str]:
        """Return the names of the folders in the folder, in order."""
        listed = self._listed(is_deep=False).items()
        return sorted(place for place, one in listed if one.type.value == 3)

    def _listed(self, *, is_deep: bool) -> dict[str, Any]:
        from pyarrow.fs import FileSelector

        system, root = self._opened
        root = root.rstrip("/")
        with self._named():
            chosen = FileSelector(root, recursive=is_deep, allow_not_found=True)
            found = system.get_file_info(chosen)
        return {one.path[len(root) :].strip("/"): one for one in found}

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Let what pyarrow refuses in the block be an error of ours that names the location."""
        from pyarrow import ArrowException

        try:
            yield
        except FileNotFoundError:
            hint = "check the URL"
            raise AbsentError(f"{self}: there is no such object", hint=hint) from None
        except (OSError, ArrowException, ValueError) as error:
            raise _refusal(self, error) from None


@cache
def _file_system(
    scheme: str, host: str, options: str, _variables: tuple[tuple[str, str], ...]
) -> tuple[Any, str]:
    """Return a file system, of these variables of the environment, and its root."""
    from pyarrow.fs import FileSystem

    if scheme == "s3":
        # One request for an object that fits into one, in place of three.
        options = f"{options or '?'}{'&' if options else ''}allow_delayed_open=true"
    slash = "" if scheme in ("s3", "gs", "gcs") else "/"
    found: tuple[Any, str] = FileSystem.from_uri(f"{scheme}://{host}{slash}{options}")
    return found


def _refusal(location: Location, error: Exception) -> TracekitError:
    """Return an error of pyarrow in our words."""
    text = str(error)
    for pattern, said, hint in REASONS:
        if found := re.search(pattern, text):
            return InputError(f"{location}: {said.format(*found.groups())}", hint=hint)
    if isinstance(error, OSError) and error.errno:
        return InputError(f"{location}: {os.strerror(error.errno)}", hint="check the rights there")
    found = re.search(r"AWS Error (.+?)(?: \(Request ID|$)", first_line(error))
    return InputError(
        f"{location}: {found[1] if found else first_line(error)}", hint="check the URL"
    )
