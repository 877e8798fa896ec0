"""The two-stage mixture in closed form: where to find each step."""
