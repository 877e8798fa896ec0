"""Gaussian classes and GLML in closed form: where to find each step."""
