"""The estimators ``LCA`` and ``LCAClassifier``.

``estimator``    ``LCA``: fit from labels or pairs.
``settings``     its settings, checked; users' pairs, standardised.
``tuning``       λ by rule, by folds or by evidence.
``rank``         the number of rows by folds or by refits.
``anchors``      a fit from a sample of anchors.
``link``         P(same) calibrated on pairs held out.
``posterior``    ``sample`` and ``posterior_metric``, for prediction and for intervals.
``classifier``   ``LCAClassifier``: one LCA a class, its score (1).
``class_prior``  its prior: one centre for all classes, (1), chosen by folds.
"""
