"""Proofs: what a run claims, and whether its files bear it out."""
