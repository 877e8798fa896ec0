"""Latent Coincidence Analysis in closed form: where to find each step."""
