"""Stories: a cluster, workloads and steps, in YAML, run over HTTP on any control plane, with golden results.

Belongs here: the format, running a story on the control plane of a client, its outcome, the comparison with golden
results, and charts. The stories that come with Trimtab are in `stories/`.

Does not belong here: controllers and schedulers. A story shows what those of its cluster do: the lab's, a real one's,
or Trimtab's.

May import: the standard library, msgspec, pyyaml, `trimtab.api`, `trimtab.kube` and `trimtab_lab.nodes`.

The modules, from the outside to the inside:

    runner        runs a story, step by step            results     golden results and their differences
    actions       carries out each verb                 charts      an SVG of a run (pure)
    watcher       informers, and waiting on them        runs        names and labels of one run (pure)
    simulation    the story's nodes                     kinds       looks up the resources of kinds
    timelines     the history of every pod (pure)       ages        when ages distinguish pods (pure)
    observations  pods counted by domain (pure)
    stories       the format (pure)                     steps       its steps as types (pure)
    stepreader    reads steps (pure)                    fields      reads mappings (pure)
    ranges        numbers, limits and ranges (pure)
"""
