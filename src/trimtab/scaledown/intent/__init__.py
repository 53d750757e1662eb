"""Requests to shrink a workload, held while deletion costs are written."""
