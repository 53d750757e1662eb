"""The status of PodDisruptionBudgets: how many of their pods may be evicted now.

    budgets      the numbers and the condition          (pure)
    owners       how many pods an owner wants, whatever its kind
    controller   the loop

An eviction is allowed or refused by the API server, which decrements `disruptionsAllowed` and adds the pod to
`disruptedPods`; the controller recounts from the pods.
"""
