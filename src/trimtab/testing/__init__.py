"""What users need to test what they build on Trimtab; it is installed with the rest.

Belongs here: fakes, builders for objects and clusters, and `conform`, which answers recorded questions about Kubernetes
so that anybody can compare the answers with what Kubernetes said.

Does not belong here: tests of Trimtab itself (see `tests`), or anything that Trimtab needs at run time: nothing outside
of this package may import it.

May import: `api`, `snapshot`, `placement` and `ranking`; never pytest, so that it works with any test runner.
"""
