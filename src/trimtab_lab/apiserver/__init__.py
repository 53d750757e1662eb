"""An API server for a day's work: what Trimtab, its tests and a user's kubectl need of Kubernetes, done as Kubernetes
does it; what is not done is refused with a clear error instead of being half done.

Everything is kept in memory and is gone when the process ends. Everyone who may enter may do everything.

The way of a request, and the modules in that order:

    server          HTTPS on loopback, one handler for all paths
    authentication  who asks: a token or a client certificate
    faults          what a test wants to go wrong
    paths, options  which kind, object, subresource and verb; what the query says
    routes          verb -> function, as a table
    reads, watches  get, list, watch
    writes          create, update, patch: read the body, default, admit, validate, commit
    templates       bodies that were seen before need not be read and validated again
    deletes         delete and deletecollection: grace, finalizers, propagation
    scale, binding, eviction    subresources with rules of their own
    storage         objects as encoded bytes, one increasing version, a history for watches and pages
    feeds           what was committed, encoded once for all who watch the same
    forms           an object as JSON, as a row of a table, as metadata only

What happens later, by itself: `collector` (dependents of deleted owners), `namespaces` and `definitions` (their life
cycles). In Kubernetes the first two run in the controller manager; without them deletion has no effect, so an API
server that stands alone brings them along.

**Bytes are the object.** Storage keeps each object as the JSON it was encoded to when it was written: a list joins
bytes, a watch event wraps them, and fifty thousand pods take the memory of their text. Whoever needs the fields
decodes a fresh copy, which is at the same time the copy that he may change.
"""
