"""A placement with its reasons, and a cluster's default constraints."""

import random

from trimtab.api import codec
from trimtab.api.core import Service
from trimtab.api.schedulerconfig import read
from trimtab.placement.engine import place
from trimtab.placement.profiles import default_profile, profiles
from trimtab.testing.builders import cluster, pod

rng = random.Random(1)  # breaks ties
zones = cluster("z1: a b", "z2: x y").running("a", "b", "x")
stated = place(pod("stated").labels(app="web").spread("zone").build(), zones.snapshot(), default_profile(), rng)
print("with its own constraint:", stated.node in ("x", "y") and "a node of z2")
print("why not a:", "; ".join(stated.verdict("a").reasons))

racks = cluster("z1: a b", "z2: x y").running("a", "x")
for name, rack in {"a": "r1", "b": "r2", "x": "r1", "y": "r1"}.items():
    racks.node(name).labels({"example.com/rack": rack})
view = racks.snapshot()
service = {"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"app": "web"}}}
view.put(codec.convert(service, Service))
configuration = read(
    {
        "apiVersion": "componentconfig/v1alpha1",
        "defaultTopologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "example.com/rack", "whenUnsatisfiable": "DoNotSchedule"}
        ],
    }
)
unstated = place(pod("unstated").labels(app="web").build(), view, profiles(configuration)["default-scheduler"], rng)
print("by the operator's constraint:", unstated.node)
