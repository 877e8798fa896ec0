"""Plant one fault at a time in a copy of a checkout, and run the nearest tests.

    python tools/mutants.py                            each mutant of tools/mutants.json
    python tools/mutants.py --root ../other --list new.json --results out.csv
    python tools/mutants.py --only mb4ec44 mcc395d     some of them, by id

A mutant replaces the expression ``before`` by ``after`` in one ``statement`` of one
``function`` (as ``ast.unparse`` writes them). The list contains no paths: it serves
checkouts with different layouts. A mutant whose statement has changed is looked up by
function and expression, then by expression if only one place has it, then by ``moved``
(id: [function, before, after]). ``equivalent`` (id: why) lists mutants that no test can
notice. Results are CSV: id, status, file, test. The status is killed, survived,
timeout, equivalent, not found, or "fails anyway": the test fails without the fault.
Mutants that have a result are skipped.
"""

import argparse
import ast
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
LEFT_OUT = (".git", ".venv*", "out", "dist", "build", "__pycache__", ".*_cache")
KEYS = ("function", "before", "after", "occurrence")
NO_FORMULA = re.compile(r"test_(architecture|packaging|docs|public|mutants)")


class Place(NamedTuple):
    """An expression of the package, its statement, and its function or Class.method."""

    file: Path
    function: str
    statement: ast.AST
    node: ast.AST


def places(node: ast.AST, at: Place) -> Iterator[Place]:
    """Yield all expressions inside a node."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef) and at.function[-1:] in (
        "",
        ".",
    ):
        dot = "." if isinstance(node, ast.ClassDef) else ""
        at = at._replace(function=at.function + node.name + dot)
    if isinstance(node, ast.stmt):
        at = at._replace(statement=node)
    if isinstance(node, ast.expr):
        yield at._replace(node=node)
    for child in ast.iter_child_nodes(node):
        yield from places(child, at)


def find(mutant: dict[str, Any], listed: dict[str, list[Place]]) -> Place | None:
    """Find the place of a mutant: by statement, by function, by expression."""
    same = listed.get(mutant["before"], [])
    name = mutant["function"].removesuffix("module")
    inside = [p for p in same if p.function.strip(".") == name]
    text = mutant.get("statement", mutant["before"]).lower()
    exact = [p for p in inside if text in ast.unparse(p.statement).lower()]
    for candidates in (exact, inside):
        if candidates:
            return candidates[min(mutant.get("occurrence", 0), len(candidates) - 1)]
    return same[0] if len(same) == 1 else None


def words(path: Path) -> set[str]:
    """Return the words of a path."""
    return set(re.findall(r"[a-z]+", str(path.with_suffix(""))))


def nearest(place: Place, root: Path, number: int) -> list[list[str]]:
    """Return pytest's arguments for the nearest tests, then for the learner's claims.

    Test files are ranked by the words that their path shares with the module, or with
    a module that imports it, and by whether they name the function.
    """
    path, name = place.file.relative_to(root), place.function.split(".")[-1]
    *folders, stem = path.with_suffix("").parts
    uses = re.compile(rf"{'.'.join(folders)}(\.| import .*\b){stem}\b")
    users = [f for f in root.glob("probmetric/**/*.py") if uses.search(f.read_text())]
    near = [words(path), *(words(file.relative_to(root)) for file in users)]
    ranks = []
    for file in sorted(root.glob("tests/**/test_*.py")):
        test = file.relative_to(root)
        shared = max(len(words(test) & n) - (n is not near[0]) / 2 for n in near)
        named = bool(name and re.search(rf"\b{name}\b", file.read_text("utf8")))
        if not NO_FORMULA.search(test.name) and (shared > 0 or named):
            ranks.append((-shared - 2 * named, file.stat().st_size, str(test)))
    closest = [r for r in ranks if r[0] < -1] or ranks  # Else those of its folder.
    files = [test for _, _, test in sorted(closest)[:number]]
    learner = (*path.parts, "")[2].removesuffix(".py")
    claims = ["-m", "gate", "tests/test_contract.py", "-k", learner]
    runs = [["-m", "not (slow or study or gate)", *files]] if files else []
    return [*runs, claims] if (root / claims[2]).exists() else runs


def attempt(
    place: Place, after: str, root: Path, tree: Path, options: Any
) -> list[str]:
    """Plant a mutant in the copy, run tests until one fails: status, file, test.

    The test that failed must pass again without the fault.
    """
    path, text, node = place.file.relative_to(root), place.file.read_bytes(), place.node
    lines = text.splitlines(keepends=True)
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset  # type: ignore[attr-defined]
    end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset  # type: ignore[attr-defined]
    env = {**os.environ, "MPLBACKEND": "Agg", "PYTHONPATH": str(tree)}
    pytest = [sys.executable, "-m", "pytest", "-qx", "-rfE", "--tb=no", "-n", "0"]

    def failed(content: bytes, words: list[str]) -> str:
        (tree / path).write_bytes(content)
        for compiled in (tree / path).parent.glob(f"__pycache__/{path.stem}.*"):
            compiled.unlink()
        done = subprocess.run(
            [*pytest, "-p", "no:cacheprovider", *words],
            **{"cwd": tree, "env": env, "timeout": options.limit},
            **{"capture_output": True, "text": True},
        )
        named = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.M)
        passed = done.returncode in (0, 5)  # 5: no test was selected.
        return "" if passed else named[1] if named else f"exit code {done.returncode}"

    status, test = "survived", ""
    try:
        for words in nearest(place, root, options.files):
            test = failed(text[:start] + f"({after})".encode() + text[end:], words)
            if test:
                again = ["-m", "", test.split("[")[0]] if "::" in test else words
                status = "fails anyway" if failed(text, again) else "killed"
                break
    except subprocess.TimeoutExpired:
        status = "timeout"
    (tree / path).write_bytes(text)
    return [status, str(path), test]


def main() -> None:
    """Read the list, try each mutant, and print how many of each status there are."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--root", type=Path, default=HERE.parent, help="checkout")
    parser.add_argument("--list", type=Path, default=HERE / "mutants.json")
    parser.add_argument("--results", type=Path, default=Path("out/mutants.csv"))
    parser.add_argument("--only", nargs="+", metavar="ID", default=[])
    parser.add_argument("--files", type=int, default=10, help="test files a mutant")
    parser.add_argument("--limit", type=float, default=900, help="seconds of a run")
    options = parser.parse_args()
    root, stored = options.root.resolve(), json.loads(options.list.read_text("utf8"))
    listed: dict[str, list[Place]] = defaultdict(list)
    for file in sorted((root / "probmetric").rglob("*.py")):
        tree = ast.parse(file.read_text("utf8"))
        for place in places(tree, Place(file, "", tree, tree)):
            listed[ast.unparse(place.node)].append(place)
    results: dict[str, list[str]] = {}
    if options.results.exists():
        lines = options.results.read_text("utf8").splitlines()
        results = {row[0]: row[1:] for row in csv.reader(lines)}
    options.results.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "checkout")
        shutil.copytree(root, copy, True, shutil.ignore_patterns(*LEFT_OUT))
        for mutant in stored["mutants"]:
            name, place = mutant["id"], find(mutant, listed)
            if name in results or (options.only and name not in options.only):
                continue
            if name in stored.get("moved", {}) and not place:
                mutant = dict(zip(KEYS, stored["moved"][name], strict=False))
                place = find(mutant, listed)
            row = ["not found", "", ""]
            if name in stored.get("equivalent", {}):
                row = ["equivalent", "", ""]
            elif place:
                row = attempt(place, mutant["after"], root, copy, options)
            print(name, *row, flush=True)
            results[name] = row
            with options.results.open("a", encoding="utf8", newline="") as file:
                csv.writer(file).writerow([name, *row])
    print(dict(Counter(row[0] for row in results.values())))


if __name__ == "__main__":
    main()
