"""Base of learners with a posterior: ``sample`` and ``posterior_metric``.

A learner implements ``_sample``, which returns draws as a DataTree, and
``_metrics_of``, which returns one metric for each draw. Class attributes,
``_method_for`` and ``_size`` set the defaults. A learner whose ``sample`` has further
options overrides ``sample``. Shared parameters are described in ``_docstrings``.

The type parameter M of ``Learner`` is the type of ``method``.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, cast

import numpy as np
import xarray as xr
from jaxtyping import Float
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from probmetric.arguments import check_choice, check_number
from probmetric.data.containers import Pairs, Triplets
from probmetric.data.scaling import Scaler
from probmetric.data.truth import TellsClasses
from probmetric.estimators._same import SameProbability
from probmetric.estimators._settings import settings
from probmetric.inference.sampling.datatree import INDEPENDENT, provenance, to_datatree
from probmetric.inference.sampling.laplace import Laplace
from probmetric.inference.sampling.target import Draws, Kwargs, Model, Run
from probmetric.metric import Dissimilarity
from probmetric.metric.feature_names import with_names
from probmetric.posterior.draws import posterior_metric
from probmetric.posterior.metric import PosteriorMetric
from probmetric.typing import ArrayLike, Purpose


class ClassProbabilities(SameProbability, TellsClasses):
    """A classifier with ``predict_log_proba``."""

    @abstractmethod
    def predict_log_proba(self, X: ArrayLike) -> Float[np.ndarray, "n c"]:
        """Compute log P(class | x), shape (n, c), columns in order of ``classes_``."""

    def predict_proba(self, X: ArrayLike) -> Float[np.ndarray, "n c"]:
        """Compute P(class | x), shape (n, c), columns in order of ``classes_``."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predict the most probable class of each point (if tied, the first class)."""
        best = self.predict_log_proba(X).argmax(1)
        return self.classes_[best]


@settings
class Learner[M](BaseEstimator):
    """Base of learners that draw from their posterior."""

    _default_method: ClassVar[str] = "nuts"
    _n_metrics: ClassVar[int] = 100
    _streams: ClassVar[bool] = False
    """Whether ``fit`` also reads data on disk in chunks."""
    _thins_given_draws: ClassVar[bool] = False
    """Whether ``_n_metrics`` also limits draws that users pass."""

    @abstractmethod
    def _metrics_of(self, draws: xr.DataTree) -> Sequence[Dissimilarity] | None:
        """Return one metric for each draw, or None if another model made the draws."""

    @abstractmethod
    def _sample(self, method: str | M, run: Run) -> xr.DataTree:
        """Draw from the posterior. Learners that override ``sample`` do not use it."""

    def _method_for(self, purpose: Purpose) -> str:
        return self._default_method

    def _size(self, n: int, method: str | M) -> tuple[int, int | None]:
        return max(n, 250), None

    def _independent(self) -> bool:
        """Return False if the observations are pairs made from class labels."""
        return not hasattr(self, "classes_")

    def _vary_as_fits(self, method: object) -> bool:
        """Return whether draws by a method vary as fits to new samples."""
        return self._independent()

    def _check_purpose(self, purpose: Purpose) -> None:
        """Raise if draws cannot be used for a purpose."""

    @property
    def _names(self) -> list[str] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else list(names)

    @with_names
    def sample(
        self,
        method: M | None = None,
        *,
        n_draws: int = 1000,
        n_chains: int | None = None,
        seed: int = 0,
        progress: bool | None = None,
    ) -> xr.DataTree:
        """Draw from the posterior given the training data.

        Samplers start at the fitted parameters.

        Parameters
        ----------
        method : sampler or its name, optional
            Sampler such as ``pm.NUTS()``, or the name of a method that the Notes of the
            class list. Default: "exact" if the posterior has a closed form, otherwise
            "nuts".

        Returns
        -------
        DataTree
            Posterior draws in input units, the data, and provenance (versions, seed,
            settings).
        """
        check_is_fitted(self)
        run = Run(seed=seed, n_draws=n_draws, n_chains=n_chains, progress=progress)
        return self._sample(self._default_method if method is None else method, run)

    @with_names
    def posterior_metric(
        self,
        purpose: Purpose,
        *,
        draws: xr.DataTree | None = None,
        method: M | None = None,
        n_draws: int | None = None,
        seed: int = 0,
        progress: bool | None = None,
    ) -> PosteriorMetric:
        """Return the learned metric with uncertainty: one metric per posterior draw.

        Parameters
        ----------
        method : sampler or its name, optional
            Method of new draws, as in ``sample``. The default depends on the learner.

        Raises
        ------
        ValueError
            If the draws come from a different learner.
            If ``purpose="intervals"`` and the draws of this fit do not vary.
        """
        self._check(purpose)
        return self._posterior_metric(purpose, draws, method, n_draws, seed, progress)

    def _check(self, purpose: Purpose) -> None:
        check_choice("purpose", purpose, ("prediction", "intervals"))
        check_is_fitted(self)
        self._check_purpose(purpose)

    def _posterior_metric(
        self,
        purpose: Purpose,
        draws: xr.DataTree | None,
        method: str | M | None,
        n_draws: int | None,
        seed: int,
        progress: bool | None,
        read: Callable[[xr.DataTree], Sequence[Dissimilarity] | None] | None = None,
        *,
        credible: bool = False,
    ) -> PosteriorMetric:
        if n_draws is not None:
            n_draws = check_number("n_draws", n_draws, 1, whole=True)
        elif draws is None or self._thins_given_draws:
            n_draws = self._n_metrics
        if draws is None:
            chosen = self._method_for(purpose) if method is None else method
            if purpose == "prediction" and chosen == "laplace":
                chosen = cast("M", Laplace(khat=False))
            n, n_chains = self._size(n_draws or 0, chosen)
            draws = self.sample(
                cast("M", chosen),
                n_draws=n,
                n_chains=n_chains,
                seed=seed,
                progress=progress,
            )
        method_of_draws = getattr(draws, "attrs", {}).get("method")
        return posterior_metric(
            draws,
            [self._metrics_of if read is None else read],
            purpose,
            n_draws=n_draws,
            pairs_independent=self._vary_as_fits(method_of_draws),
            credible=credible,
        )

    def _tree(
        self,
        drawn: Draws,
        model: Model,
        data: Pairs | Triplets,
        arguments: Kwargs,
        *,
        dims: Mapping[str, Sequence[str]] | None = None,
        coords: Mapping[str, Sequence[object]] | None = None,
    ) -> xr.DataTree:
        """Return draws with the pairs or triplets of the fit, in input units."""
        return to_datatree(
            drawn,
            feature_names=self._names,
            dims=dims,
            coords=coords,
            data=data,
            observed={"y": np.asarray(data.y)},
            attributes={
                **provenance(model, data, arguments),
                INDEPENDENT: int(self._vary_as_fits(drawn.attributes.get("method"))),
            },
        )


def no_rows(what: str) -> ValueError:
    """Return the error for methods that need the rows of a fit to data on disk."""
    return ValueError(
        f"{what} requires the training rows. A fit to data on disk does not store "
        "them. Fit to arrays instead"
    )


def input_units[D: (Pairs, Triplets)](data: D, scaler: Scaler) -> D:
    """Convert pairs or triplets of standardized points to input units."""
    return data._replace(X=scaler.mean + np.asarray(data.X) * scaler.scale)
