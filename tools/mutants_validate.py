"""Change one numeric expression at a time, and see whether ``validate`` notices.

    python -m tools.mutants_validate map                which functions a check executes
    python -m tools.mutants_validate run --number 120   draw mutants, and try each
    python -m tools.mutants_validate report             the table, as Markdown

A mutant (``tools/mutations.py``) is killed where ``validate --all --quick`` would exit
with 1: where a toy problem or a check raises, or a check does not pass. Only the checks
that execute the mutant's function are run, the quickest first, until one fails; of a
function that builds the toy problem, all checks of the model. What no check executes
has survived without a run. ``--limit`` is the most seconds of CPU a mutant may take,
beyond which it counts as "timeout".

Everything is kept in ``out/mutants_validate``, one JSON line a mutant and seed, and
taken up where it stopped. ``--only WORD`` tries again those of a draw whose file or id
contains a word.
"""

import argparse
import contextlib
import json
import os
import re
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from tools.mutants import ROOT, Checkout, functions_of, put
from tools.mutations import Mutant, Site, counted, draw, everything, mutated, sources

KEPT = ROOT / "out" / "mutants_validate"
TOY = "toy"
"""Stands among the checks of a model for the building of its problem."""

EQUIVALENT = Path(__file__).with_name("mutants_validate.json")
"""Of mutants by id: why nothing can tell them from the program."""


def forked(work: Callable[[], Any], limit: int = 3600) -> Any:
    """Return what a function returns in a child of this process, as JSON.

    The child imports the package for itself; what JAX loads is shared with it. Where it
    dies, ``{"died": signal or exit code}``.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(BaseException):
            os.close(reading)
            signal.alarm(10 * limit)
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            answer = json.dumps(work()).encode()
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(answer)
            code = 0
        os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return json.loads(answer) if code == 0 else {"died": code}


def preload() -> None:
    """Import what the package imports, but not the package, and begin no device."""
    for name in ("jax", "numpyro", "arviz_stats", "pandas", "scipy.optimize"):
        import_module(name)


def executed(tree: Path, model: str, seed: int) -> dict[str, dict[str, Any]]:
    """Return of the toy problem and each quick check its seconds and functions."""
    sys.path.insert(0, str(tree))
    import jax

    from probmetric import MODELS, validate

    package, seen = str(tree / "probmetric"), set[tuple[str, str]]()
    monitor = sys.monitoring

    def note(code: Any, _offset: int) -> object:
        if code.co_filename.startswith(package):
            file = str(Path(code.co_filename).relative_to(tree))
            seen.add((file, code.co_qualname.split(".<locals>")[0]))
        return monitor.DISABLE

    monitor.use_tool_id(monitor.COVERAGE_ID, "mutants_validate")
    monitor.register_callback(monitor.COVERAGE_ID, monitor.events.PY_START, note)
    monitor.set_events(monitor.COVERAGE_ID, monitor.events.PY_START)
    found: dict[str, dict[str, Any]] = {}

    def taken(name: str, work: Callable[[], Any]) -> Any:
        seen.clear()
        jax.clear_caches()
        monitor.restart_events()
        began = time.process_time()
        result = work()
        seconds = round(time.process_time() - began, 1)
        found[name] = {"seconds": seconds, "functions": sorted(seen)}
        return result

    problem = taken(TOY, lambda: MODELS[model].toy(seed))
    for check in MODELS[model].checks:
        if not check.slow:
            taken(check.name, lambda c=check: validate([c], problem, progress=False))
    return found


def tried(tree: Path, chosen: dict[str, list[str]], seed: int) -> str:
    """Return the first model and check that fails, of those chosen, or ""."""
    sys.path.insert(0, str(tree))
    import jax

    from probmetric import MODELS
    from probmetric.checks import judge

    for model, names in chosen.items():
        checks = {check.name: check for check in MODELS[model].checks}
        shared: dict[Any, Any] = {}
        name = "the toy problem"
        try:
            problem = MODELS[model].toy(seed)
            with jax.enable_x64(True):
                for name in names:
                    check = checks[name]
                    if check.reference not in shared:
                        shared[check.reference] = check.reference(problem)
                    known = shared[check.reference]
                    said = judge(check, problem, reference=known).attrs
                    word = said["verdict"]
                    if word not in ("agree", "within") and not said.get("unreliable"):
                        return f"{model}: {name}: {word}"
        except Exception as error:
            return f"{model}: {name}: {type(error).__name__}"
    return ""


def mapped(tree: Path, seed: int) -> dict[str, dict[str, dict[str, Any]]]:
    """Return what each model's toy problem and checks execute, from a file if known."""
    file = KEPT / "map.json"
    known = json.loads(file.read_text()) if file.exists() else {}
    names = re.findall(
        r'^    "(\w+)": _spec', (ROOT / "probmetric/registry.py").read_text(), re.M
    )
    for model in names:
        if model not in known:
            known[model] = forked(lambda m=model: executed(tree, m, seed))
            if "died" in known[model]:
                sys.exit(f"{model}: expected a map of its checks, got {known[model]}")
            file.write_text(json.dumps(known))
            print(f"map: {model}", flush=True)
    return known


def checks_of(
    mutant: Mutant, site: Site, known: dict[str, Any]
) -> dict[str, list[str]]:
    """Return by model the checks that may find a mutant out, the quickest first."""
    file, own = str(site.file.relative_to(ROOT)), functions_of(site.file)
    own = {mutant.function} if mutant.function in own else own

    def runs(entry: dict[str, Any]) -> bool:
        return any(path == file and name in own for path, name in entry["functions"])

    chosen: dict[str, list[str]] = {}
    for model, parts in known.items():
        builds = runs(parts[TOY])
        names = [k for k, part in parts.items() if k != TOY and (builds or runs(part))]
        if names:
            chosen[model] = sorted(names, key=lambda k: parts[k]["seconds"])
    quick = {
        m: sum(known[m][k]["seconds"] for k in names) for m, names in chosen.items()
    }
    return {model: chosen[model] for model in sorted(chosen, key=quick.__getitem__)}


def records(seed: int) -> dict[str, dict[str, Any]]:
    """Return the newest record of each mutant of a seed."""
    file = KEPT / f"results_{seed}.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    return {record["id"]: record for record in map(json.loads, lines)}


def run(
    seed: int, number: int, only: str | None, limit: int, job: tuple[int, int]
) -> None:
    """Try the mutants of a draw that have no result yet; one JSON line each."""
    preload()
    present = counted(everything(sources(ROOT)))
    place, jobs = job
    tree = Checkout(ROOT, KEPT).copy(place)
    known, done = mapped(tree, 0), records(seed)
    for mutant in draw(present, number, seed)[place::jobs]:
        site = present[mutant]
        path = site.file.relative_to(ROOT)
        if (only is None and mutant.id in done) or (
            only is not None and only not in f"{path} {mutant.id}"
        ):
            continue
        chosen = checks_of(mutant, site, known)
        began, text = time.monotonic(), site.file.read_text("utf8")
        found: Any = ""
        if chosen:
            put(tree / path, mutated(text, site))
            found = forked(lambda c=chosen: tried(tree, c, 0), limit)
            put(tree / path, text)
        status = "killed" if found else "survived" if chosen else "not executed"
        if isinstance(found, dict):
            late = found["died"] in (-signal.SIGXCPU, -signal.SIGKILL, -signal.SIGALRM)
            status, found = ("timeout", "") if late else ("killed", str(found))
        record = {"id": mutant.id, "file": str(path), **mutant._asdict()}
        record |= {"status": status, "by": found}
        record["seconds"] = round(time.monotonic() - began, 1)
        with (KEPT / f"results_{seed}.jsonl").open("a") as file:
            file.write(json.dumps(record) + "\n")
        said = f"{path}:{site.node.lineno} {mutant.function}: {mutant.before[:60]} -> "
        print(
            status,
            mutant.id,
            record["seconds"],
            said + mutant.after[:60],
            found,
            flush=True,
        )


def table(seed: int) -> str:
    """Return the results of a seed as Markdown, the score first, survivors on top."""

    def code(text: str) -> str:
        shown = text if len(text) < 90 else text[:87] + "..."
        return f"`{shown}`".replace("|", "\\|")

    equal = json.loads(EQUIVALENT.read_text("utf8")) if EQUIVALENT.exists() else {}
    rows, count = list[tuple[bool, str]](), Counter[str]()
    for one in records(seed).values():
        killed = one["status"] in ("killed", "timeout")
        status = one["status"] if killed or one["id"] not in equal else "equivalent"
        count[status] += 1
        by = equal[one["id"]] if status == "equivalent" else one["by"]
        place = f"`{one['file'].removeprefix('probmetric/')}` `{one['function']}`"
        what = f"{code(one['before'])} | {code(one['after'])}"
        row = (
            f"| {one['id']} | {place} | {one['operator']} | {what} | {status} | {by} |"
        )
        rows.append((killed, row))
    found = count["killed"] + count["timeout"]
    judged = sum(count.values()) - count["equivalent"]
    counts = ", ".join(f"{n} {status}" for status, n in sorted(count.items()))
    head = [
        f"Seed {seed}, {sum(count.values())} mutants: {counts}.",
        f"Score (killed or timeout, of those not equivalent): {found / judged:.3f}.",
        "",
        "| id | where | operator | before | after | result | by, or why |",
        "|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*head, *(row for _, row in sorted(rows))]) + "\n"


def main() -> None:
    """Map, run or report, as asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["map", "run", "report"])
    parser.add_argument("--seed", type=int, default=1, help="of the draw of mutants")
    parser.add_argument("--number", type=int, default=120)
    parser.add_argument("--only", metavar="WORD")
    parser.add_argument("--limit", type=int, default=300, help="seconds of CPU")
    parser.add_argument("--job", default="0/1", help="this part of several, as 0/2")
    parser.add_argument("--report", type=Path, help="write the table here")
    asked = parser.parse_args()
    KEPT.mkdir(parents=True, exist_ok=True)
    if asked.what == "map":
        preload()
        (KEPT / "map.json").unlink(missing_ok=True)
        mapped(Checkout(ROOT, KEPT).copy(0), 0)
    elif asked.what == "run":
        place, jobs = map(int, asked.job.split("/"))
        run(asked.seed, asked.number, asked.only, asked.limit, (place, jobs))
    else:
        text = table(asked.seed)
        asked.report.write_text(text, "utf8") if asked.report else print(text)


if __name__ == "__main__":
    main()
