"""Measures the promise: every scale-down ends level, or a warning or an event says why not.

`python -m bench.promise SCENARIO [options]`, or `make promise SCENARIO=rounds ARGS="--rounds 60"`. A scenario runs on
the cluster that KUBECONFIG names, which has a controller manager and a scheduler of its own. It starts simulated nodes
and Trimtab as processes, scales workloads, and watches what becomes of their pods.

The program judges Trimtab from outside: it uses the command line, `trimtab.kube` and raw JSON, and its own slow
version of upstream's comparison (`comparison`, `outcomes`).
"""
