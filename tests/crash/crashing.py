"""Kills a command at its calls, and cuts the power there in a model of the disk."""

import random
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.crash.cases import Bases, Case, facts, is_ours, tree
from tests.crash.ext4 import Ext4
from tests.crash.power_cut import TORN, Disk
from tests.crash.watched import Call, Command, Commands

ENTRIES = ("rename", "unlink", "mkdir", "rmdir", "open", "link", "creat", "symlink")


@dataclass
class Tried:
    """How many crashes there were, and what was wrong after some of them."""

    count: int = 0
    wrong: list[str] = field(default_factory=list)


def part(found: Mapping[str, str], output: str) -> dict[str, str]:
    """Return the entries of a tree that are the output or below it, without what is ours."""
    return {
        name: value
        for name, value in found.items()
        if (name == output or name.startswith(f"{output}/")) and not is_ours(name)
    }


def mixed(here: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Return words for a tree that is not the new one, with some of the files that differ."""
    names = sorted(name for name in {*here, *after} if here.get(name) != after.get(name))
    return f"neither old nor new: {', '.join(names[:3])}"


class Crashes:
    """A case, run once to its end: its calls, and the files before and after; then its crashes."""

    def __init__(
        self, commands: Commands, bases: Bases, case: Case, disk: Ext4 | None = None
    ) -> None:
        self.commands = commands
        self.bases = bases
        self.case = case
        self.ext4 = disk
        self.place = bases.copy(case.base, (disk.place if disk else bases.folder) / "place")
        self.before = tree(self.place)
        self.disk = Disk(self.place)
        ended = commands.watched(Command(case.words, self.place))
        assert ended.code == 0, ended.errors
        self.calls = ended.calls
        self.after = tree(self.place)
        self.facts = facts(self.place / case.output)
        self.last = deepcopy(self.disk)
        for call in self.calls:
            self.last.apply(call)
        # The model knows each name that is there, so no call was missed.
        assert sorted(self.last.now()) == sorted(self.after)

    def cut_power(self) -> Tried:
        """Cut the power behind each call: the disk has the old or the new, at the end the new."""
        tried = Tried()
        chance = random.Random(self.case.name)  # noqa: S311 - the same states each time
        old, new = self.disk.now(), self.last.now()
        disk = deepcopy(self.disk)
        before: Call | None = None
        for number, call in enumerate(self.calls, 1):
            disk.apply(call)
            if call != before or number == len(self.calls):
                for state in disk.cuts(chance):
                    tried.count += 1
                    found = self._judge(state, old, new)
                    here = part(state, self.case.output)
                    if number == len(self.calls) and here != part(new, self.case.output):
                        found.append(
                            f"it ended well, but {mixed(here, part(new, self.case.output))}"
                        )
                    tried.wrong += [f"call {number} ({self.named(call)}): {one}" for one in found]
            before = call
        return tried

    def _judge(
        self, state: Mapping[str, str], old: Mapping[str, str], new: Mapping[str, str]
    ) -> list[str]:
        """Return what is wrong in a state of the disk that is neither old nor new."""
        output = self.case.output
        here, before, after = (part(tree, output) for tree in (state, old, new))
        wrong = [
            f"{name} is not as it was"
            for name, value in old.items()
            if name not in before and state.get(name) != value
        ]
        if self.case.is_whole:
            if here not in (before, after):
                names = sorted(
                    name for name in {*here, *after} if here.get(name) != after.get(name)
                )
                wrong.append(f"neither old nor new: {', '.join(names[:3])}")
            return wrong
        wrong += [f"{name} is missing" for name in before if name not in here]
        return [*wrong, *(f"{name} is torn" for name, value in here.items() if value == TORN)]

    def named(self, call: Call) -> str:
        """Return a call as a person would read it."""
        paths = [str(path.relative_to(self.place)) for path in (call.path, call.other) if path]
        return f"{call.name} {' '.join(paths)}"

    def points(self, count: int) -> list[int]:
        """Return the numbers of so many calls to kill at: half of them change what others see."""
        everyone = range(1, len(self.calls) + 1)
        seen = [
            number
            for number, call in enumerate(self.calls, 1)
            if call.name.startswith(ENTRIES) and self._is_seen(call.path, call.other)
        ]
        chance = random.Random(self.case.name)  # noqa: S311 - the same each time
        chosen = chance.sample(seen, min((count + 1) // 2, len(seen)))
        others = [number for number in everyone if number not in chosen]
        return sorted([*chosen, *chance.sample(others, count - len(chosen))])

    def _is_seen(self, *paths: Path | None) -> bool:
        """Say whether one of the paths is in the output and not ours alone."""
        output = self.place / self.case.output
        return any(
            path is not None and path.is_relative_to(output) and not is_ours(str(path))
            for path in paths
        )

    def kill(self, number: int) -> list[str]:
        """Kill the command before a call is done; return what is wrong then and after the next."""
        self.bases.copy(self.case.base, self.place)
        ended = self.commands.watched(Command(self.case.words, self.place), last=number)
        wrong = self._found(is_over=ended.code == 0) + self._next()
        return [f"{self._at(number)}: {one}" for one in wrong]

    def lose_power(self, number: int, kept: int) -> list[str]:
        """Cut the power of the file system before a call; return what is wrong then, as `kill`.

        The number behind the last call is the end of the command, which promises its result.
        """
        assert self.ext4 is not None
        self.bases.copy(self.case.base, self.place)
        self.ext4.sync()
        cut = partial(self.ext4.lose_power, kept)
        command = Command(self.case.words, self.place)
        ended = self.commands.watched(command, last=number, before_kill=cut)
        if ended.code == 0:
            cut()
        self.ext4.start_again()
        wrong = self._found(is_over=ended.code == 0) + self._next()
        return [f"{self._at(number)}, {kept=}: {one}" for one in wrong]

    def _at(self, number: int) -> str:
        last = number > len(self.calls)
        named = "its end" if last else f"call {number} ({self.named(self.calls[number - 1])})"
        return f"{self.case.name}, {named}"

    def _next(self) -> list[str]:
        """Run the command again, which must end well and leave nothing; return what is wrong."""
        again = self.commands.run(Command(self.case.again(self.place), self.place))
        if again.code != 0:
            return [f"the next run ends with {again.code}: {again.errors[-300:]}"]
        wrong = [f"after the next run: {one}" for one in self._found(is_over=True)]
        left = [name for name in tree(self.place) if is_ours(name)]
        return wrong + [f"the next run leaves {name}" for name in left]

    def _found(self, *, is_over: bool) -> list[str]:
        """Return what is wrong in the files, which may be the old ones unless the command ended."""
        output = self.case.output
        now = tree(self.place)
        here, before, after = (part(found, output) for found in (now, self.before, self.after))
        wrong = [
            f"{name} is not as it was"
            for name, value in self.before.items()
            if name not in before and now.get(name) != value
        ]
        if here == before and not is_over:
            return wrong
        if self.case.is_measured:
            try:
                is_new = not self.case.is_whole and not is_over
                is_new = facts(self.place / output) == self.facts or is_new
            except (OSError, ValueError) as error:
                return [*wrong, f"a file cannot be read: {error}"]
        elif self.case.is_whole or is_over:
            is_new = here == after
        else:
            is_new = all(value in (before.get(n), after.get(n)) for n, value in here.items())
            is_new = is_new and before.keys() <= here.keys()
        return wrong if is_new else [*wrong, mixed(here, after)]
