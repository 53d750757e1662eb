"""Verbs: what a request does to objects.

    requests, options, selectors  the request: target, query options, label and field selectors
    negotiation, encoding         the response: output format, objects as JSON, tables or metadata
    cluster                       the state that all verbs share
    reads, watches                get, list, watch
    writes, create_templates, patches    create, update, patch
    deletes, delete_options       delete, deletecollection
    scale, binding, eviction      subresources with their own rules
    access_reviews                SelfSubjectReview, SelfSubjectAccessReview

Belongs here: the order of the steps of a request, and what they read and store. Does not belong here: sockets and URLs
(`wire`), who may change a write (`admission`), the rules of a kind (`kinds`). Imports `admission` and the groups below
it.
"""
