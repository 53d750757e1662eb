"""The status of PodDisruptionBudgets: how many of their pods may be evicted now.

    budgets      the numbers and the condition          (pure)
    owners       how many pods an owner wants, whatever kind it is of
    controller   the loop

An eviction is allowed or refused by the API server, which counts `disruptionsAllowed` down and notes the pod under
`disruptedPods`; the controller counts anew from what lives.
"""
