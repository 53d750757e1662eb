"""Feature: default constraints that are written into new pods at admission, where the scheduler cannot be configured.

`rules` has the constraints by namespace, `deduction` which pods get them and with which selector, `owners` finds what
the selector is deduced from, `reviews` is the hook. It imports `admission`, `kube`, the pure core and `api`. Default
constraints that schedulers apply by themselves are in `placement`.
"""
