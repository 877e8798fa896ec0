"""Scikit-learn classes: validate, call the inference, store; no mathematics."""
