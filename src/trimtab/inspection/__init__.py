"""Read-only inspection: a cluster as values, and what Trimtab would decide there, explained.

Belongs here: reading a cluster (or a file of one) with list and watch rights alone, and the explanations that the
command line and other read-only views render: plans, ranks, placements, findings, observed scale-downs. They are
msgspec structs, so that `-o json` prints the very values that tables show.

Does not belong here: rendering (see `cli`), decisions (they are called, never copied), and anything that writes.

May import: the features, `kube`, the pure packages, `snapshot` and `api`.
"""
