"""Classical MDS: where to find each step."""
