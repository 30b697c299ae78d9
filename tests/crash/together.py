"""Several commands at once on one folder: who reads sees the old or the new, nothing is lost."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from tests.crash.cases import Bases, is_ours, tree
from tests.crash.crashing import Tried, part
from tests.crash.watched import Command, Commands, Ended

SMALL = ("parse", "../inputs/small", "-o", "out")
LARGE = ("parse", "../inputs/video", "-o", "out")
REPLAY = ("replay", "out", "--engine", "null", "--pace", "fast", "--name", "a")
READ = ("sql", "out", "select count(*) as count, max(sector) as last from requests", "--csv")
RESULTS = ("classify", "analyze", "report")
REFUSED = 2


@dataclass(frozen=True)
class Round:
    """Commands that ran at once in a place, and how each ended."""

    place: Path
    words: Sequence[tuple[str, ...]]
    ended: Sequence[Ended]

    def wrong(self) -> list[str]:
        """Return what is wrong whatever they were: tracebacks, other errors, what is left."""
        found = [
            f"{' '.join(words)}: {ended.code}: {ended.errors[-300:]}"
            for words, ended in zip(self.words, self.ended, strict=True)
            if ended.code not in (0, REFUSED) or "Traceback" in ended.errors
        ]
        return found + [f"{name} is left" for name in tree(self.place) if is_ours(name)]


class Together:
    """Runs rounds of commands at once."""

    def __init__(self, commands: Commands, bases: Bases) -> None:
        self.commands = commands
        self.bases = bases
        self.place = bases.folder / "together"

    def run(self, base: str, words: Sequence[tuple[str, ...]]) -> Round:
        """Start all of the commands at once in a base, and return how they ended."""
        self.bases.copy(base, self.place)
        running = [self.commands.start(Command(one, self.place)) for one in words]
        return Round(self.place, words, [one.wait() for one in running])

    def alone(self, base: str, words: tuple[str, ...], output: str) -> dict[str, str]:
        """Return what one command makes when it is alone."""
        done = self.run(base, [words])
        assert done.ended[0].code == 0, done.ended[0].errors
        return part(tree(self.place), output)

    def new(self, count: int) -> list[str]:
        """Make one new folder by several commands: one of them makes it, the others are refused."""
        words = [SMALL if number % 2 else LARGE for number in range(count)]
        wholes = {one: self.alone("bare", one, "out") for one in (SMALL, LARGE)}
        done = self.run("bare", words)
        wrong = done.wrong()
        made = [one for one, ended in zip(words, done.ended, strict=True) if ended.code == 0]
        if len(made) != 1:
            wrong.append(f"{len(made)} of {count} commands made the new folder")
        elif part(tree(self.place), "out") != wholes[made[0]]:
            wrong.append("the folder is not that of the command which made it")
        return wrong

    def replaced(self, count: int) -> list[str]:
        """Replace a folder by several commands while others read it: they see one of them."""
        makers = [(*(SMALL if n % 2 else LARGE), "--force") for n in range((count + 1) // 2)]
        words = [*makers, *[READ] * (count // 2)]
        wholes = [self.alone("parsed", one, "out") for one in makers[:2]]
        seen = [self.run("parsed", [READ]).ended[0].output]
        for one in makers[:2]:
            assert self.run("parsed", [one]).ended[0].code == 0
            seen.append(self.commands.run(Command(READ, self.place)).output)
        done = self.run("parsed", words)
        wrong = done.wrong()
        for one, ended in zip(words, done.ended, strict=True):
            if ended.code != 0:
                wrong.append(f"{' '.join(one)}: {ended.errors}")
            elif one == READ and ended.output not in seen:
                wrong.append(f"a reader saw what was never there: {ended.output}")
        if part(tree(self.place), "out") not in wholes:
            wrong.append("the folder is of none of the commands")
        return wrong

    def replayed(self, count: int) -> list[str]:
        """Replay by one name: the results are one command's, the others are refused."""
        done = self.run("parsed", [REPLAY] * count)
        wrong = done.wrong()
        made = [ended for ended in done.ended if ended.code == 0]
        if len(made) != 1:
            wrong.append(f"{len(made)} of {count} replays have results of one name")
        results = self.place / "out/replays/a"
        if sorted(path.name for path in results.iterdir()) != [
            "completions.parquet",
            "plan.bin",
            "summary.json",
        ]:
            wrong.append(f"the results are {sorted(results.iterdir())}")
        return wrong

    def staged(self, count: int) -> list[str]:
        """Run several stages on a folder: its tables are those of one stage after the other."""
        for one in RESULTS[:2]:
            assert self.alone("classified", (one, "out"), "out")
        self.bases.copy("classified", self.place)
        for one in RESULTS[:2]:
            assert self.commands.run(Command((one, "out"), self.place)).code == 0
        expected = part(tree(self.place), "out")
        done = self.run("classified", [(RESULTS[n % 3], "out") for n in range(count)])
        wrong = done.wrong()
        found = part(tree(self.place), "out")
        wrong += [f"{name} differs" for name in expected if found.get(name) != expected[name]]
        for path in self.place.glob("out/**/*.parquet"):
            pq.read_table(path)
        return wrong


SCENES = ("new", "replaced", "replayed", "staged")


def rounds(together: Together, scene: str, *, number: int) -> Tried:
    """Run so many rounds of a scene, two and eight commands at once in turn."""
    tried = Tried()
    act: Callable[[int], list[str]] = getattr(together, scene)
    for one in range(number):
        count = 8 if one % 2 else 2
        tried.count += 1
        tried.wrong += [f"{scene}, {count} at once: {wrong}" for wrong in act(count)]
    return tried
