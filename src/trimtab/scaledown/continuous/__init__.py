"""Delivery Continuous: deletion costs that are kept current at all times."""
