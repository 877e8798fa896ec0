"""Change one numeric expression at a time, and see whether a test fails.

    python -m tools.mutants draw --compare FOLDER    draw, and write mutants_60.json
    python -m tools.mutants run                      test each mutant of the list
    python -m tools.mutants run --only ID            one of them, again
    python -m tools.mutants report --report FILE     the table, as Markdown

``--root FOLDER`` takes another checkout, with its own tests (``git worktree add
--detach ../before 86a3181``); the list stays the same, see ``tools/mutations.py``. A
copy of the checkout is mutated, never the checkout itself.

``run`` first maps, file by file, which functions each test file executes
(``tools/trace_tests.py``); a mutant is tried on the files that execute its function,
the quickest first, until one test fails. Both are kept in ``out/mutants`` and taken up
where they stopped. ``run --guess`` comes before that map is whole: it tries what the
map has, or the tests of the nearest names, and keeps what they kill. A mutant that
needs three times the seconds of its tests is "timeout".

``mutants_60.json`` also holds what is said by hand: ``equivalent`` (id: why no test can
tell it from the program; at most a tenth), and ``moved`` (id: [function, before, after]
where a later layout writes the same formula otherwise, and which of several it is).
"""

import argparse
import ast
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.mutations import (
    RULES,
    SEED,
    Mutant,
    Site,
    counted,
    draw,
    everything,
    find,
    mutated,
    sources,
)

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_name("mutants_60.json")
NUMBER = 60
EQUIVALENT_SHARE = 0.1
PATIENCE, LEAST = 3, 120
LEFT_OUT = shutil.ignore_patterns(
    *(".git", ".venv*", "out", "dist", "build", "__pycache__", ".*_cache", "results")
)
NOT_NUMERIC = re.compile(r"test_(architecture|packaging|mutants|rooms|code_lines)\.py$")
"""Test files that read the sources or build wheels: they say nothing of a formula."""


@dataclass(frozen=True)
class Checkout:
    """A checkout, and the folder with what is kept about it."""

    root: Path
    kept: Path

    @property
    def results(self) -> Path:
        """One JSON line a mutant."""
        return self.kept / "results.jsonl"

    def copy(self, number: int = 0) -> Path:
        """Return a fresh copy of the checkout to run tests in."""
        tree = self.kept / f"tree{number}"
        shutil.rmtree(tree, ignore_errors=True)
        shutil.copytree(self.root, tree, symlinks=True, ignore=LEFT_OUT)
        return tree

    def tests(self) -> list[str]:
        """Return the test files that may know a formula."""
        files = sorted(self.root.glob("tests/**/test_*.py"))
        return [
            str(file.relative_to(self.root))
            for file in files
            if not NOT_NUMERIC.search(str(file))
        ]


def pytest(tree: Path, asked: list[str], limit: float, **env: str) -> tuple[int, str]:
    """Run pytest in a copy of a checkout; returns its exit code and what it printed.

    ``limit`` is in seconds of CPU, because the machine may be shared; the clock may
    show ten times as many before the run is ended. An ended run returns -SIGXCPU.
    """
    paths = [str(tree), str(Path(__file__).parent)]
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "--tb=no", "-rfE"]
    command += ["-m", "not slow and not study"]  # With what `make gates` judges.
    # By the shell: JAX, where it is loaded, minds a function between fork and exec.
    limited = ["sh", "-c", f'ulimit -S -t {int(limit)}; exec "$@"', "sh"]
    process = subprocess.Popen(
        [*limited, *command, "-p", "no:cacheprovider", *asked],
        cwd=tree,
        env={**os.environ, "MPLBACKEND": "Agg", "PYTHONPATH": ":".join(paths), **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        text, _ = process.communicate(timeout=10 * limit)
    except subprocess.TimeoutExpired:
        process.kill()
        text, _ = process.communicate()
        return -signal.SIGXCPU, text
    code = process.returncode
    return (-signal.SIGXCPU if code == -signal.SIGKILL else code), text


def map_tests(checkout: Checkout, build: bool = True) -> dict[str, dict[str, Any]]:
    """Return for each test file its seconds, its failures and what it executes.

    Without ``build``, for those that are known already.
    """
    folder = checkout.kept / "map"
    folder.mkdir(parents=True, exist_ok=True)
    names = {test: test.replace("/", "__") + ".json" for test in checkout.tests()}
    tree = None
    for test, name in names.items():
        if build and not (folder / name).exists():
            tree = tree or checkout.copy()
            trace = {"MUTANTS_TRACE": str(folder / name)}
            code, text = pytest(tree, ["-p", "trace_tests", test], 3600, **trace)
            if not (folder / name).exists():
                sys.exit(f"{test}: expected a trace, got exit code {code}:\n{text}")
            print(f"map: {test}", flush=True)
    return {
        test: json.loads((folder / name).read_text())
        for test, name in names.items()
        if (folder / name).exists()
    }


def functions_of(file: Path) -> set[str]:
    """Return the names of a module's functions, and Class.method of its methods."""
    found = set()
    for part in ast.parse(file.read_text("utf8")).body:
        inside = part.body if isinstance(part, ast.ClassDef) else [part]
        prefix = f"{part.name}." if isinstance(part, ast.ClassDef) else ""
        found |= {prefix + f.name for f in inside if isinstance(f, ast.FunctionDef)}
    return found


def tests_of(
    mutant: Mutant, site: Site, root: Path, known: dict[str, dict[str, Any]]
) -> list[str]:
    """Return the test files that execute a mutant's function, quickest first.

    What stands outside functions is known by those that execute any of its module.
    """
    file = str(site.file.relative_to(root))
    own = functions_of(site.file)
    own = {mutant.function} if mutant.function in own else own
    chosen = [
        test
        for test, entry in known.items()
        if any(path == file and name in own for path, name in entry["functions"])
    ]
    return sorted(chosen, key=lambda test: known[test]["seconds"])


def nearest(site: Site, checkout: Checkout, number: int = 3) -> list[str]:
    """Return the test files whose path shares most words with a module's, short first.

    A guess that needs no map: it finds many failures early, and proves no survival.
    """

    def words(path: Path) -> set[str]:
        return set(re.findall(r"[a-z]+", str(path.with_suffix(""))))

    own = words(site.file.relative_to(checkout.root / "probmetric"))

    shared = {test: len(own & words(Path(test))) for test in checkout.tests()}
    most = max(shared.values(), default=0)

    def rank(test: str) -> tuple[int, int]:
        return -shared[test], (checkout.root / test).stat().st_size

    near = [test for test, number in shared.items() if number >= max(most - 1, 1)]
    return sorted(near, key=rank)[:number]


def attempt(
    mutant: Mutant,
    site: Site,
    checkout: Checkout,
    tree: Path,
    tests: list[str],
    known: dict[str, dict[str, Any]],
) -> dict[str, Any]:
    """Return what the tests say of one mutant; the copy is put right again."""
    unknown: dict[str, Any] = {"seconds": LEAST, "failed": []}
    entries = [known.get(test, unknown) for test in tests]
    needed = sum(entry["seconds"] for entry in entries)
    failing = [name for entry in entries for name in entry["failed"]]
    record = {"id": mutant.id, "function": mutant.function, "files": len(tests)}
    if not tests:
        return {**record, "status": "survived", "test": "", "seconds": 0.0}
    asked = ["-x", *(f"--deselect={name}" for name in failing), *tests]
    file = tree / site.file.relative_to(checkout.root)
    text = site.file.read_text("utf8")
    began = time.monotonic()
    try:
        put(file, mutated(text, site))
        code, printed = pytest(tree, asked, LEAST + PATIENCE * needed)
    finally:
        put(file, text)
    status, test = verdict(code, printed)
    seconds = round(time.monotonic() - began, 1)
    return {**record, "status": status, "test": test, "seconds": seconds}


def put(file: Path, text: str) -> None:
    """Write a module, and remove what Python compiled of the former one."""
    file.write_text(text, "utf8")
    for compiled in file.parent.glob(f"__pycache__/{file.stem}.*"):
        compiled.unlink()


def verdict(code: int, printed: str) -> tuple[str, str]:
    """Return (status, the test that failed) from pytest's exit code and its words."""
    if code == 0:
        return "survived", ""
    if code == -signal.SIGXCPU:
        return "timeout", ""
    named = re.search(r"^(?:FAILED|ERROR) (\S+)", printed, re.MULTILINE)
    if named:
        return "killed", named[1]
    if code < 0 or "conftest" in printed:
        return "killed", f"exit code {code}"
    raise RuntimeError(
        f"pytest: expected tests to run, got exit code {code}:\n{printed}"
    )


def read_list(path: Path | None = None) -> dict[str, Any]:
    """Return the stored list: seed, mutants, what was said of them by hand."""
    stored = json.loads((path or LIST).read_text("utf8"))
    stored["mutants"] = [
        Mutant(**{k: v for k, v in each.items() if k != "id"})
        for each in stored["mutants"]
    ]
    most = int(EQUIVALENT_SHARE * len(stored["mutants"]))
    if len(stored["equivalent"]) > most:
        raise ValueError(
            f"equivalent: expected at most {most} mutants, "
            f"got {len(stored['equivalent'])}"
        )
    return stored


def placed(
    stored: dict[str, Any], present: dict[Mutant, Site]
) -> dict[Mutant, Mutant | None]:
    """Return for each mutant of the list the one of this tree that makes its change."""
    places: dict[Mutant, Mutant | None] = {}
    for mutant in stored["mutants"]:
        if mutant not in present and mutant.id in stored["moved"]:
            said = tuple(stored["moved"][mutant.id])
            here = lambda m: (m.function, m.before, m.after, m.occurrence)  # noqa: E731
            same = [m for m in present if here(m)[: len(said)] == said]
            places[mutant] = same[0] if len(same) == 1 else None
        else:
            places[mutant] = find(mutant, present)
    return places


def results(checkout: Checkout) -> dict[str, dict[str, Any]]:
    """Return the newest record of each mutant."""
    lines = (
        checkout.results.read_text().splitlines() if checkout.results.exists() else []
    )
    records = [json.loads(line) for line in lines]
    return {record["id"]: record for record in records}


def run(checkout: Checkout, only: str | None, jobs: int, guess: bool) -> None:
    """Try the mutants that have no result yet, or one again; one JSON line each.

    A guess at the tests keeps only what it kills.
    """
    stored = read_list()
    present = counted(everything(sources(checkout.root)))
    places = placed(stored, present)
    known = map_tests(checkout, build=not guess)
    done = results(checkout)
    wanted = [
        mutant
        for mutant in stored["mutants"]
        if (only is None and mutant.id not in done) or mutant.id == only
    ]
    trees: queue.Queue[Path] = queue.Queue()
    for number in range(jobs):
        trees.put(checkout.copy(number))

    def one(mutant: Mutant) -> None:
        here, tree = places[mutant], trees.get()
        try:
            if here is None:
                record: dict[str, Any] = {"status": "not found", "test": ""}
            else:
                site = present[here]
                tests = tests_of(here, site, checkout.root, known)
                if guess and not tests:
                    tests = nearest(site, checkout)
                record = attempt(here, site, checkout, tree, tests, known)
        finally:
            trees.put(tree)
        record["id"] = mutant.id
        if guess and record["status"] != "killed":
            print(f"{mutant.id}: not killed by a guess at its tests", flush=True)
            return
        with checkout.results.open("a") as file:
            file.write(json.dumps(record) + "\n")
        print(record, flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, wanted))


def table(stored: dict[str, Any], records: dict[str, dict[str, Any]]) -> str:
    """Return the list with the results as Markdown, the score first."""

    def code(text: str) -> str:
        shown = text if len(text) < 90 else text[:87] + "..."
        return f"`{shown}`".replace("|", "\\|")

    rows, count = [], Counter()
    for mutant in stored["mutants"]:
        record = records.get(mutant.id, {"status": "not run", "test": ""})
        status = record["status"]
        if status != "killed" and mutant.id in stored["equivalent"]:
            status = "equivalent"
        count[status] += 1
        said = stored["equivalent"].get(mutant.id, "") if status == "equivalent" else ""
        by = said or record["test"]
        rows.append(
            f"| {mutant.id} | `{mutant.function}` | {mutant.operator} | "
            f"{code(mutant.before)} | {code(mutant.after)} | {status} | {by} |"
        )
    found = count["killed"] + count["timeout"]
    judged, open_ = found + count["survived"], count["not run"]
    share = f"{found / max(judged, 1):.3f}"
    if open_:
        least, most = (n / (judged + open_) for n in (found, found + open_))
        share = f"between {least:.3f} and {most:.3f}, as {open_} have no result yet"
    counts = ", ".join(f"{n} {status}" for status, n in sorted(count.items()))
    head = [
        f"Seed {stored['seed']}, {len(stored['mutants'])} mutants: {counts}.",
        f"Score (killed or timeout, of those judged and not equivalent): {share}.",
        "",
        "| id | where | operator | before | after | result | by, or why |",
        "|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*head, *rows]) + "\n"


def drawn(root: Path, compare: Path | None, seed: int, number: int) -> dict[str, Any]:
    """Return a new list, of mutants that both checkouts have.

    What was said by hand of those that stay is kept.
    """
    found = everything(sources(root))
    both = set(counted(found))
    if compare:
        both &= set(counted(everything(sources(compare))))
    print(f"{len(both)} mutants; left out:")
    for rule, times in Counter(site.rule for _, site in found if site.rule).items():
        print(f"  {times} {rule}: {RULES[rule]}")
    chosen = draw(both, number, seed)
    mutants = [{"id": mutant.id, **mutant._asdict()} for mutant in chosen]
    before = json.loads(LIST.read_text("utf8")) if LIST.exists() else {}
    said = {
        kind: {
            key: value
            for key, value in before.get(kind, {}).items()
            if key in {mutant.id for mutant in chosen}
        }
        for kind in ("equivalent", "moved")
    }
    return {"seed": seed, "mutants": mutants, **said}


def main() -> None:
    """Draw, run or report, as asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["draw", "map", "run", "report"])
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout to test")
    parser.add_argument("--compare", type=Path, help="draw from what both have")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--number", type=int, default=NUMBER)
    parser.add_argument("--only", metavar="ID", help="run this mutant, again")
    parser.add_argument(
        "--guess", action="store_true", help="without the whole map; keep only kills"
    )
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--report", type=Path, help="write the table here")
    asked = parser.parse_args()
    root = asked.root.resolve()
    checkout = Checkout(root, ROOT / "out" / "mutants" / root.name)
    if asked.what == "draw":
        new = drawn(root, asked.compare, asked.seed, asked.number)
        LIST.write_text(json.dumps(new, indent=1, ensure_ascii=False) + "\n", "utf8")
    elif asked.what == "map":
        map_tests(checkout)
    elif asked.what == "run":
        checkout.kept.mkdir(parents=True, exist_ok=True)
        run(checkout, asked.only, asked.jobs, asked.guess)
    if asked.what == "report" or asked.report:
        text = table(read_list(), results(checkout))
        asked.report.write_text(text, "utf8") if asked.report else print(text)


if __name__ == "__main__":
    main()
