"""Stories: a cluster, workloads and what happens to them, in YAML; played over the wire, with golden results.

Belongs here: the format, playing a story on whatever control plane a client speaks to, what came of it, comparing that
with what is known, and drawing it. The stories that come with Trimtab are in `stories/`.

Does not belong here: controllers and schedulers. A story is about what they do, so they are those of the cluster that
it is played on: the lab's, a real one's, or Trimtab's.

May import: the standard library, msgspec, pyyaml, `trimtab.api`, `trimtab.kube` and `trimtab_lab.nodes`.

The modules, from the outside to the inside:

    runner        plays a story, step by step           results   golden results, and what differs from them
    actions       what each verb does                   charts    an SVG of a run (pure)
    watching      informers, and waiting on them        runs      what makes one run's objects its own (pure)
    simulation    the story's nodes                     kinds     what kinds are called on the wire
    timelines     what was seen of every pod (pure)     ages      when ages tell pods apart (pure)
    observations  pods counted by domain (pure)
    stories       the format (pure)                     steps     its verbs (pure)
    fields        reading what people write (pure)      ranges    numbers, limits and ranges (pure)
"""
