"""What ``validate`` found: counts, one line, an exit code, and tables."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

__all__ = ["Counts", "Judgement", "Validation"]

FAILED = ("disagree", "outside")


class Judgement(NamedTuple):
    """One check on one problem: the table of ``judge``, and how long it took."""

    model: str
    problem: str
    table: xr.Dataset
    seconds: float

    @property
    def verdict(self) -> str:
        """What was found; of a negative control, "rejected" or "missed"."""
        verdict = str(self.table.attrs["verdict"])
        if self.table.attrs["control"]:
            return "rejected" if verdict in FAILED else "missed"
        return verdict


class Counts(NamedTuple):
    """How many claims there were, and how they fared."""

    exact: int
    agree: int
    disagree: int
    approximate: int
    within: int
    outside: int
    inconclusive: int
    controls: int
    rejected: int


@dataclass(frozen=True)
class Validation:
    """What ``validate`` found.

    Parameters
    ----------
    name : str
        The model's name, or "checks".
    judgements : tuple of Judgement
        One a check (or negative control) and problem.
    broken : bool
        Whether negative controls were judged in place of the claims.
    """

    name: str
    judgements: tuple[Judgement, ...]
    broken: bool = False

    @property
    def counts(self) -> Counts:
        """Count claims by kind and verdict."""
        controls = [j for j in self.judgements if j.table.attrs["control"]]
        claims = [j for j in self.judgements if not j.table.attrs["control"]]
        kinds = [str(j.table.attrs["kind"]) for j in claims]
        verdicts = [j.verdict for j in claims]
        return Counts(
            exact=kinds.count("exact"),
            agree=verdicts.count("agree"),
            disagree=verdicts.count("disagree"),
            approximate=kinds.count("approximate"),
            within=verdicts.count("within"),
            outside=verdicts.count("outside"),
            inconclusive=verdicts.count("inconclusive"),
            controls=len(controls),
            rejected=[j.verdict for j in controls].count("rejected"),
        )

    @property
    def verdict(self) -> str:
        """Return the worst verdict.

        "agree", "disagree" or "inconclusive"; of negative controls "rejected" (all
        of them, as should be) or "missed". Without any claim "inconclusive".
        """
        counts = self.counts
        if self.broken:
            good = counts.controls > 0 and counts.rejected == counts.controls
            return "rejected" if good else "missed"
        if counts.disagree or counts.outside:
            return "disagree"
        passed = counts.agree + counts.within
        claims = counts.exact + counts.approximate
        return "agree" if claims and passed == claims else "inconclusive"

    @property
    def exit_code(self) -> int:
        """Return 0 only if all exact claims agree and all approximations are within.

        With negative controls in their place 1 is right: 1 if every one is rejected,
        0 if a wrong claim got through.
        """
        return int(self.verdict not in ("agree", "missed"))

    def to_dataframe(self) -> pd.DataFrame:
        """Return every entry of every check as a row.

        Columns: model, problem, check, kind, layer, control, entry, reference,
        estimate, error, z, detectable, khat, verdict; see ``judge``. A negative
        control's verdict is that of the comparison ("disagree" where rejected).
        """
        frames = [
            j.table.to_dataframe()
            .reset_index()
            .assign(
                model=j.model,
                problem=j.problem,
                **{k: j.table.attrs[k] for k in ("check", "kind", "layer", "control")},
            )
            for j in self.judgements
        ]
        if not frames:
            return pd.DataFrame()
        first = ["model", "problem", "check", "kind", "layer", "control", "entry"]
        whole = pd.concat(frames, ignore_index=True)
        rest = [name for name in whole.columns if name not in first]
        return whole.reindex(columns=first + rest)

    def summary(self) -> pd.DataFrame:
        """Return one row a check: how many entries, its worst |z|, verdict, seconds."""
        return pd.DataFrame(
            [
                {
                    "model": j.model,
                    "problem": j.problem,
                    "check": j.table.attrs["check"],
                    "kind": j.table.attrs["kind"],
                    "layer": j.table.attrs["layer"],
                    "control": j.table.attrs["control"],
                    "entries": j.table.sizes["entry"],
                    "largest_error": _largest(j.table["error"].to_numpy()),
                    "largest_z": _largest(j.table["z"].to_numpy()),
                    "verdict": j.verdict,
                    "seconds": j.seconds,
                }
                for j in self.judgements
            ]
        )

    def by_model(self) -> pd.DataFrame:
        """Return one row a model: claims or controls, verdict, seconds."""
        rows: list[dict[str, object]] = []
        for name in dict.fromkeys(j.model for j in self.judgements):
            own = tuple(j for j in self.judgements if j.model == name)
            part = Validation(name, own, self.broken)
            c = part.counts
            figures = (
                {"wrong claims rejected": f"{c.rejected} of {c.controls}"}
                if self.broken
                else {
                    "exact claims agree": f"{c.agree} of {c.exact}",
                    "within bound": f"{c.within} of {c.approximate}",
                    "inconclusive": c.inconclusive,
                }
            )
            seconds = sum(j.seconds for j in own)
            rows.append(
                {"model": name, **figures, "verdict": part.verdict, "seconds": seconds}
            )
        return pd.DataFrame(rows)

    def __str__(self) -> str:
        """Say it in a line, with both counts."""
        c = self.counts
        if self.broken:
            return (
                f"{self.name}: {c.rejected} of {c.controls} wrong claims rejected: "
                f"{self.verdict}"
            )
        parts = [
            f"{c.agree} of {c.exact} exact claims agree",
            f"{c.within} of {c.approximate} approximations within their bound",
        ]
        if c.inconclusive:
            parts.append(f"{c.inconclusive} inconclusive")
        return f"{self.name}: {'; '.join(parts)}: {self.verdict}"


def _largest(column: np.ndarray) -> float:
    finite = column[~np.isnan(column)]
    return float(np.abs(finite).max()) if len(finite) else float("nan")
