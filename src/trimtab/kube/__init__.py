"""The Kubernetes client library: calls to an API server, and what controllers and processes need around them.

Belongs here: configuration and credentials (`config`, `kubeconfig`, `credentials`), the client (`client`, `calls`) and
its error tree, informers and the caches of a process, the work queue and the runner of reconciles, leader election,
events, expectations, creation in batches (`slow_start`), owner references (`ownership`, `adoption`), conditions; what
every long-running process needs: components, YAML files of users (`files`), signals and logging (`processes`).

Does not belong here: decisions, and knowledge of what Trimtab does with the objects. Reads return partial types
(`trimtab.api`); writes take raw JSON or a patch.

May import: the standard library, msgspec, aiohttp, PyYAML and, of the product, `trimtab.api` alone. Only `sessions`
imports aiohttp's client: no other module sees its types or errors.

Reading order:

    config → client → informers → caches → queues → runners

`config.discover()` finds a cluster, `Client` calls it through a `Transport`, an `Informer` keeps a typed copy of one
kind up to date, `Caches` share one informer of a kind between all components of a process, and a `Runner` turns the
changes that they report into reconciles. The clock is always an
argument (`clocks`), so that everything also runs on a virtual clock.
"""
