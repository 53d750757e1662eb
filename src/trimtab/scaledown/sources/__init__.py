"""What strategies look at that no object of a cluster says: usage, and what pods answer when they are asked.

Belongs here: fetching such values in the background and keeping the last of each; handing out those that are fresh.

Does not belong here: what the values mean (the strategies' own matter), and waiting for them: `Sources.values` answers
at once with what is known, for it is asked while a scale-down waits. What is missing or stale is left out, and the pod
counts as unranked.

    sources = Sources(client, targets)
    await sources.run()                           # until cancelled
    sources.values(strategies, pods)              # at any time

Every replica that plans scale-downs samples for itself: nothing that a plan needs is asked of another process.
"""

from trimtab.scaledown.sources.sampling import Sources, Target, Values

__all__ = ["Sources", "Target", "Values"]
