"""A database that syncs each transaction, a process that is swapped out, or a device's times."""

import mmap
import os
import sqlite3
import sys
from pathlib import Path

ROWS, TRANSACTIONS = 2000, 150
PAGES, TOUCHES = 8192, 600
PAGEOUT = 21  # of madvise(2); the module mmap does not name it


def numbers(below: int, count: int) -> list[int]:
    """Return numbers that look like chance and are the same each time."""
    found, number = [], 1
    for _ in range(count):
        number = number * 1103515245 % (1 << 31) + 12345
        found.append((number >> 8) % below)
    return found


def open_database(folder: Path) -> sqlite3.Connection:
    folder.mkdir(exist_ok=True)
    database = sqlite3.connect(folder / "rows", isolation_level=None)
    database.execute("pragma journal_mode = persist")
    database.execute("pragma synchronous = full")
    return database


def install(database: sqlite3.Connection) -> None:
    """Fill the table, and let its log be as long as it becomes."""
    database.execute("create table rows (number integer primary key, content blob)")
    database.execute("begin")
    for number in range(ROWS):
        database.execute("insert into rows values (?, ?)", (number, bytes(400)))
    database.execute("commit")
    database.execute("update rows set content = randomblob(400) where number < 60")
    os.sync()


def transact(database: sqlite3.Connection) -> None:
    """Change four rows in each transaction."""
    changed = numbers(ROWS, 4 * TRANSACTIONS)
    for first in range(0, len(changed), 4):
        database.execute("begin immediate")
        for number in changed[first : first + 4]:
            text = "update rows set content = randomblob(400) where number = ?"
            database.execute(text, (number,))
        database.execute("commit")


def page() -> None:
    """Fill memory, have all of it written to the swap area, and touch pages of it."""
    memory = mmap.mmap(-1, PAGES * mmap.PAGESIZE)
    for number in range(PAGES):
        memory[number * mmap.PAGESIZE] = number % 251
    memory.madvise(PAGEOUT)
    for number in numbers(PAGES, TOUCHES):
        memory[number * mmap.PAGESIZE] = number % 251


def measure(path: Path) -> None:
    """Read and write a device at places of its own, in each of some lengths."""
    disk = os.open(path, os.O_RDWR | os.O_DIRECT)
    content = mmap.mmap(-1, 1 << 16)
    for turn in range(50):
        for place, length in enumerate((4096, 8192, 16384, 65536)):
            at = (turn * 37 % 50 * 4 + place) << 16
            os.pwritev(disk, [memoryview(content)[:length]], at)
            os.preadv(disk, [memoryview(content)[:length]], at)


def main() -> None:
    """Do what the first word says, at the path after it."""
    path = Path(sys.argv[-1])
    match sys.argv[1]:
        case "install":
            install(open_database(path))
        case "run":
            transact(open_database(path))
        case "page":
            page()
        case "measure":
            measure(path)


main()
