"""Benchmarks: `make bench`, or `make bench ONLY=decode-5k`.

Machines are noisy, so a figure is a ratio to a calibration that was measured in the same run, right beside it. The
best of several turns counts: the fastest turn is the one that the machine disturbed least.
"""
