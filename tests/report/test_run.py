"""Folders that are no runs, or damaged ones, are refused in a sentence."""

import json
from functools import partial

from probmetric.report.run import render_run, write_summary
from tests.dump import assert_refused

NEWER = {"format": "probmetric-run", "format_version": 9, "probmetric_version": "8.7"}
TWO = {"one": 1, "two": 2}
CASES = {
    "absent": None,
    "no json": "{",
    "a list": [1],
    "another": {"format": "x", "format_version": 1},
    "newer": NEWER,
    "next": {"command": "next"},
    "number": {"format": "probmetric-run", "format_version": 1, "command": 3},
    "lacking": {"command": "evaluate"},
    "wrong": {"command": "evaluate", "data": {}, "figures": 4},
    "value": {"command": "evaluate", "data": {"sites": 1}, "figures": {"one": 1}},
    "no table": {"command": "evaluate", "data": {"sites": 1}, "model": 1, "folds": 2,
                 "figures": TWO},
}  # fmt: skip


def write(path, content):
    if isinstance(content, dict) and "format" not in content:
        rest = {k: v for k, v in content.items() if k != "command"}
        write_summary(path, content["command"], rest)
    elif content is not None:
        path.write_text(content if isinstance(content, str) else json.dumps(content))


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    for name, content in CASES.items():
        (tmp_path / name).mkdir()
        write(tmp_path / name / "summary.json", content)
    calls = {name: partial(render_run, tmp_path / name) for name in CASES}
    assert_refused(calls, "report/no_runs.txt", FOLDER=tmp_path)
