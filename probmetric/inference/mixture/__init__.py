"""The plain normal mixture that three learners fit: prior, statistics, EM, missing entries, starts."""
