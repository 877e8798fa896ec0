"""A pytest plugin that writes which functions of the package a run of tests executes.

``MUTANTS_TRACE=map.json pytest -p trace_tests tests/one_file.py``, with this folder on
``PYTHONPATH``. A function is (file, outermost function or Class.method): what runs
inside it counts as it. Functions under ``jax.jit`` run while they are traced, so one
process has to run one file: in a second file the compiled program would run instead.
"""

import json
import os
import sys
import time
from pathlib import Path
from types import CodeType

import pytest

MONITOR = sys.monitoring
DISABLE, TOOL = MONITOR.DISABLE, MONITOR.COVERAGE_ID
EXECUTED: set[tuple[str, str]] = set()
FAILED: list[str] = []


def _note(code: CodeType, _offset: int) -> object:
    if "probmetric" in code.co_filename:
        name = code.co_qualname.split(".<locals>")[0]
        EXECUTED.add((code.co_filename, name))
    return DISABLE


def pytest_configure() -> None:
    """Begin to listen: each function reports its first call and costs nothing later."""
    MONITOR.use_tool_id(TOOL, "trace_tests")
    MONITOR.register_callback(TOOL, MONITOR.events.PY_START, _note)
    MONITOR.set_events(TOOL, MONITOR.events.PY_START)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember what fails without any mutation."""
    if report.failed:
        FAILED.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the functions, the seconds of CPU and the failures as JSON."""
    MONITOR.set_events(TOOL, MONITOR.events.NO_EVENTS)
    root = Path(str(session.config.rootpath))
    functions = sorted(
        (str(Path(file).relative_to(root)), name)
        for file, name in EXECUTED
        if Path(file).is_relative_to(root / "probmetric")
    )
    record = {
        "seconds": round(time.process_time(), 1),
        "failed": sorted(set(FAILED)),
        "functions": functions,
    }
    Path(os.environ["MUTANTS_TRACE"]).write_text(json.dumps(record))
