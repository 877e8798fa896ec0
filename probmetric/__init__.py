"""Distances learned from data as probability models."""
