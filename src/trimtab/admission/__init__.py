"""The admission edge: what an API server asks before it stores something, and what it is answered.

Belongs here: the server (`edge`), its certificates (`certificates`), and the hooks, one kind of question a file:
`scale` (a workload is about to shrink), pods that come and go, validation. A hook has `.hooks`; the server takes them
all.

Does not belong here: what to do about a question. That is the controllers', handed in as a function by `app`; this
package imports no controller and no controller imports it.

May import: `kube` and below, aiohttp, cryptography, prometheus-client.

    from trimtab.admission.server import Edge, Hook

    await Edge([*scale.hooks], certificates=…, host="0.0.0.0", port=9443).run()
"""
