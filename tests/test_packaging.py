"""What is shipped: every module, the template, exact pins, a README that is true."""

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import probmetric

ROOT = Path(__file__).parents[1]
PIN = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel that is built from the sdist, as installers build it."""
    folder = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob("*.whl"))


@pytest.mark.long
def test_every_module_and_data_file_is_in_the_wheel(wheel):
    package = ROOT / "probmetric"
    wanted = {
        str(path.relative_to(ROOT))
        for pattern in ("**/*.py", "**/*.pyi", "report/templates/*", "py.typed")
        for path in package.glob(pattern)
    }
    shipped = set(zipfile.ZipFile(wheel).namelist())
    assert not wanted - shipped
    assert "probmetric/models/lca.py" in shipped
    assert "probmetric/inference/lca/fit.py" in shipped


@pytest.mark.long
def test_the_wheel_ships_the_package_alone(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    folders = {name.split("/")[0] for name in names}
    assert folders == {"probmetric", f"probmetric-{probmetric.__version__}.dist-info"}
    assert any(name.endswith("licenses/LICENSE") for name in names)


@pytest.mark.long
def test_the_wheel_imports_away_from_the_checkout(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import probmetric\n"
        f"assert probmetric.__file__.startswith({str(tmp_path)!r})\n"
        "from probmetric import cli, report\n"
        "from jinja2 import PackageLoader\n"
        "assert PackageLoader('probmetric.report').list_templates()\n"
        "assert probmetric.Mahalanobis"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr


def pins():
    """The lock's lines without comments."""
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_the_lock_holds_exact_versions_and_nothing_else():
    assert not [line for line in pins() if not PIN.fullmatch(line)]


def test_the_lock_holds_every_requirement():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        *project["dependency-groups"]["dev"],
        *project["dependency-groups"]["docs"],
    ]
    names = {re.split(r"[\[><=~! ]", need)[0].lower() for need in wanted}
    assert not names - {pin.split("==")[0].lower() for pin in pins()}


def load_readme_tool():
    spec = importlib.util.spec_from_file_location("readme", ROOT / "tools/readme.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_of_learners_lists_the_registry():
    text = (ROOT / "NOTATION.md").read_text()
    assert load_readme_tool().with_table(text) == text, "run `make readme`"


def test_the_readmes_example_uses_public_names_only():
    (block,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S
    )
    used = {
        node.attr
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "pm"
    }
    assert used
    assert used <= set(probmetric.__all__)


def test_the_readmes_links_and_figures_exist():
    found = re.findall(r"\]\((?!http)([^)#]+)\)", (ROOT / "README.md").read_text())
    assert found
    assert not [path for path in found if not (ROOT / path).exists()]


def test_every_make_target_that_the_documents_name_exists():
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.M))
    texts = [(ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md")]
    named = {t for text in texts for t in re.findall(r"`make ([a-z-]+)", text)}
    named |= {t for text in texts for t in re.findall(r"^make ([a-z-]+)", text, re.M)}
    assert named
    assert named <= targets


def test_an_old_interpreter_alone_gives_one_clear_sentence(tmp_path):
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", str(ROOT / "tools/find_python.sh")],
        capture_output=True,
        text=True,
        env={"PATH": str(tmp_path), "HOME": str(tmp_path)},
    )
    # A machine-wide interpreter may still be found where there is one.
    if done.returncode:
        assert done.stdout == ""
        assert done.stderr.startswith("probmetric needs Python 3.12 or newer")
        assert len(done.stderr.splitlines()) == 1
    else:
        assert done.stdout.startswith("/usr/")


MAKE = """#!/bin/sh
echo "$1" >> asked
echo "said by $1"
[ "$1" != "$BAD" ] || exit 3
"""


def steps(folder, bad=""):
    """Return the exit code of CI's steps, what it said, and the steps it asked for.

    Its `make` does nothing but fail at one step.
    """
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", folder / ".ci/run")
    (folder / "make").write_text(MAKE)
    (folder / "make").chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [folder / ".ci/run"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        env={**os.environ, "PATH": path, "BAD": bad},
    )
    return done.returncode, done.stdout, (folder / "asked").read_text().split()


STEPS = "install lint types wheel docs demo check slow gates doctest notebooks".split()


@pytest.mark.skipif(sys.platform != "linux", reason="CI runs on Linux")
def test_ci_asks_for_everything_once_and_says_what_each_said(tmp_path):
    code, said, asked = steps(tmp_path)
    assert code == 0, said
    assert asked[:2] == ["install", "lint"]
    assert sorted(asked) == sorted(STEPS)
    assert {*STEPS} <= set(
        re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
    )
    assert all(said.count(f"said by {name}\n") == 1 for name in STEPS)
    assert "All steps passed" in said


@pytest.mark.skipif(sys.platform != "linux", reason="CI runs on Linux")
def test_a_step_of_ci_that_fails_is_named_after_all_others_ran(tmp_path):
    code, said, asked = steps(tmp_path, bad="slow")
    assert code == 1
    assert sorted(asked) == sorted(STEPS)
    assert re.search(r"^Failed after \d+ s: slow$", said, re.M)
    assert "passed" not in said
