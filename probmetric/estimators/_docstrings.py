"""Descriptions of parameters that several learners share, each written once.

``@settings`` adds the docstrings of ``Shared`` to a learner and its methods. Docstrings
in the code then describe only what is special to the learner.
"""

import re
from collections.abc import Iterable
from inspect import cleandoc, isfunction, signature

_SECTION = re.compile(r"^Parameters\n-+\n(.*?)(?=\n\n|\Z)", re.DOTALL | re.MULTILINE)
_HEADER = re.compile(r"^\w[\w ]*\n-{3,}$", re.MULTILINE)


class Shared:
    """Describe the settings of several learners.

    Parameters
    ----------
    n_components : int, optional
        Number of rows of the linear map, 1 to d. Default: d.
    pairs : {"nearest", "all"}, default="nearest"
        Pairs that ``fit`` makes from class labels.
    n_targets, n_impostors : int, optional
        Numbers of neighbors of each point: in the same class, and in other classes.
        Used for nearest pairs. Default: 3, or all if there are fewer.
    learning_rate : "auto" or float > 0, default="auto"
        Power on the likelihood. "auto" is 1 for ``fit_pairs``, which assumes that pairs
        are independent, and n/N for N pairs made from the labels of n points.
    standardize : bool, default=True
        Whether ``fit`` centers and scales the features. Results are in input units.
    max_iter : int, default=500
        Maximum number of iterations of the solver.
    preprocessor : array-like of shape (n, d) or callable, optional
        Points, if X or pairs contain references to points instead of features. X then
        has shape (n,), and pairs have shape (N, 2). References are row numbers of an
        array, or numbers or text that a function converts to an array of points.
    unlabeled : label, default="warn"
        Rows with this label are left out, for example -1. With ``unlabeled=np.nan``,
        rows whose label is None are left out too. With ``unlabeled=None`` or "warn"
        every label is a class, and "warn" warns about a label -1.
    handle_unknown : {"error", "ignore"}, default="error"
        Levels of a factor (text or categorical column of a data frame) that were not in
        ``fit``. "error" raises. "ignore" treats them as missing levels, which are then
        equally far from all levels; with "error" missing levels are NaN.
    """

    def fit(self) -> None:
        """Describe the parameters of fits to labeled points.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,)
            Class labels, numbers or strings. At least two classes are required, and at
            least one class with two or more rows.
        """

    def fit_pairs(self) -> None:
        """Describe the parameters of fits to pairs.

        Parameters
        ----------
        pairs : array-like of shape (N, 2, d), or (N, 2) for ``preprocessor``
        y : array-like of shape (N,)
            Labels of the pairs: 1 for same, 0 for different. -1 may replace 0 in all
            labels.
        sample_weight : array-like of shape (N,), optional
            Data weights ≥ 0.
        """

    def same_probability(self) -> None:
        """Describe pairs.

        Parameters
        ----------
        pairs : array-like of shape (N, 2, d), or (N, 2) for ``preprocessor``
        """

    def sample(self) -> None:
        """Describe the options of samplers.

        Parameters
        ----------
        n_draws : int, default=1000
            Number of draws in each chain.
        n_chains : int, optional
            Number of chains. Default: 4 for NUTS, otherwise 1. Methods other than NUTS
            make ``n_draws * n_chains`` independent draws and store them as one chain.
        seed : int, default=0
        log_likelihood : bool, default=False
            Whether to store the log likelihood of every observation under every draw,
            for ``loo``. Learning rate and weights are not applied.
        log_prior : bool, default=True
            Whether to store the log prior of each NumPyro site and the log likelihood
            of all data, for power scaling (``az.psense_summary``).
        predictive : bool, default=False
            Whether to store replicated observations under every draw, in
            ``posterior_predictive``.
        prior_draws : int, optional
            Number of draws from the prior, which the fit sets from the data. The draws
            are stored as ``prior``, with replicated observations as
            ``prior_predictive``. Default: none.
        progress : bool, optional
            Whether to show progress. Default: a bar in terminals and notebooks,
            otherwise a line every 10 s.
        """

    def posterior_metric(self) -> None:
        """Describe the options of metrics of draws.

        Parameters
        ----------
        purpose : {"prediction", "intervals"}
            Intended use of the result. The two uses need different posteriors.
        draws : DataTree, optional
            Draws from ``sample`` of this fit. Default: new draws with ``method``.
        n_draws : int, optional
            Number of metrics. They are evenly spaced over the joined chains. Default:
            100, or all ``draws``.
        seed : int, default=0
        progress : bool, optional
            Whether to show progress. Default: a bar in terminals and notebooks,
            otherwise a line every 10 s.
        """


def _entries(docstring: str) -> list[str]:
    match = _SECTION.search(cleandoc(docstring))
    return re.split(r"\n(?=\S)", match[1]) if match else []


def _names(entry: str) -> list[str]:
    return entry.splitlines()[0].partition(" :")[0].split(", ")


def complete(docstring: str, parameters: Iterable[str], shared: str) -> str:
    """Add descriptions of shared parameters, in the order of ``parameters``."""
    text, order = cleandoc(docstring), list(parameters)
    entries = _entries(text)
    described = {name for entry in entries for name in _names(entry)}
    wanted = set(order) - described
    added = [entry for entry in _entries(shared) if _names(entry)[0] in wanted]
    if not added:
        return text

    def place(entry: str) -> int:
        first = _names(entry)[0]
        return order.index(first) if first in order else len(order)

    body = "\n".join(sorted([*entries, *added], key=place))
    section = f"Parameters\n----------\n{body}"
    if match := _SECTION.search(text):
        return text[: match.start()] + section + text[match.end() :]
    header = _HEADER.search(text)
    end = header.start() if header else len(text)
    parts = text[:end].rstrip(), section, text[end:]
    return "\n\n".join(part for part in parts if part)


def complete_learner(learner: type, settings: Iterable[str]) -> None:
    """Complete the docstrings of a learner and of its methods from ``Shared``."""
    if learner.__doc__ and Shared.__doc__:  # Python -OO removes docstrings.
        learner.__doc__ = complete(learner.__doc__, settings, Shared.__doc__)
    for name, template in vars(Shared).items():
        method = vars(learner).get(name)
        if isfunction(template) and method is not None and method.__doc__:
            parameters = signature(method).parameters
            method.__doc__ = complete(
                method.__doc__, parameters, template.__doc__ or ""
            )
