"""Checks of a NumPyro model of one's own: no closed form is needed.

``calibration``  ``sbc``: worlds simulated by the model itself, and wrong posteriors.
``criticism``    draws against the data they were made from: prior, predictive.
"""
