"""Checks of your own NumPyro model, without a closed form.

``calibration``  ``sbc``: data sets simulated by the model itself, and wrong posteriors.
``criticism``    draws compared with their data: prior, predictive.
"""
