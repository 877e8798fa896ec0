"""Folders that are no runs, or damaged ones, are refused in a sentence."""

import json

import pytest

from probmetric.report.run import render_run, write_summary

CASES = {
    "absent": (None, "run, got '{0}' without summary.json."),
    "no json": ("{", "contain a readable summary.json, got '{0}'"),
    "a list": ([1], "a run's summary, got '{0}/summary.json'."),
    "another": ({"format": "x", "format_version": 1}, "a run's summary, got"),
    "newer": (
        {"format": "probmetric-run", "format_version": 9, "probmetric_version": "8.7"},
        "must have format version 1, got 9 in '{0}/summary.json'. It was written by "
        "probmetric 8.7; this is ",
    ),
    "next": ({"command": "next"}, "run of fit, sample, evaluate, validate, got 'next'"),
    "number": (
        {"format": "probmetric-run", "format_version": 1, "command": 3},
        "DIR must be a run of fit, sample, evaluate, validate, got 3.",
    ),
    "lacking": ({"command": "evaluate"}, "its files, got '{0}' without 'data'."),
    "wrong": (
        {"command": "evaluate", "data": {}, "figures": 4},
        "DIR must contain a complete summary and its files, got damaged ones in '{0}' "
        "(TypeError: cannot unpack",
    ),
    "value": (
        {"command": "evaluate", "data": {"sites": 1}, "figures": {"one": 1}},
        "damaged ones in '{0}' (ValueError: not enough values to unpack",
    ),
    "no table": (
        {"command": "evaluate", "data": {"sites": 1}, "model": 1, "folds": 2,
         "figures": {"one": 1, "two": 2}},
        "DIR must contain a readable predictions.csv, got '{0}'",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("content", "said"), CASES.values(), ids=CASES)
def test_a_folder_that_is_no_run_is_refused(tmp_path, content, said):
    path = tmp_path / "summary.json"
    if isinstance(content, dict) and "format" not in content:
        write_summary(path, content.pop("command"), content)
    elif content is not None:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(ValueError) as caught:
        render_run(tmp_path)
    assert said.format(tmp_path) in str(caught.value)
