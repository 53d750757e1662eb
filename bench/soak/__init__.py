"""A bounded, seeded chaos run: many faults of many kinds, and invariants that are checked throughout.

`python -m bench.soak --minutes 20`, or `make soak MINUTES=20 [SEED=n] [CONTROL_PLANE=DIR]`. It starts a lab, embedded
or on real binaries, installs Trimtab with the printed permissions, and runs two replicas of each component. A round
is some seconds of faults (`schedule` draws them from the seed) and a quiet point: everything recovers, and what
must hold then is checked. README.md lists the faults and the invariants.

    kinds.py, schedule.py    the kinds of faults, and which ones a round has        (pure)
    judging.py, leaders.py   what breaks an invariant                               (pure)
    ledger.py, report.py     what happened, and the table and the file about it
    lab.py, etcd.py          the lab's processes, its outages, etcd's maintenance
    proxies.py               connections that can be cut, and the webhooks' balancer
    replicas.py, installation.py, sampling.py   Trimtab's processes, and what they report
    arena.py                 what faults and checks work with: the user's requests among it
    faults/                  the faults
    quiet.py                 the quiet points
    wire.py                  an informer, controllers and leaders against a server that misbehaves

The program judges Trimtab from outside, with the watches and the judgements of `bench.promise`.
"""
