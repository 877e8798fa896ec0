"""The import graph of the package by room, as the table of CONTRIBUTING.md.

A room is a file or a folder directly inside ``probmetric/``. Its floor is one above
the highest room that it imports. Run ``python tools/rooms.py`` to print the table,
``--write`` to put it into CONTRIBUTING.md, ``--inside inference`` for the rooms of one
folder. It exits with 1 where imports go in a circle.
"""

import argparse
import ast
import re
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "probmetric"
MARKS = ("<!-- rooms: tools/rooms.py -->", "<!-- end of rooms -->")


def imported(tree: ast.AST, modules: set[str] | frozenset[str]) -> set[str]:
    """Return the modules of the package that a syntax tree imports, by full name."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {n if n in modules else node.module for n in names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name.split(".")[0] == "probmetric"}


@cache
def imported_by(text: str, modules: frozenset[str]) -> frozenset[str]:
    """Return what a file's text imports; a folder within a folder is parsed once."""
    return frozenset(imported(ast.parse(text), modules))


def modules_of(package: Path) -> dict[str, Path]:
    """Return every module of a package: full name -> file."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def room_of(module: str, inside: str) -> str | None:
    """Return the room of ``inside`` (a dotted folder) that holds a module."""
    rest = module.removeprefix(inside)
    if not module.startswith(inside + "."):
        return None
    return rest.split(".")[1]


def graph(package: Path = PACKAGE, inside: str = "") -> dict[str, set[str]]:
    """Return each room of a folder with the rooms that it imports.

    The package's own ``__init__`` is no room: it names the public objects of all.
    """
    modules = modules_of(package)
    known = frozenset(modules)
    prefix = package.name + (f".{inside}" if inside else "")
    rooms: dict[str, set[str]] = {}
    for name, path in modules.items():
        room = room_of(name, prefix)
        if room is None:
            continue
        uses = {
            room_of(other, prefix) for other in imported_by(path.read_text(), known)
        }
        rooms.setdefault(room, set()).update(uses - {room, None})
    return rooms


def floors(rooms: dict[str, set[str]]) -> dict[str, int]:
    """Return the floor of each room; raises ``graphlib.CycleError`` on a circle."""
    level: dict[str, int] = {}
    for room in TopologicalSorter(rooms).static_order():
        level[room] = 1 + max((level[other] for other in rooms[room]), default=0)
    return level


def table(rooms: dict[str, set[str]], inside: str = "") -> str:
    """Return the graph as a Markdown table, lowest floor first."""
    level = floors(rooms)
    arrows = sum(map(len, rooms.values()))
    lines = ["| floor | rooms |", "|---|---|"]
    for floor in range(1, max(level.values()) + 1):
        names = sorted(name for name, at in level.items() if at == floor)
        lines.append(f"| {floor} | {', '.join(f'`{name}`' for name in names)} |")
    where = f" of `{inside}/`" if inside else ""
    lines.append(
        f"\n{len(rooms)} rooms{where} on {max(level.values())} floors, {arrows} "
        "arrows; each imports from lower floors only."
    )
    return "\n".join(lines)


def main() -> None:
    """Print the table, or write it into CONTRIBUTING.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inside", default="", help="a folder, for example inference")
    parser.add_argument("--write", action="store_true", help="into CONTRIBUTING.md")
    asked = parser.parse_args()
    rooms = graph(inside=asked.inside)
    try:
        text = table(rooms, asked.inside)
    except CycleError as error:
        sys.exit(f"imports in a circle: {' -> '.join(error.args[1])}")
    if not asked.write:
        print(text)
        return
    page = ROOT / "CONTRIBUTING.md"
    pattern = re.compile(f"{MARKS[0]}.*{MARKS[1]}", re.DOTALL)
    page.write_text(
        pattern.sub(lambda _: "\n".join([MARKS[0], text, MARKS[1]]), page.read_text())
    )


if __name__ == "__main__":
    main()
