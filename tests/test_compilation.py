"""Compiled programs on disk: where, for whom, and what can go wrong."""

import json
import os
import subprocess
import sys
from contextlib import suppress

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probmetric import compilation
from probmetric.compilation import cache_folder, compilation_cache, stored_programs
from tests.cli.runs import draw_only, ran, run

NEW = """
import json, warnings
import jax, jax.numpy as jnp
from probmetric.compilation import compilation_cache
seen = []
jax.monitoring.register_event_listener(lambda name, **_: seen.append(name))
warnings.simplefilter("error")
with compilation_cache() as folder:
    value = float(jax.jit(lambda x: jnp.sin(x).sum())(jnp.arange(5.0)))
print(json.dumps([value, seen.count("/jax/compilation_cache/cache_hits"),
                  seen.count("/jax/compilation_cache/cache_misses")]))
"""


def compiled_in_a_process(**environment):
    """Return value, cache hits and misses of a process that compiles programs."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JAX", "XDG"))}
    done = subprocess.run(
        [sys.executable, "-c", NEW],
        capture_output=True,
        env={**kept, **environment},
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


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


@pytest.mark.long
def test_a_later_process_compiles_nothing(tmp_path):
    value, _, number = compiled_in_a_process(PROBMETRIC_CACHE=str(tmp_path))
    assert len(programs(tmp_path)) == number > 0
    later = compiled_in_a_process(PROBMETRIC_CACHE=str(tmp_path))
    assert later == [value, number, 0]


def test_a_default_folder_that_cannot_be_used_is_not_used(alone, tmp_path):
    (tmp_path / "file").write_text("no folder")
    alone.setenv("PROBMETRIC_CACHE", str(tmp_path / "file"))
    with compilation_cache() as folder:
        assert folder is None
    with pytest.raises(OSError), compilation_cache(tmp_path / "file"):
        pass


def test_another_processor_has_another_folder(alone, tmp_path):
    here = compilation._subfolder()
    (tmp_path / "cpuinfo").write_text("flags : sse2")
    alone.setattr(compilation, "PROCESSOR", tmp_path / "cpuinfo")
    assert compilation._subfolder() != here


def test_after_the_block_jax_is_as_before(alone, tmp_path):
    def options():
        names = ("jax_compilation_cache_dir", *compilation.STORE_ALL)
        return [getattr(jax.config, name) for name in names]

    before = options()
    with suppress(KeyError), compilation_cache(tmp_path):
        jax.jit(lambda x: x + 3)(jnp.ones(7))
        assert options() != before
        raise KeyError  # A failed block restores the options, too.
    assert options() == before
    number = len(programs(tmp_path))
    jax.jit(lambda x: x + 4)(jnp.ones(7))
    assert len(programs(tmp_path)) == number > 0


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
    ran("fit", "lda", *words)
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
