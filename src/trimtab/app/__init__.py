"""The composition root: what `trimtab run` starts, and how it ends.

Everything that talks to a cluster is constructed here and nowhere else. A component is one module that puts together
what it needs from the packages below; what one feature needs of another (a plan, a band, whether this process is the
leader) is passed to it here as a value or a function, because features do not import one another.

| module | contents |
|---|---|
| `scheduling` | the scheduler |
| `admission` | the webhooks, and the features that decide behind them |
| `control` | the controllers, in one process at a time |
| `dashboard` | the dashboard, for users of the API server |
| `dependencies` | what all components are built from: client, caches, configuration, strategies, metrics |
| `switch` | turns scale-downs off and on while the process runs |
| `process` | runs the components together |
| `loop_monitor` | how late the event loop is |
| `unreadable` | reports of objects that cannot be read |
| `health` | liveness, readiness and metrics over HTTP |

A component's module is imported when it is run: a process that is only a scheduler starts sooner.
"""

from trimtab.app.process import COMPONENTS, App, Settings, check

__all__ = ["COMPONENTS", "App", "Settings", "check"]
