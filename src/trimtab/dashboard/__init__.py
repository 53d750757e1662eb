"""The dashboard: read-only pages that show where pods are, which go next, and why.

Belongs here: the HTTP server of the pages, who may see what, the state that a page shows and its differences, and the
pages themselves (`assets`: plain ES modules and one stylesheet, served as they are).

Does not belong here: decisions and explanations (they are values of `inspection`, and the pages show them as they
come), and anything that writes to a cluster. The buttons of the lab are requests that are passed on to the lab's own
process.

| module | contents |
|---|---|
| `sources` | the cluster that is shown: followed live, or read from a file |
| `rows`, `overview_cache` | what a page shows, as rows by key; expensive ones are computed only after a change |
| `boards`, `differences` | the state of each view, shared by its viewers; what has changed since it was last sent |
| `decisions` | recent scale-downs, placements and allocations |
| `rights`, `access` | what a caller may see; how callers are authenticated |
| `metrics` | pages that were refused or cut off, counted by reason |
| `guards`, `server`, `handlers` | checks of every request, addresses and TLS, the paths |
| `lab_controls` | passes the buttons of the lab on |

May import: `inspection` and everything below it.
"""
