"""The estimator ``TwoStageMixture``.

``estimator``   the class: fit from points, groups or pairs.
``inputs``      settings, groups, known components and units, checked.
``density``     densities and responsibilities of single instances.
``pairs``       similarities of pairs, and learning from pairs.
``draws``       ``sample`` and ``posterior_metric``.
``online``      ``partial_fit`` and ``merge``.
"""
