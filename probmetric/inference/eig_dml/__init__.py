"""Eig-DML: where to find each step."""
