"""Kubernetes objects as values: typed objects, codecs, and the small languages inside them.

Belongs here: the typed, frozen, *partial* views of Kubernetes objects and of our own kinds; decoding with errors that
name the path; quantities, percentages, times, selectors, tolerations; patches on raw JSON; the CRD manifests
generated from the types; `annotations`: every annotation, label and reason of Trimtab.

Does not belong here: any decision (see `placement`, `ranking`, `subsets`), any I/O (see `kube`).

May import: the standard library, msgspec and jsonpatch; nothing else of Trimtab.

The main rule: **typed objects are for deciding, raw JSON is for writing.** A partial type does not have every field, so
a pod encoded from one would lose fields. Writes are patches, or raw documents that were changed (`documents`).
"""
