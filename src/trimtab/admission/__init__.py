"""What every webhook shares: the HTTPS server, its certificates, the dispatch of reviews to hooks, and validation.

Belongs here: the server and the `Hook` type (`server`), the serving certificate (`certificates`,
`certificate_authority`), validation of our kinds (`validation`), metrics.

Does not belong here: the decision about a review. That is in the features (`scaledown.intent`,
`unitedtopology.admission`), which define hooks; `app` gives them to the server.

May import: `kube` and below, aiohttp, cryptography, prometheus-client. The features stand above this package.

    from trimtab.admission.server import AdmissionServer, Hook

    await AdmissionServer(hooks, certificates=…, host="0.0.0.0", port=9443).run()
"""
