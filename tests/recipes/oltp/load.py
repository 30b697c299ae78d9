"""An OLTP load on SQLite: bank tellers, order entry, a report and a checkpointer.

`load.py build FOLDER` makes the two databases; `load.py run FOLDER` works on them.

accounts.db keeps a write-ahead log: each TPC-B-like transaction makes the log longer, so the file
system commits to its journal each time, until a checkpointer folds the log back and cuts it off.
orders.db keeps a rollback journal, a file that is made and deleted by each transaction, so a few
blocks of the file system are written again and again. Rows are chosen by a skewed distribution,
and every commit is flushed to the disk.
"""

import argparse
import multiprocessing
import random
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ACCOUNTS = 400_000
BRANCHES = 10
TELLERS = 100
ITEMS = 250_000
FILLER = "x" * 150
# A hot row is not beside another hot row: steps by a prime that divides no table's size.
SCATTER = 611_953


@dataclass(frozen=True)
class Load:
    """How much of each kind of work."""

    folder: Path
    seconds: float
    seed: int
    tellers: int
    order_clerks: int
    rate: float
    """Transactions a second of each client."""
    checkpoint_rate: float
    """Checkpoints a second."""
    alpha: float
    """Skew of the choice of rows: the smaller, the flatter."""


def connect(path: Path, *, log: str | None = None) -> sqlite3.Connection:
    """Open a database that flushes each commit and keeps only 1 MiB of pages in the process.

    With `log` its journal mode is changed, which no other connection may be in the way of:
    SQLite does not wait for one that changes it too.
    """
    link = sqlite3.connect(path, isolation_level=None, timeout=60)
    if log:
        link.execute(f"pragma journal_mode={log}")
    link.execute("pragma synchronous=full")
    link.execute("pragma cache_size=-1024")
    return link


def build(folder: Path) -> None:
    """Fill both databases."""
    accounts = connect(folder / "accounts.db", log="memory")
    accounts.executescript(
        "create table branch(id integer primary key, balance int, filler text);"
        "create table teller(id integer primary key, balance int, filler text);"
        "create table account(id integer primary key, balance int, filler text);"
        "create table history(teller int, account int, delta int, at int, filler text);"
        "begin;"
    )
    for rows, insert in (
        (BRANCHES, "insert into branch values (?, 0, ?)"),
        (TELLERS, "insert into teller values (?, 0, ?)"),
        (ACCOUNTS, "insert into account values (?, 0, ?)"),
    ):
        accounts.executemany(insert, ((row, FILLER) for row in range(rows)))
    accounts.execute("commit")
    orders = connect(folder / "orders.db", log="memory")
    orders.executescript(
        "create table stock(item integer primary key, quantity int, filler text);"
        "create table orders(id integer primary key, item int, quantity int, note text);"
        "create index by_item on orders(item);"
        "begin;"
    )
    stock = ((item, 1000, FILLER) for item in range(ITEMS))
    orders.executemany("insert into stock values (?, ?, ?)", stock)
    orders.execute("commit")


def skewed(chance: random.Random, rows: int, alpha: float) -> int:
    """Return a row number, a few of them far more often than the rest."""
    return int(chance.paretovariate(alpha) * 16) * SCATTER % rows


def teller(load: Load, link: sqlite3.Connection, chance: random.Random) -> None:
    """Move money: one TPC-B transaction."""
    account = skewed(chance, ACCOUNTS, load.alpha)
    number = chance.randrange(TELLERS)
    delta = chance.randrange(-5000, 5000)
    link.execute("begin immediate")
    link.execute("update account set balance = balance + ? where id = ?", (delta, account))
    link.execute("select balance from account where id = ?", (account,)).fetchone()
    link.execute("update teller set balance = balance + ? where id = ?", (delta, number))
    link.execute("update branch set balance = balance + ? where id = ?", (delta, number % BRANCHES))
    link.execute(
        "insert into history values (?, ?, ?, ?, ?)",
        (number, account, delta, time.monotonic_ns(), FILLER[:22]),
    )
    link.execute("commit")


def order_clerk(load: Load, link: sqlite3.Connection, chance: random.Random) -> None:
    """Enter an order of two items, after a look at six."""
    items = [skewed(chance, ITEMS, load.alpha) for _ in range(6)]
    link.execute("begin immediate")
    for item in items:
        link.execute("select quantity from stock where item = ?", (item,)).fetchone()
    for item in items[:2]:
        link.execute("update stock set quantity = quantity - 1 where item = ?", (item,))
        link.execute("insert into orders(item, quantity, note) values (?, 1, ?)", (item, FILLER))
    link.execute("commit")


def report(_load: Load, link: sqlite3.Connection, chance: random.Random) -> None:
    """Read balances here and there, and a range of them."""
    for _ in range(8):
        account = chance.randrange(ACCOUNTS)
        link.execute("select balance from account where id = ?", (account,)).fetchone()
    first = chance.randrange(ACCOUNTS - 500)
    link.execute(
        "select sum(balance) from account where id between ? and ?", (first, first + 500)
    ).fetchone()


def checkpoint(_load: Load, link: sqlite3.Connection, _chance: random.Random) -> None:
    """Fold the write-ahead log back and cut it off."""
    link.execute("pragma wal_checkpoint(truncate)").fetchone()


Work = Callable[[Load, sqlite3.Connection, random.Random], None]


def client(load: Load, name: str, work: Work, rate: float, database: str) -> None:
    """Do `work` at random moments, `rate` times a second on average, until the time is up."""
    Path("/proc/self/comm").write_text(name)
    chance = random.Random(f"{load.seed} {name}")  # noqa: S311 - a load is no secret
    link = connect(load.folder / database)
    link.execute("pragma wal_autocheckpoint=0")
    end_s = time.monotonic() + load.seconds
    due_s = time.monotonic()
    while due_s < end_s:
        time.sleep(max(0.0, due_s - time.monotonic()))
        work(load, link, chance)
        due_s = max(due_s + chance.expovariate(rate), time.monotonic())
    link.close()


def run(load: Load) -> None:
    """Run all clients at once and wait for them; raise when one failed.

    The accounts use a write-ahead log, which is a property of the file; the orders SQLite's
    own rollback journal.
    """
    connect(load.folder / "accounts.db", log="wal").close()
    jobs: list[tuple[str, Work, float, str]] = [
        ("oltp-report", report, load.rate / 8, "accounts.db"),
        ("oltp-checkpoint", checkpoint, load.checkpoint_rate, "accounts.db"),
    ]
    for number in range(load.tellers):
        jobs.append((f"oltp-teller-{number}", teller, load.rate, "accounts.db"))
    for number in range(load.order_clerks):
        jobs.append((f"oltp-order-{number}", order_clerk, load.rate / 2, "orders.db"))
    clients = [multiprocessing.Process(target=client, args=(load, *job)) for job in jobs]
    for process in clients:
        process.start()
    for process in clients:
        process.join()
    failed = [process.name for process in clients if process.exitcode]
    if failed:
        raise SystemExit(f"clients failed: {', '.join(failed)}")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=("build", "run"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=30, help="length of the run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tellers", type=int, default=4)
    parser.add_argument("--order-clerks", type=int, default=1)
    parser.add_argument("--rate", type=float, default=40, help="transactions/s of a client")
    parser.add_argument("--checkpoint-rate", type=float, default=0.2, help="checkpoints/s")
    parser.add_argument("--alpha", type=float, default=0.6, help="skew of the rows chosen")
    options = vars(parser.parse_args())
    if options.pop("action") == "build":
        build(options["folder"])
    else:
        run(Load(**options))


if __name__ == "__main__":
    main()
