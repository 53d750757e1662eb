"""What Trimtab reads and writes, as values: typed objects, codecs, and the small languages inside them.

Belongs here: the typed, frozen, *partial* views of Kubernetes objects and of our own kinds; decoding with errors that
name the path; quantities, percentages, times, selectors, tolerations; patches on raw JSON; the CRD manifests made from
the types.

Does not belong here: any decision (see `placement`, `ranking`, `subsets`), any I/O (see `kube`).

May import: the standard library, msgspec and jsonpatch; nothing else of Trimtab.

The one rule that everything rests on: **typed objects are for deciding, raw JSON is for writing.** A partial type does
not know every field, so a pod encoded from one would lose fields. Whatever is written is a patch, or a raw document
that was changed in place (`documents`).
"""
