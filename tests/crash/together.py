"""Several commands at once on one folder: who reads sees the old or the new, nothing is lost."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tests.crash.cases import Bases, is_ours, tree
from tests.crash.crashing import Tried
from tests.crash.watched import Command, Commands, Ended

Words = tuple[str, ...]
SMALL = ("parse", "../inputs/small", "-o", "out")
LARGE = ("parse", "../inputs/video", "-o", "out")
REPLAY = ("replay", "out", "--engine", "null", "--pace", "fast", "--name", "a")
RESULTS = {"plan.bin", "completions.parquet", "summary.json"}
COUNT = "select count(*) as count, max(sector) as last from requests"
READ = ("sql", "out", COUNT, "--format", "csv")
STAGES = (("analyze", "out", "--only", "totals"), ("classify", "out"))
REPORT = ("report", "out")
REFUSED = (1, 2)


@dataclass
class Together:
    """Runs rounds of commands at once; what each makes alone is found once."""

    commands: Commands
    bases: Bases
    wrong: list[str] = field(default_factory=list)

    @cached_property
    def alone(self) -> dict[Words, tuple[dict[str, str], str]]:
        """Return the folder that each `parse` makes, and what a reader sees in it."""
        found: dict[Words, tuple[dict[str, str], str]] = {}
        for words in (SMALL, LARGE):
            self._start("bare", [words])
            made = tree(self.place / "out")
            found[words] = made, self.commands.run(Command(READ, self.place)).output
        return found

    @cached_property
    def in_turn(self) -> dict[str, str]:
        """Return the folder that the stages make, one after the other."""
        for number, words in enumerate(STAGES):
            if number:
                assert self.commands.run(Command(words, self.place)).code == 0
            else:
                self._start("classified", [words])
        return tree(self.place / "out")

    def _start(self, base: str, words: Sequence[Words]) -> list[Ended]:
        """Run all of the commands at once in a base; each ends well or is refused in words."""
        self.place = self.bases.copy(base, self.bases.folder / "together")
        running = [self.commands.start(Command(one, self.place)) for one in words]
        ended = [one.wait() for one in running]
        for one, end in zip(words, ended, strict=True):
            if end.code not in (0, *REFUSED) or "Traceback" in end.errors:
                self.wrong.append(f"{' '.join(one)}: {end.code}: {end.errors[-300:]}")
        now = tree(self.place)
        self.wrong += [f"{name} is left" for name in now if is_ours(name)]
        before = tree(self.bases.folder / f"base-{base}")
        kept = {name: value for name, value in before.items() if not name.startswith("out")}
        self.wrong += [f"{name} is not as it was" for name in kept.items() - now.items()]
        return ended

    def new(self, count: int) -> None:
        """Make one new folder by several commands: one of them makes it, all others are refused."""
        words = [(LARGE, SMALL)[number % 2] for number in range(count)]
        wholes = self.alone
        ended = self._start("bare", words)
        made = [one for one, end in zip(words, ended, strict=True) if end.code == 0]
        for end in ended:
            if "meanwhile" in end.errors:
                self._look_aside(end)
        if len(made) != 1:
            self.wrong.append(f"{len(made)} of {count} commands made the new folder")
        elif tree(self.place / "out") != wholes[made[0]][0]:
            self.wrong.append("the folder is not that of the command which made it")

    def replaced(self, count: int) -> None:
        """Replace a folder by several commands while others read it: they see one of them.

        A command whose folder somebody else replaced keeps its result beside, and says where.
        """
        makers = [(LARGE, SMALL)[number % 2] for number in range((count + 1) // 2)]
        wholes = [whole for whole, _ in self.alone.values()]
        seen = [text for _, text in self.alone.values()]
        words = [*((*one, "--force") for one in makers), *[READ] * (count // 2)]
        for one, end in zip(words, self._start("parsed", words), strict=True):
            if end.code != 0:
                self._look_aside(end)
            elif one == READ and end.output not in seen:
                self.wrong.append(f"a reader saw what was never there: {end.output}")
        if tree(self.place / "out") not in wholes:
            self.wrong.append("the folder is of none of the commands")

    def _look_aside(self, end: Ended) -> None:
        """Look whether the result of a refused command is whole where it says."""
        said = re.search("it stays, and the result is (out-[0-9]+)\n", end.errors)
        wholes = [whole for whole, _ in self.alone.values()]
        if said is None or tree(self.place / said[1]) not in wholes:
            self.wrong.append(end.errors)

    def replayed(self, count: int) -> None:
        """Replay by one name: the results are one command's, the others are refused."""
        ended = self._start("parsed", [REPLAY] * count)
        made = sum(end.code == 0 for end in ended)
        if made != 1:
            self.wrong.append(f"{made} of {count} replays have results of one name")
        found = {path.name for path in (self.place / "out/replays/a").iterdir()}
        if found != RESULTS:
            self.wrong.append(f"the results are {sorted(found)}")

    def staged(self, count: int) -> None:
        """Run several stages on a folder: its tables are those of one stage after the other."""
        expected = self.in_turn
        stages = [STAGES[number % 2] for number in range(count - 1)]
        ended = self._start("classified", [REPORT, *stages])
        self.wrong += [end.errors for end in ended if end.code != 0]
        found = tree(self.place / "out")
        names = {*expected, *found} - {"report.html"}
        self.wrong += [f"{name} differs" for name in names if found.get(name) != expected.get(name)]


SCENES = ("new", "replaced", "replayed", "staged")


def rounds(together: Together, scene: str, counts: Sequence[int]) -> Tried:
    """Run a round of a scene for each count of commands at once."""
    act: Callable[[int], None] = getattr(together, scene)
    tried = Tried()
    for count in counts:
        act(count)
        tried.count += 1
        tried.wrong += [f"{scene}, {count} at once: {wrong}" for wrong in together.wrong]
        together.wrong.clear()
    return tried
