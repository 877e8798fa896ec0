"""The generative stories, one NumPyro model a file."""
