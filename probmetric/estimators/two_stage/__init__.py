"""The estimator ``TwoStageMixture``.

``estimator``   the class: fit from points, groups, pairs or in parts; scores.
``inputs``      groups, known components, pairs and units, checked.
``prior``       the prior: given, made of points, or chosen by votes.
``stream``      ``fit`` to a source of points.
``draws``       ``sample`` and ``posterior_metric``.
"""
