"""Trimtab keeps Kubernetes workloads level.

It decides where a new pod goes, and which pod goes first when a workload shrinks. ARCHITECTURE.md has the map;
each package's docstring says what belongs in it, what does not, and what it may import.
"""

__version__ = "0.1.0"
