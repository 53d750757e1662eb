"""The wire: everything that talks to an API server, and what controllers need around it.

Belongs here: configuration and credentials, the client, the tree of errors, informers, the work queue and what drives
reconciles from it, leader election, events, expectations, who owns what (`ownership`, `adoption`), conditions.

Does not belong here: any decision, and any knowledge of what Trimtab does with the objects. What is read is typed and
partial (`trimtab.api`), what is written is raw JSON or a patch.

May import: the standard library, msgspec, aiohttp, PyYAML (a kubeconfig is YAML) and `trimtab.api`. aiohttp stays
inside `sessions`: nothing above it ever sees one of its types or errors.

The way in, from the outside to the inside:

    config → client → informers → queues → runners

`config.discover()` finds a cluster, `Client` speaks to it through a `Transport`, an `Informer` keeps a typed copy of
one kind up to date, and a `Runner` turns what informers report into reconciles. Time is always an argument
(`clocks`), so that all of it runs under a virtual clock too.
"""
