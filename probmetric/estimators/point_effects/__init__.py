"""The estimator ``PointEffectsLCA``.

``estimator``   the class: fit from labels or judged pairs, P(same), draws.
"""
