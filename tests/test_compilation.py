"""Compiled programs on disk: where, for whom, and what can go wrong."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probmetric import compilation
from probmetric.compilation import cache_folder, compilation_cache, stored_programs
from tests.cli.runs import draw_only, run

NEW = """
import json, os, warnings
import jax, jax.numpy as jnp
from probmetric.compilation import compilation_cache
seen = []
jax.monitoring.register_event_listener(lambda name, **_: seen.append(name))
warnings.simplefilter(os.environ.get("ON_WARNING", "error"))
with compilation_cache() as folder:
    value = float(jax.jit(lambda x: jnp.sin(x).sum())(jnp.arange(5.0)))
print(json.dumps([value, seen.count("/jax/compilation_cache/cache_hits"),
                  seen.count("/jax/compilation_cache/cache_misses")]))
"""


def start(**environment):
    """Start a process that compiles two programs."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JAX", "XDG"))}
    return subprocess.Popen(
        [sys.executable, "-c", NEW],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**kept, **environment},
        text=True,
    )


def told(process):
    """Return value, hits and misses that a process prints, and no other word."""
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    return json.loads(out)


def programs(folder):
    """Return the files below a folder."""
    return sorted(p for p in folder.rglob("*") if p.is_file())


@pytest.fixture
def alone(monkeypatch):
    """Leave the variables that name folders to the test; JAX without a cache."""
    for name in ("PROBMETRIC_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", None)
    yield monkeypatch
    jax.config.update("jax_compilation_cache_dir", before)


def test_the_folder_is_where_a_platform_keeps_such_files(alone, tmp_path):
    alone.setenv("HOME", str(tmp_path))
    alone.setattr(sys, "platform", "linux")
    assert cache_folder() == tmp_path / ".cache" / "probmetric"
    alone.setenv("XDG_CACHE_HOME", "not/absolute")
    assert cache_folder() == tmp_path / ".cache" / "probmetric"
    alone.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "probmetric"
    alone.setattr(sys, "platform", "darwin")
    assert cache_folder() == tmp_path / "Library" / "Caches" / "probmetric"
    alone.setattr(sys, "platform", "win32")
    alone.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert cache_folder() == tmp_path / "local" / "probmetric"


@pytest.mark.parametrize("word", ["", "0", "off", "OFF"])
def test_a_variable_disables_it(alone, word):
    alone.setenv("PROBMETRIC_CACHE", word)
    assert cache_folder() is None
    with compilation_cache() as folder:
        assert folder is None
        assert jax.config.jax_compilation_cache_dir is None


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Return a cache that two processes filled at once, and the output of both."""
    folder = tmp_path_factory.mktemp("cache")
    # A program that the other process is still writing is compiled again.
    two = [start(PROBMETRIC_CACHE=str(folder), ON_WARNING="ignore") for _ in "ab"]
    return folder, [told(process) for process in two]


@pytest.mark.long
def test_a_later_process_compiles_nothing_also_of_what_several_stored(shared):
    folder, first = shared
    # One that begins late may find what the other has stored.
    number = max(misses for _, _, misses in first)
    assert len(programs(folder)) == number > 0
    value, *later = told(start(PROBMETRIC_CACHE=str(folder)))
    assert later == [number, 0]
    assert {value} == {one for one, _, _ in first}


def test_another_processor_has_another_folder(alone, tmp_path):
    here = compilation._subfolder()
    (tmp_path / "cpuinfo").write_text("flags : sse2")
    alone.setattr(compilation, "PROCESSOR", tmp_path / "cpuinfo")
    assert compilation._subfolder() != here


def test_a_folder_that_cannot_be_used_is_no_obstacle(tmp_path):
    (tmp_path / "file").write_text("no folder")
    assert told(start(PROBMETRIC_CACHE=str(tmp_path / "file")))[1] == 0
    with pytest.raises(OSError), compilation_cache(tmp_path / "file"):
        pass


@pytest.mark.long
def test_a_spoilt_program_is_compiled_again(shared, tmp_path):
    folder, first = shared
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    for path in programs(tmp_path):
        path.write_bytes(path.read_bytes()[:50])
    again = told(start(PROBMETRIC_CACHE=str(tmp_path), ON_WARNING="ignore"))
    assert again[0] == first[0][0]


def test_after_the_block_jax_is_as_before(alone, tmp_path):
    def options():
        names = ("jax_compilation_cache_dir", *compilation.STORE_ALL)
        return [getattr(jax.config, name) for name in names]

    before = options()
    with compilation_cache(tmp_path):
        jax.jit(lambda x: x + 3)(jnp.ones(7))
        assert options() != before
    assert options() == before
    number = len(programs(tmp_path))
    jax.jit(lambda x: x + 4)(jnp.ones(7))
    assert len(programs(tmp_path)) == number > 0


def test_a_failed_block_restores_the_options_of_jax(alone, tmp_path):
    with pytest.raises(ValueError, match="of the work"), compilation_cache(tmp_path):
        raise ValueError("of the work")
    assert jax.config.jax_compilation_cache_dir is None


def test_a_cache_set_up_in_jax_is_left_as_it_is(alone, tmp_path):
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    with compilation_cache() as folder:
        assert folder is None
        assert jax.config.jax_compilation_cache_dir == str(tmp_path)


def test_the_command_shows_the_cache_and_empties_it(alone, tmp_path):
    alone.setenv("PROBMETRIC_CACHE", str(tmp_path))
    (tmp_path / "mine.txt").write_text("of the user")
    with compilation_cache():
        jax.jit(lambda x: x + 6)(jnp.ones(7))
    number, size = stored_programs()
    assert number > 0
    assert size > 0
    assert f"{tmp_path}\nContains {number} programs" in run("cache").stdout
    assert f"Removed {number} programs" in run("cache", "--clear").stdout
    assert stored_programs() == (0, 0)
    assert programs(tmp_path) == [tmp_path / "mine.txt"]
    alone.setenv("PROBMETRIC_CACHE", "off")
    assert "Disabled" in run("cache").stdout


def test_commands_use_it(alone, tmp_path):
    alone.setenv("PROBMETRIC_CACHE", str(tmp_path / "cache"))
    draw_only(alone)
    # Of a shape that no other test compiles for.
    lines = [f"{k},{k * k % 7},{k * k % 11},{k % 5},{k % 2}" for k in range(23)]
    (tmp_path / "data.csv").write_text("\n".join(["a,b,c,d,y", *lines]))
    words = ("--data", tmp_path / "data.csv", "--out", tmp_path / "out")
    done = run("fit", "lda", *words)
    assert done.exit_code == 0, done.output
    assert stored_programs()[0] > 0


def test_jax_caches_are_cleared_after_a_number_of_compilations(monkeypatch):
    calls = []
    monkeypatch.setattr(jax, "clear_caches", lambda: calls.append("cleared"))
    compilation.bound_programs()
    monkeypatch.setattr(compilation._Compiled, "number", 0)
    monkeypatch.setattr(compilation, "MOST_PROGRAMS", 3)
    for size in (3, 4, 5, 6):
        jax.jit(lambda x: x - 9)(np.ones(size))
        compilation.bound_programs()
    assert calls == ["cleared"]
    assert compilation._Compiled.number == 1


def test_without_a_home_folder_a_block_runs_without_a_cache(alone):
    def homeless(path):
        raise RuntimeError("Could not determine home directory.")

    alone.setattr(Path, "expanduser", homeless)
    with compilation_cache() as folder:
        assert folder is None
