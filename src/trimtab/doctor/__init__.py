"""A read-only check of an installation: what is broken in it, and how to fix that.

Belongs here: reading an installation as values (`reading`, `facts`), the table of findings (`rules`), and the checks,
pure functions of these values. The only requests that are no reads are reviews that an API server answers and does not
store (SelfSubjectAccessReview), and one creation as a dry run, which shows whether the API server calls the webhooks.

Does not belong here: rendering (`cli.doctor`), and what keeps workloads from being level (`inspection.lint`).

May import: `install` for what an installation should be, `inspection` and the features, `kube` and below.

    reading.read(client) ──→ Facts ──→ rules.check(facts) ──→ findings, each with its fix
"""
