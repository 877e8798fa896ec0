"""``MODELS``: the list of learners, one ``ModelSpec`` each.

Tests, ``validate``, files of draws, reports, the command line, the documentation and
the notebooks read ``MODELS``. A field stores the ``Place`` of an object, and the object
is imported on access. Names can thus be checked before JAX or pandas are loaded.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from inspect import signature
from typing import Any, ClassVar, NamedTuple


class Place(NamedTuple):
    """Module and name of an object."""

    module: str
    name: str


def at(place: str) -> Any:
    """Convert "module:name" to a ``Place``, typed as Any for type checkers."""
    return Place(*place.split(":"))


def _load(value: object) -> Any:
    """Import the object at a place; return other values unchanged."""
    if isinstance(value, Place):
        return getattr(import_module(value.module), value.name)
    return value


@dataclass(frozen=True)
class ModelSpec:
    """Functions and classes of a learner. ``MODELS`` has one for each learner.

    A field can be set to ``at("module:name")``. The object is then imported on access.
    ``Problem`` is a class of ``probmetric.checks``, and ``Finding`` of
    ``probmetric.checks.criticism``.

    Parameters
    ----------
    data_kind : type
        Container of the data, in ``probmetric.data.containers``.
    params : type
        NamedTuple of the model's parameters.
    model : callable or None
        NumPyro model ``model(data, prior, ...)``, or None.
    simulate : callable or None
        ``simulate(key, params, data) -> data`` draws new labels or observations.
    fit : callable
        ``fit(problem) -> Fit`` fits the model with the data, prior and options of a
        problem. It starts at the default initialization, not at ``problem.params``.
    to_metric, metric_kind : callable, type
        ``to_metric(params) -> Metric`` computes the metric. ``metric_kind`` is its
        class.
    toy : callable
        ``toy(seed) -> Problem`` simulates a small problem with true parameters.
    invariants : mapping of str to callable
        Functions ``f(problem) -> problem`` by name. Each changes the problem, for
        example by permuting points. The learned metric should not change.
    from_labels : callable or None
        ``from_labels(X, y) -> Problem`` fits labeled data, and returns the problem with
        the fitted parameters.
    checks : tuple of Check
        Claims about the learner, which ``validate`` checks.
    summary : str
        One line for the table of learners.
    estimator : type, optional
        Estimator of the model.
    variants : mapping of str to place
        Other estimators of the same model by name, as ``at("module:name")``. They are
        not imported on access.
    methods : tuple of str
        Values of ``method`` in ``sample``. Empty if there are no draws.
    metrics_of_draws : callable, optional
        ``metrics_of_draws(draws) -> list of Metric`` computes one metric for each draw
        of ``sample``. None if draws have no metric.
    criticism : callable, optional
        ``criticism(fit or draws, *, seed) -> list of Finding``, for ``check_model``.

    Examples
    --------
    >>> from probmetric.registry import MODELS
    >>> spec = MODELS["lda"]
    >>> spec.estimator.__name__, spec.metric_kind.__name__, len(spec.checks) > 0
    ('LDA', 'Mahalanobis', True)
    """

    # A field may be a place, so the tests do not check these types.
    __no_type_check__: ClassVar[bool] = True

    name: str
    data_kind: type
    params: type
    model: Callable[..., None] | None
    simulate: Callable[..., Any] | None
    fit: Callable[[Any], Any]
    to_metric: Callable[[Any], Any]
    metric_kind: type
    toy: Callable[[int], Any]
    invariants: Mapping[str, Callable[[Any], Any]]
    checks: tuple[Any, ...]
    from_labels: Callable[..., Any] | None
    summary: str
    estimator: type | None = None
    variants: Mapping[str, Place] = field(default_factory=dict[str, Place])
    methods: tuple[str, ...] = ()
    metrics_of_draws: Callable[[Any], Any] | None = None
    criticism: Callable[..., Any] | None = None

    def __getattribute__(self, name: str) -> Any:
        return _load(object.__getattribute__(self, name))

    def estimators(self) -> dict[str, "type | Place"]:
        """Return the estimators, or their places, by name."""
        first = object.__getattribute__(self, "estimator")
        return {self.name: first, **self.variants} if first is not None else {}

    def class_names(self) -> set[str]:
        """Return the names of the estimators' classes without importing them."""
        return {_class_name(estimator) for estimator in self.estimators().values()}


def _spec(
    name: str,
    data: str,
    summary: str,
    *,
    params: str,
    estimator: str,
    metric: str = "Mahalanobis",
    module: str | None = None,
    model: str | None = None,
    methods: tuple[str, ...] = (),
    folder: bool | None = None,
    inference: str | None = None,
    **more: Any,
) -> ModelSpec:
    """Return the entry of a learner whose modules follow the naming convention.

    ``module`` (default: ``name``) is the learner's name in ``probmetric.checks``,
    ``models`` and ``inference``. The modules in ``checks`` and ``inference`` are
    folders if there are ``methods`` or ``folder`` is True. ``CHECKS`` is in the module
    of ``checks``. ``fit_problem``, ``toy``, ``invariants`` and ``from_labels`` are in
    this module, or in ``problems`` of its folder. ``metrics`` (of draws) is in the
    module of ``inference``, or in ``draws`` of its folder. ``params`` is a name in the
    module of ``models``, which also has ``to_metric``, ``simulate`` and the NumPyro
    ``model``. Without a NumPyro model, ``params`` is a place such as
    "inference.foo:FooParams", and ``to_metric`` is in the same module.
    """
    module = module or name
    without_model = ":" in params
    within, _, params = params.rpartition(":")
    within = f"probmetric.{within or f'models.{module}'}"
    checks = f"probmetric.checks.{module}"
    folder = bool(methods) if folder is None else folder
    problems = f"{checks}.problems" if folder else checks
    fields: dict[str, Any] = {
        "data_kind": at(f"probmetric.data.containers:{data}"),
        "params": at(f"{within}:{params}"),
        "model": None if without_model else at(f"{within}:{model or module}"),
        "simulate": None if without_model else at(f"{within}:simulate"),
        "fit": at(f"{problems}:fit_problem"),
        "to_metric": at(f"{within}:to_metric"),
        "metric_kind": at(f"probmetric.metric:{metric}"),
        "toy": at(f"{problems}:toy"),
        "invariants": at(f"{problems}:invariants"),
        "checks": at(f"{checks}:CHECKS"),
        "from_labels": at(f"{problems}:from_labels"),
        "estimator": at(f"probmetric.estimators.{estimator}"),
    }
    if methods:
        inference = inference or (f"{module}.draws" if folder else module)
        fields["metrics_of_draws"] = at(f"probmetric.inference.{inference}:metrics")
    return ModelSpec(name=name, summary=summary, methods=methods, **fields | more)


_GAUSSIAN = at("probmetric.checks.gaussian_classes.criticism:criticize")
_EMBEDDING = "probmetric.checks.triplet_comparisons.embedding"
_LEARNERS = (
    _spec(
        "lca",
        "Pairs",
        "Mahalanobis metric from labeled pairs, with P(same)",
        params="LCAParams",
        estimator="lca.estimator:LCA",
        methods=("nuts", "laplace", "svi"),
        criticism=at("probmetric.checks.lca.criticism:criticize"),
    ),
    _spec(
        "hierarchical_lca",
        "Pairs",
        "a metric for each group of pairs, partially pooled, with P(same)",
        params="HierarchicalLCAParams",
        estimator="hierarchical_lca:HierarchicalLCA",
        methods=("nuts", "laplace"),
        folder=False,
        inference="effects.draws",
    ),
    _spec(
        "point_effects",
        "Pairs",
        "metric from judged pairs that share points, with a difficulty per point",
        params="PointEffectsParams",
        estimator="point_effects.estimator:PointEffectsLCA",
        methods=("nuts", "laplace"),
        folder=False,
        inference="effects.draws",
    ),
    _spec(
        "gdm",
        "Pairs",
        "monotone curves of covariates, from the species that sites share",
        params="GDMParams",
        estimator="gdm.estimator:GDM",
        metric="SplineCityBlock",
        methods=("nuts", "laplace", "bootstrap"),
    ),
    _spec(
        "glml",
        "Labeled",
        "local metric from Gaussian classes, for less bias of neighbors",
        params="GaussianClassesParams",
        estimator="glml:GLML",
        metric="LocalMahalanobis",
        module="gaussian_classes",
        methods=("exact",),
        criticism=_GAUSSIAN,
    ),
    _spec(
        "two_stage",
        "Groups",
        "similarity from a normal mixture of sources, with P(same)",
        params="TwoStageParams",
        estimator="two_stage.estimator:TwoStageMixture",
        metric="PairSimilarity",
        methods=("nuts", "laplace", "svi"),
    ),
    _spec(
        "dca_gm",
        "Labeled",
        "average Fisher metric of class mixtures in a projection",
        params="DCAGMParams",
        estimator="dca_gm:DCAGM",
        methods=("nuts", "laplace", "svi"),
    ),
    _spec(
        "lda",
        "Labeled",
        "whitened discriminants of Gaussian classes with one covariance (LDA, RCA)",
        params="LDAParams",
        estimator="lda:LDA",
        model="model",
        variants={"rca": at("probmetric.estimators.lda:RCA")},
        methods=("exact",),
        folder=False,
        criticism=_GAUSSIAN,
    ),
    _spec(
        "pair_lda",
        "Pairs",
        "Mahalanobis metric from close and far pairs, in closed form (KISSME)",
        params="inference.pair_lda:PairLDAParams",
        estimator="pair_lda:PairLDA",
    ),
    _spec(
        "eig_dml",
        "Pairs",
        "metric with the largest distance of the nearest far pair, certified",
        params="inference.eig_dml.fit:EigDMLParams",
        estimator="eig_dml:EigDML",
    ),
    _spec(
        "mds",
        "Distances",
        "coordinates that reproduce dissimilarities, also for new points",
        params="inference.mds.fit:MDSParams",
        estimator="mds:ClassicalMDS",
        invariants={},
    ),
    _spec(
        "triplet_comparisons",
        "Triplets",
        "metric from judgments of which point is nearer, in log odds",
        params="TripletParams",
        estimator="triplet_comparisons.estimator:TripletMetric",
        methods=("nuts", "laplace"),
    ),
    _spec(
        "triplet_embedding",
        "Triplets",
        "map of objects without features, from which of two is nearer",
        params="TripletParams",
        estimator="triplet_comparisons.embedding:TripletEmbedding",
        module="triplet_comparisons",
        methods=("nuts", "laplace"),
        fit=at(f"{_EMBEDDING}:fit_problem"),
        toy=at(f"{_EMBEDDING}:toy"),
        from_labels=at(f"{_EMBEDDING}:from_labels"),
        checks=at(f"{_EMBEDDING}:CHECKS"),
    ),
)
MODELS: dict[str, ModelSpec] = {spec.name: spec for spec in _LEARNERS}


def estimators() -> dict[str, "type | Place"]:
    """Return all estimators, or their places, sorted by name."""
    named = {n: e for spec in MODELS.values() for n, e in spec.estimators().items()}
    return dict(sorted(named.items()))


def _class_name(estimator: "type | Place") -> str:
    return estimator.name if isinstance(estimator, Place) else estimator.__name__


_CLASSIFIERS = {"gaussianclasses": "glml", "lcaclassifier": "lca"}
"""Classes that are not registered, with the registered learner of the same model."""


def _learner(name: str) -> tuple[str, str]:
    near = dict(_CLASSIFIERS)
    for spec in MODELS.values():
        for learner, estimator in spec.estimators().items():
            kind = _class_name(estimator)
            if name in (learner, kind):
                return learner, spec.name
            near |= {learner.replace("_", ""): learner, kind.lower(): learner}
    match = get_close_matches(name.lower().replace("_", ""), near, 1, 0.8)
    question = f". Did you mean {near[match[0]]}?" if match else ""
    raise ValueError(
        f"model must be one of {', '.join(estimators())}, got {name!r}{question}"
    )


def learner_name(model: str) -> str:
    """Return the name of a learner from its name or class name (LCA), or raise."""
    return _learner(model)[0]


def model_of(learner: str) -> str:
    """Return the name of a learner's model, such as "lda" for "RCA", or raise."""
    return learner if learner in MODELS else _learner(learner)[1]


def estimator_of(model: str) -> Any:
    """Import the class of a learner."""
    return _load(estimators()[learner_name(model)])


def method_of(model: str, method: str | None = None) -> str:
    """Check a sampling method of a learner. Default: the learner's first method."""
    name = learner_name(model)
    methods = {each: MODELS[model_of(each)].methods for each in estimators()}
    if not methods[name]:
        raise ValueError(
            "model must be a learner with draws ("
            f"{', '.join(each for each in methods if methods[each])}), got "
            f"{_class_name(estimators()[name])}"
        )
    if method is not None and method not in methods[name]:
        raise ValueError(
            f"--method must be one of {', '.join(methods[name])}, got {method!r}"
        )
    return method or methods[name][0]


def make(
    model: str, settings: Mapping[str, object] | None = None, *, seed: int = 0
) -> Any:
    """Return an unfitted estimator, with ``random_state=seed`` if it is supported."""
    kind = estimator_of(model)
    arguments = kind().get_params()
    settings = dict(settings or {})
    unknown = sorted(settings.keys() - arguments.keys())
    if unknown:
        near = [n for name in unknown for n in get_close_matches(name, [*arguments], 1)]
        question = f". Did you mean {' and '.join(dict.fromkeys(near))}?"
        raise ValueError(
            f"settings (--set) must be arguments of {kind.__name__} "
            f"({', '.join(sorted(arguments))}), got {', '.join(unknown)}"
            f"{question if near else ''}"
        )
    if "random_state" in arguments:
        settings = {"random_state": seed, **settings}
    return kind(**settings)


def fit_named(estimator: Any, data: Any) -> Any:
    """Fit an estimator to a ``Dataset``: by classes, groups, or both.

    If the estimator learns from groups and the data have no groups, each class is a
    group. If the data have groups and the estimator uses no groups, raise ValueError.
    """
    groups = data.groups
    if groups is None or takes_groups(estimator):
        return fit_labels(estimator, data.frame, data.y if groups is None else groups)
    if "groups" in signature(estimator.fit).parameters:
        return estimator.fit(data.frame, data.y, groups=groups)
    raise ValueError(
        f"groups must be None for {type(estimator).__name__} (it learns from "
        "classes), got groups. Omit groups."
    )


def takes_groups(estimator: Any) -> bool:
    """Return whether an estimator learns from groups of rows instead of classes."""
    parameters = signature(estimator.fit).parameters
    if "groups" not in parameters or parameters["y"].default is not None:
        return False
    # If y is required, groups are used in addition to classes.
    tags = getattr(estimator, "__sklearn_tags__", None)
    return tags is None or not tags().target_tags.required


def without_points(estimator: Any) -> bool:
    """Return whether an estimator learns from triplets of objects without features."""
    return "triplets" in signature(estimator.fit).parameters


def fit_labels(estimator: Any, X: object, labels: object) -> Any:
    """Fit an estimator to labels. The labels are groups if it learns from groups."""
    if without_points(estimator):
        raise ValueError(
            f"data must be triplets of objects (--answers) for "
            f"{type(estimator).__name__}, got points and labels"
        )
    if takes_groups(estimator):
        return estimator.fit(X, groups=labels)
    return estimator.fit(X, labels)
