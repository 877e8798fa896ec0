"""Build what would be released, install it elsewhere, and test what was installed.

    python tools/release_check.py                      all of it
    python tools/release_check.py --python 3.13 --with newest --tests tests/metric

In a temporary folder: the sdist and, from it, the wheel are built; the long description
is rendered as a package index would; for each Python that is found the wheel is
installed into a fresh environment with the newest versions of what it depends on, and
for the oldest Python with the lowest that ``pyproject.toml`` allows; there the fast
tests of the sdist run, with no checkout on the path, but for the files that need one
(``apart``). Packages come from the index that pip is configured for. The exit status
is 0 when all that was run passed; what was not run is said.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.12", "3.13", "3.14")
OUTSIDE = re.compile(
    r"^\s*(from|import) (tools|benchmarks)\b|\bparents\[", re.MULTILINE
)
"""What a test says that needs files of the repository beside the package and tests."""

EXTRAS = "[ann,cli,dask,explore,parquet,plots]"
TESTS_NEED = ("beartype", "hypothesis", "ipython", "pyarrow", "pytest", "pytest-xdist")
RENDERS = "readme_renderer[md]"
PROBE = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"


def run(*words: object, cwd: Path | None = None, **variables: str) -> str:
    """Run a command away from the checkout; return what it printed, or raise."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | variables
    done = subprocess.run(
        [str(word) for word in words], cwd=cwd, env=env, capture_output=True, text=True
    )
    if done.returncode:
        said = (done.stdout + done.stderr)[-3000:]
        raise RuntimeError(f"{' '.join(map(str, words[:8]))} ...\n{said}")
    return done.stdout


def find(version: str) -> str | None:
    """Return an interpreter of a version that works, or None."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    named = shutil.which(f"python{version}")
    candidates = [sys.executable, *([named] if named else [])]
    candidates += [str(p / "bin/python") for p in sorted(root.glob(f"{version}*"))]
    for candidate in candidates:
        try:
            if run(candidate, "-c", PROBE).strip() == version:
                return candidate
        except (OSError, RuntimeError):
            continue
    return None


def lowest() -> list[str]:
    """Return what the core and the command require, at their lower bounds."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needs = [*project["dependencies"], *project["optional-dependencies"]["cli"]]
    return [need.replace(">=", "==") for need in needs]


def environment(python: str, folder: Path) -> Path:
    """Make an environment; return its interpreter."""
    run(python, "-m", "venv", "--clear", folder)
    return folder / ("Scripts" if os.name == "nt" else "bin") / "python"


def install(python: Path, *words: object) -> None:
    """Install from the index that pip is configured for."""
    run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *words)


def rendered(python: str, wheel: Path, folder: Path) -> str:
    """Render the long description as an index does; return what was done."""
    own = environment(python, folder)
    install(own, RENDERS)
    code = (
        "import sys, zipfile, email; from readme_renderer import markdown\n"
        "z = zipfile.ZipFile(sys.argv[1])\n"
        "[name] = [n for n in z.namelist() if n.endswith('.dist-info/METADATA')]\n"
        "held = email.message_from_bytes(z.read(name))\n"
        "assert held['Description-Content-Type'].startswith('text/markdown'), held\n"
        "page = markdown.render(held.get_payload(decode=True).decode())\n"
        "assert page and '<h1' in page, 'renders as nothing'\n"
        "print(len(page))"
    )
    size = run(own, "-c", code, wheel).strip()
    return f"long description: {size} characters of HTML ({RENDERS})"


def apart(root: Path) -> list[str]:
    """Return the files of tests that need more of the repository than the sdist has."""
    return [
        path.relative_to(root).as_posix()
        for path in sorted((root / "tests").rglob("test_*.py"))
        if OUTSIDE.search(path.read_text(encoding="utf-8"))
    ]


def tested(python: Path, tests: Path, part: tuple[str, ...]) -> str:
    """Run tests against what is installed; return pytest's last line."""
    where = run(
        python, "-c", "import probmetric; print(probmetric.__file__)", cwd=tests
    )
    if "site-packages" not in where:
        raise RuntimeError(f"expected the installed package, got {where}")
    left = apart(tests)
    said = run(
        *(python, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "-p"),
        *("no:cacheprovider", *part, *(f"--ignore={name}" for name in left)),
        cwd=tests,
        PYTHONPATH=str(tests),  # Tests start copies of themselves, which import tests.
        JAX_DISABLE_MOST_OPTIMIZATIONS="1",  # As `make test` has it.
    )
    return f"{said.strip().splitlines()[-1]}; {len(left)} files need a checkout"


def check(given: argparse.Namespace, folder: Path) -> list[tuple[str, str, str]]:
    """Return what was checked, whether it passed, and what it said."""
    dist = folder / "dist"
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", dist, ROOT)
    [sdist], [wheel] = dist.glob("*.tar.gz"), dist.glob("*.whl")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "sdist", filter="data")
    [source] = (folder / "sdist").iterdir()
    shutil.rmtree(source / "probmetric")  # What is tested is what was installed.
    found = [("build", "passed", f"{sdist.name}, {wheel.name}")]

    def said(name: str, work) -> None:
        try:
            found.append((name, "passed", work()))
        except RuntimeError as error:
            found.append((name, "FAILED", str(error)))
        print(": ".join(found[-1]), flush=True)

    said("render", lambda: rendered(sys.executable, wheel, folder / "render"))
    for version in given.python:
        python = find(version)
        for how in given.resolutions:
            name = f"Python {version}, {how} dependencies"
            if python is None:
                found.append((name, "not run", "no interpreter"))
            elif how == "lowest" and version != PYTHONS[0]:
                found.append((name, "not run", f"bounds are those of {PYTHONS[0]}"))
            else:

                def work(python: str = python, how: str = how, name: str = name) -> str:
                    own = environment(python, folder / name.replace(" ", "_"))
                    pins = lowest() if how == "lowest" else []
                    if pins:
                        install(own, "--only-binary", ":all:", wheel, *pins)
                    install(own, f"{wheel}{EXTRAS}", *pins, *TESTS_NEED)
                    return tested(own, source, tuple(given.tests))

                said(name, work)
                shutil.rmtree(folder / name.replace(" ", "_"), ignore_errors=True)
    return found


def main(argv: list[str] | None = None) -> int:
    """Check, print what came of it; 1 where something failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", nargs="+", default=PYTHONS)
    parser.add_argument(
        *("--with",),
        dest="resolutions",
        nargs="+",
        choices=("lowest", "newest"),
        default=("lowest", "newest"),
    )
    parser.add_argument("--tests", nargs="+", default=["tests"])
    given = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="release") as folder:
        found = check(given, Path(folder))
    for name, outcome, said in found:
        print(f"{outcome:8}{name}: {said.splitlines()[0] if said else ''}")
    return int(any(outcome == "FAILED" for _, outcome, _ in found))


if __name__ == "__main__":
    sys.exit(main())
