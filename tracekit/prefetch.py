"""Batches that a thread makes while others are used."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any

# A row group is written in one go; decoding goes on meanwhile.
BATCHES_AHEAD = 12
ROOM_SECONDS = 0.1
STOP_SECONDS = 0.2  # how soon a signal is noticed while nothing comes


class _Maker:
    """The thread, and what it has made: batches, then None, with what went wrong."""

    def __init__(self, batches: Generator[Any], most: int) -> None:
        self._batches = batches
        self._ready: queue.Queue[tuple[Any, Exception | None]] = queue.Queue(most)
        self._is_wanted = threading.Event()
        self._is_wanted.set()
        self._thread = threading.Thread(target=self._work)
        self.start = self._thread.start

    def take(self) -> tuple[Any, Exception | None]:
        """Take what is ready first, and look for signals while nothing is."""
        while True:
            with suppress(queue.Empty):
                return self._ready.get(timeout=STOP_SECONDS)

    def end(self) -> None:
        """Wait for the thread, which makes no more, and close what it took from."""
        self._is_wanted.clear()
        if self._thread.ident is not None:
            self._thread.join()
        self._batches.close()

    def _put(self, batch: Any, error: Exception | None = None) -> None:
        while self._is_wanted.is_set():
            try:
                self._ready.put((batch, error), timeout=ROOM_SECONDS)
            except queue.Full:
                continue
            return

    def _work(self) -> None:
        try:
            for batch in self._batches:
                self._put(batch)
                if not self._is_wanted.is_set():
                    return
            self._put(None)
        # Whatever it is, the thread that waits for the batches shall have it.
        except Exception as error:
            self._put(None, error)


def ahead(
    batches: Generator[Any],
    *,
    most: int = BATCHES_AHEAD,
    on_stop: Callable[[], None] = lambda: None,
) -> Generator[Any]:
    """Yield batches while a thread makes at `most` so many more, and close them; pass on errors.

    `on_stop` is called when nobody wants them any more, Ctrl-C included: it lets what the thread
    may wait for come to its end.
    """
    maker = _Maker(batches, most)
    try:
        maker.start()
        while True:
            batch, error = maker.take()
            if batch is None:
                break
            yield batch
    except BaseException:
        on_stop()
        raise
    finally:
        maker.end()
    if error is not None:
        raise error
