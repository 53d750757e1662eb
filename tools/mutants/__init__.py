"""Mutation testing of the core: `make mutants MINUTES=10 SEED=1`.

A *mutant* is the product with one small change, such as `<=` for `<`. A test that fails *detects* it; a mutant that no
test detects shows behaviour that no test checks. A mutant that behaves as the product does is *equivalent*, and is
listed with its reason in `equivalent.toml`.

The tests are collected once. Each mutant runs in a forked process, in which the code of one function is replaced in
memory. No file of the product is written, so that an interrupted run leaves nothing behind.
"""
