"""Wire: the HTTPS server and everything that depends on URLs and connections.

    server          one handler for all paths; composition of the whole API server
    authentication  bearer tokens and client certificates
    certificates    the lab's certificate authority and kubeconfig
    paths, routes   from the URL to a target, and from method and target to a function of `verbs`
    discovery       /api, /apis, /version
    openapi         /openapi/v2, /openapi/v3
    faults          faults that tests inject

Belongs here: what turns HTTP into calls of `verbs` and back. Does not belong here: query options and response formats
of objects (`verbs`), decoding of bodies (`kinds.serialization`). May import every other group; nothing imports this
one.
"""
