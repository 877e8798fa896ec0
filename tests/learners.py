"""Every public estimator, with settings that make a small fit quick.

A new learner is in all tests that use these tables. It needs a line in ``QUICK`` only
if its default settings are slow.
"""

from inspect import signature

from sklearn.naive_bayes import GaussianNB

import probmetric as pm

QUICK = {
    "DCAGM": {"n_components": 2, "n_gaussians": 1, "max_iter": 50},
    "GLML": {"gamma": 1.0, "n_draws": 2, "random_state": 0},
    "HierarchicalLCA": {"max_iter": 200},
    "KNeighborsClassifier": {"bandwidth": 1.0},
    "KNeighborsRegressor": {"bandwidth": 1.0},
    "LCA": {"max_iter": 50},
    "LCAClassifier": {"max_iter": 50},
    "PointEffectsLCA": {"max_iter": 200},
    "StackingClassifier": {"classifiers": [GaussianNB(), pm.RCA()]},
    "TwoStageMixture": {"max_iter": 50},
}
WITHOUT_FEATURES = {"TripletEmbedding"}  # Takes numbers of objects.
ESTIMATORS = {
    name: QUICK.get(name, {})
    for name in sorted(pm.__all__)
    if hasattr(getattr(pm, name), "get_params") and name not in WITHOUT_FEATURES
}
LEARNERS = [
    name for name in ESTIMATORS if not name.startswith(("KNeighbors", "Stacking"))
]


def make(name, **settings):
    """Return a quick learner; settings that its class does not have are ignored."""
    kind = getattr(pm, name)
    known = signature(kind).parameters
    settings = {key: value for key, value in settings.items() if key in known}
    return kind(**ESTIMATORS[name] | settings)
