"""The composition root: what `trimtab run` starts, and how it ends.

Everything that talks to a cluster is constructed here and nowhere else. A component is one module that puts together
what it needs from below; what one part needs of another (a plan, a band, whether this process leads) is handed over
here as a value or a function, for the parts do not know one another.

| module | the component |
|---|---|
| `scheduling` | the scheduler |
| `admission` | the webhooks, and what decides behind them |
| `control` | the controllers, in one process at a time |
| `means` | what all are made from: client, configuration, strategies |
| `switch` | turns scale-downs off, and on again, while the process runs |
| `process` | runs them beside one another |
| `health` | what a process tells of itself: alive, ready, metrics |

A component's module is imported when it is run: a process that is only a scheduler starts sooner.
"""

from trimtab.app.process import COMPONENTS, App, Settings, check

__all__ = ["COMPONENTS", "App", "Settings", "check"]
