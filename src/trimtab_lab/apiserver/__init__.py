"""A Kubernetes API server in one process: what Trimtab, its tests and a user's kubectl need, done as Kubernetes does
it. What is not supported is rejected with a clear error.

Objects are kept in memory and are lost when the process ends. Every authenticated user may do everything.

The modules are in groups. Imports go downwards only, which an import contract checks (`.importlinter`):

    wire         HTTPS, authentication, paths, discovery, OpenAPI, fault injection; composition of the server
    controllers  what the server does by itself: garbage collection, namespaces, CustomResourceDefinitions, bootstrap
    verbs        get, list, watch, create, update, patch, delete, and the subresources
    admission    built-in admission plugins and webhooks
    kinds        everything about kinds: registry, types, defaults, validation, schemas, tables, errors
    storage      objects as encoded bytes, with a history; selections and the broadcast to watchers

The way of a request:

    wire.server           one handler for all paths
    wire.authentication   the user, by bearer token or client certificate
    wire.paths            kind, namespace, name and subresource
    wire.faults           a fault that a test injects
    wire.routes           method and path → function, as a table
    verbs.reads, watches  get, list, watch
    verbs.writes          create, update, patch: decode, default, admit, prepare, validate, admit, store
    verbs.deletes         delete and deletecollection: grace period, finalizers, propagation
    verbs.scale, binding, eviction, tokens
    verbs.encoding        the response as JSON, as a table, or as metadata only

Garbage collection and the deletion of namespaces run in Kubernetes' controller manager. Without them a deletion would
have no effect, so this server runs them itself.

**Bytes are the object.** Storage keeps each object as the JSON it was encoded to when it was written: a list joins
bytes, a watch event wraps them, and fifty thousand pods take the memory of their text. Code that needs the fields
decodes a copy, which it may change.
"""
