"""Values that strategies need and that no object of the cluster has: usage, answers of pods to probes, scores, and the
signals of sources such as a monitoring system.

Belongs here: sampling such values in the background, keeping the last of each, and returning those that are fresh; and
scores, which are computed from the snapshot when a plan asks for them.

Does not belong here: what the values mean (see `ranking.strategies`), and waiting for them: `Sources.values` returns at
once, because it is called while a scale-down is held. Missing and stale values are left out, and their pods are
unranked.

    sources = Sources(client, targets)
    await sources.run()                           # until cancelled
    sources.values(strategies, pods)              # at any time

Every replica that plans scale-downs samples for itself: a plan needs nothing of another process.

May import: `trimtab.scaledown.policy` and `view` (in `targets` alone), `kube`, the pure packages and `api`.
"""

from trimtab.scaledown.sources.sampling import Sources, Target, Values
from trimtab.scaledown.sources.signals import Source, SourceError

__all__ = ["Source", "SourceError", "Sources", "Target", "Values"]
