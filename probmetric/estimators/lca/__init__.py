"""The estimators ``LCA`` and ``LCAClassifier``.

``estimator``    ``LCA``: fit from labels or pairs.
``settings``     checks of its settings.
``tuning``       λ by rule, by folds or by evidence.
``rank``         the number of rows by folds or by refits.
``anchors``      a fit from a sample of anchors.
``posterior``    ``sample`` and ``posterior_metric``, for prediction and for intervals.
``classifier``   ``LCAClassifier``: one LCA for each class, and its score (1).
``class_prior``  prior of ``LCAClassifier``: one center for all classes (1), by folds.
"""
