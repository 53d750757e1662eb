"""A cluster for tests: the lab's API server and controllers in the process of the test, on virtual time.

    labs    `InMemoryLab`, the cluster
    wire    `Wire`, a connection to it that a test can disturb

Belongs here: what tests of programs that talk to a cluster need, those of users included.

Does not belong here: anything that a running lab needs; no other module of the lab imports this package.

May import: the rest of the lab, and `trimtab.testing` for its clock and builders; never pytest, so that it works with
any test runner.
"""

from trimtab_lab.testing.labs import InMemoryLab
from trimtab_lab.testing.wire import Wire

__all__ = ["InMemoryLab", "Wire"]
