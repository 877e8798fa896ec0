"""``sample`` and ``posterior_metric`` of a fitted two-stage mixture.

Sources are independent units, so that the model's own posterior serves prediction and
intervals alike. Components have no order: the group ``posterior`` holds what no
relabelling changes; the group ``components`` is relabelled to the fit, to be looked at.
"""

from typing import Any

import numpy as np
import xarray as xr
from sklearn.utils.validation import check_is_fitted

from probmetric.arguments import check_choice, check_number
from probmetric.data.containers import Points
from probmetric.data.groups import as_groups
from probmetric.data.scaling import Scaler
from probmetric.estimators.two_stage.inputs import with_database_noise
from probmetric.inference.sampling.datatree import provenance, to_datatree
from probmetric.inference.sampling.target import Draws
from probmetric.inference.sampling.units import LIKELIHOOD, set_apart
from probmetric.inference.two_stage.draws import METHODS, draw, pointwise
from probmetric.inference.two_stage.target import Posterior
from probmetric.metric import PairSimilarity
from probmetric.models.two_stage import TwoStageParams, to_metric, two_stage
from probmetric.posterior.metric import PosteriorMetric

__all__ = ["TwoStageDrawsMixin"]

AXES = {
    "weights": ("component",),
    "means": ("component", "feature"),
    "within": ("component", "feature", "feature_bis"),
    "between": ("component", "feature", "feature_bis"),
    "mean": ("feature",),
    "within_average": ("feature", "feature_bis"),
    "covariance_total": ("feature", "feature_bis"),
}


class TwoStageDrawsMixin:
    """Draws of the mixture and of its similarity."""

    metric_: PairSimilarity
    blend: Any
    flattening: Any
    similarity: Any
    database_noise: Any
    _posterior: Posterior | str
    _scaler: Scaler

    def sample(
        self,
        method: str = "nuts",
        *,
        n_draws: int = 1000,
        n_chains: int = 4,
        log_likelihood: bool = False,
        seed: int = 0,
        sampler: dict[str, Any] | None = None,
        progress: bool | None = None,
    ) -> xr.DataTree:
        """Draw from the posterior about the fit, given the data of the fit.

        After ``fit(X)`` α stays as given; groups and pairs inform it, or W and B.

        Parameters
        ----------
        method : {"nuts", "laplace", "svi"}, default="nuts"
            NUTS is exact up to Monte Carlo error, within the optimum that the fit
            found (others, up to the names of components, it need not visit). The
            other two are approximations and say their k-hat.
        n_draws, n_chains : int, defaults 1000 and 4
            All but NUTS make ``n_draws * n_chains`` independent draws, one chain.
        log_likelihood : bool, default=False
            Store log p of every point, or source, under every draw, for ``loo``:
            leaving one out is what says how well k components predict. Under data
            weights it is stored as ``pseudo_log_likelihood``.
        seed : int, default=0
        sampler : dict, optional
            Further arguments of ``nuts`` or ``svi``.
        progress : bool, optional
            Default: in terminals and notebooks.

        Returns
        -------
        DataTree
            In input units. Group ``posterior``: mean, within_average (Σ c_k W_k),
            covariance_total of an instance, and α where it was sampled, on which
            R-hat is judged. Group ``components``: weights, means, within, between,
            relabelled to the fit; where components overlap, names are forced.

        Raises
        ------
        ValueError
            For a flat prior, a blend, a flattened fit, known components, or a fit
            that was changed since.
        """
        check_choice("method", method, tuple(METHODS))
        posterior = self._sampled()
        drawn = draw(
            posterior,
            method,
            seed=seed,
            n_draws=int(check_number("n_draws", n_draws, 1, whole=True)),
            n_chains=int(check_number("n_chains", n_chains, 1, whole=True)),
            sampler=sampler,
            progress=progress,
        )
        values = {k: _input_units(k, v, self._scaler) for k, v in drawn.values.items()}
        parts = {name: values.pop(name) for name in TwoStageParams._fields}
        data = posterior.data
        X = self._scaler.mean + np.asarray(data.X) * self._scaler.scale
        shown = data._replace(X=X)
        arguments = {
            "prior": posterior.prior,
            "n_components": len(posterior.params.weights),
            "covariance": "proportional" if posterior.proportional else "free",
            "alpha": posterior.alpha,
        }
        names = getattr(self, "feature_names_in_", None)
        tree = to_datatree(
            Draws(values, drawn.statistics, drawn.attributes),
            feature_names=None if names is None else list(names),
            dims={name: AXES[name] for name in values if name in AXES},
            data=shown,
            observed={"X": X},
            attributes=provenance(two_stage, shown, arguments),
        )
        coords = {c: tree["posterior"].coords[c] for c in ("feature", "feature_bis")}
        laid = {k: (("chain", "draw", *AXES[k]), v) for k, v in parts.items()}
        tree["components"] = xr.DataTree(xr.Dataset(laid, coords))
        if log_likelihood:
            unit = "point" if isinstance(data, Points) else "source"
            log_p = pointwise(posterior, drawn) - self._log_scale(data)
            group = xr.Dataset({"x": (("chain", "draw", unit), log_p)})
            tree[LIKELIHOOD] = xr.DataTree(group)
        return set_apart(tree)

    def posterior_metric(
        self,
        purpose: str,
        *,
        draws: xr.DataTree | None = None,
        method: str = "nuts",
        n_metrics: int = 100,
        seed: int = 0,
    ) -> PosteriorMetric:
        """Return draws of the pair similarity.

        Parameters
        ----------
        purpose : {"prediction", "intervals"}
            One posterior serves both, as far as the model holds.
        draws : DataTree, optional
            Of ``sample``. Default: 4 chains of 250 draws by ``method``.
        method : {"nuts", "laplace", "svi"}, default="nuts"
        n_metrics : int, default=100
            Draws to keep, evenly spaced.
        seed : int, default=0
        """
        check_choice("purpose", purpose, ("prediction", "intervals"))
        check_number("n_metrics", n_metrics, 1, whole=True)
        if draws is None:
            draws = self.sample(method, n_draws=250, n_chains=4, seed=seed)
        parts = draws["components"]
        flat = [parts[name].to_numpy() for name in TwoStageParams._fields]
        flat = [a.reshape(-1, *a.shape[2:]) for a in flat]
        n = len(flat[0])
        keep = np.linspace(0, n - 1, min(int(n_metrics), n)).astype(int)
        metrics = [
            to_metric(TwoStageParams(*(a[s] for a in flat)), score=self.similarity)
            for s in keep
        ]
        return PosteriorMetric(
            [with_database_noise(m, self.database_noise) for m in metrics],
            purpose,
            pairs_independent=True,
            source=draws.attrs["method"],
        )

    def _keep(
        self,
        data: Any,
        prior: Any,
        params: TwoStageParams,
        proportional: bool,
        alpha: Any,
        known: Any,
    ) -> None:
        """Remember what ``sample`` draws from, or why it cannot."""
        if prior is None:
            self._posterior = "a proper prior, got prior='flat'"
        elif self.blend is not None:
            self._posterior = f"one model, got blend={self.blend!r}"
        elif self.flattening is not None:
            self._posterior = f"flattening=None, got {self.flattening!r}"
        elif known is not None:
            self._posterior = "components=None in fit, got known components"
        else:
            share = None if alpha is None else float(alpha)
            self._posterior = Posterior(data, prior, params, proportional, share)

    def _sampled(self) -> Posterior:
        check_is_fitted(self, "metric_")
        if isinstance(self._posterior, str):
            raise ValueError(f"sample: expected {self._posterior}")
        return self._posterior

    def _log_scale(self, data: Any) -> Any:
        """Return each unit's log Jacobian of standardising what was seen of it."""
        groups = as_groups(data)
        rows = ~np.isnan(np.asarray(groups.X)) @ np.log(self._scaler.scale)
        owner = np.unique(np.asarray(groups.group), return_inverse=True)[1]
        return np.bincount(owner, rows)


def _input_units(name: str, value: Any, scaler: Scaler) -> Any:
    if name in ("mean", "means"):
        return scaler.mean + value * scaler.scale
    if "feature_bis" in AXES.get(name, ()):
        return value * np.outer(scaler.scale, scaler.scale)
    return value
