"""Draws of a fitted ``DCAGM``: J and class probabilities, and metrics under J."""

from typing import Any

import jax
import numpy as np
import xarray as xr
from sklearn.utils.validation import check_is_fitted

from probmetric.data.containers import Labelled
from probmetric.estimators._validation import check_choice
from probmetric.inference.dca_gm.draws import TARGET, TARGET_A, metrics, prepare
from probmetric.inference.dca_gm.fit import Conditioned
from probmetric.inference.sampling.sample import sample
from probmetric.inference.sampling.units import LIKELIHOOD, set_apart
from probmetric.inference.solvers.result import Fit
from probmetric.models.dca_gm import DCAGMParams, DCAGMPrior
from probmetric.posterior.metric import PosteriorMetric

__all__ = ["DCAGMDrawsMixin"]


class DCAGMDrawsMixin:
    """``sample`` and ``posterior_metric``."""

    _data: Labelled
    _standardized: Any
    fit_: Fit
    learning_rate: float
    params_: DCAGMParams
    prior_: DCAGMPrior
    scale_: np.ndarray

    def sample(
        self,
        method: str = "nuts",
        *,
        queries: Any = None,
        mixtures: str | None = None,
        log_likelihood: bool = False,
        seed: int = 0,
        n_chains: int = 4,
        n_draws: int = 1000,
        n_warmup: int | None = None,
        sampler: dict[str, Any] | None = None,
        progress: bool | None = None,
    ) -> xr.DataTree:
        """Sample the posterior; report J (input units) and class probabilities.

        Parameters
        ----------
        method : {"nuts", "laplace", "svi"}, default="nuts"
        queries : array-like of shape (m, d), optional
            Points at which to report p(c|x). Default: the training points.
        mixtures : {"sampled", "fixed"}, optional
            Whether θ is sampled with A or held at its mode. Default: fixed for
            "laplace", which is far off otherwise; sampled for the others.
        log_likelihood : bool, default=False
            Store log p(c|x) of every training point under every draw, for ``loo``;
            without ``queries``. Under a learning rate other than one it is stored as
            ``pseudo_log_likelihood``, times the rate.
        seed, n_chains, n_draws, n_warmup, sampler, progress
            As in ``probmetric.sample``.

        Returns
        -------
        DataTree
            Posterior ``J``, ``class_probability`` and ``log_likelihood``, which are
            identified; A and the mixtures are not, and are left out.
        """
        check_choice("method", method, ("nuts", "laplace", "svi"))
        check_is_fitted(self)
        if mixtures is None:
            mixtures = "fixed" if method == "laplace" else "sampled"
        check_choice("mixtures", mixtures, ("sampled", "fixed"))
        if log_likelihood and queries is not None:
            raise ValueError(
                "queries: wanted none with log_likelihood, which is that of the "
                f"training points, got {np.shape(queries)}"
            )
        fixed = mixtures == "fixed"
        if queries is None:
            at = self._data.X[np.asarray(self._data.w) > 0]
        else:
            at = self._standardized(queries)
        given = Conditioned(self._data, self.prior_, self.learning_rate)
        with jax.enable_x64(True):
            start, data = prepare(
                self.fit_.params, given, queries=at, scale=self.scale_
            )
            tree = sample(
                TARGET_A if fixed else TARGET,
                data,
                method=method,  # pyright: ignore
                seed=seed,
                start=start.A if fixed else start,
                n_chains=n_chains,
                n_draws=n_draws,
                n_warmup=n_warmup,
                sampler=sampler,
                progress=progress,
            )
        # A target's data carry η among its arrays; here it gets its name.
        tree.attrs["learning_rate"] = float(self.learning_rate)
        return self._with_pointwise(tree) if log_likelihood else tree

    def _with_pointwise(self, tree: xr.DataTree) -> xr.DataTree:
        y = np.asarray(self._data.y)[np.asarray(self._data.w) > 0]
        P = tree["posterior"]["class_probability"].to_numpy()
        own = float(self.learning_rate) * np.log(P[:, :, np.arange(len(y)), y])
        group = xr.Dataset({"y": (("chain", "draw", "point"), own)})
        tree[LIKELIHOOD] = xr.DataTree(group)
        return set_apart(tree)

    def posterior_metric(
        self,
        purpose: str,
        *,
        draws: xr.DataTree | None = None,
        n_metrics: int = 200,
        seed: int = 0,
    ) -> PosteriorMetric:
        """Return draws of the metric under J.

        Parameters
        ----------
        purpose : {"prediction", "intervals"}
        draws : DataTree, optional
            Of ``sample``. Default: Laplace's approximation for A given the mixtures.
        n_metrics : int, default=200
            Draws to keep, evenly spaced.
        seed : int, default=0
            Where no draws are given.
        """
        check_is_fitted(self)
        if draws is None:
            draws = self.sample("laplace", seed=seed, n_chains=1, n_draws=n_metrics)
        J = draws["posterior"]["J"].to_numpy()
        J = J.reshape(-1, *J.shape[2:])
        keep = np.linspace(0, len(J) - 1, min(n_metrics, len(J))).astype(int)
        return PosteriorMetric(
            metrics(J[keep], len(self.params_.A)),
            purpose,
            pairs_independent=self.learning_rate == 1,
            source=draws.attrs.get("method", "nuts"),
        )
