"""Admission: what may change or reject a write before it is stored.

The order is that of Kubernetes: built-in plugins, mutating webhooks, validation, validating webhooks.

    attributes          one write as the plugins see it: operation, kind, user, old and new object
    builtin_plugins     Kubernetes' own admission plugins, as far as pods, nodes, namespaces and services need them
    service_allocator   cluster IPs and node ports of Services
    webhook_plugin      the webhooks that are configured in the cluster, and the conversion of kinds for them
    webhook_dispatcher  which webhooks are called for a request, in which order, and what their responses lead to
    webhook_matching    rules and selectors of webhook configurations, compiled
    webhook_patches     the object between one mutating webhook and the next
    admission_reviews   the AdmissionReview that is sent, and the one that comes back
    webhook_client      the HTTPS client that posts it
    users               the user of a request

Belongs here: decisions about a write that depend on other objects or on other processes. Does not belong here:
defaults and validation of one object by itself (`kinds`), reading requests and storing objects (`verbs`). Imports
`kinds` and `storage`.
"""
