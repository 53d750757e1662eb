"""A lab on real binaries: etcd, kube-apiserver and, where present, kube-controller-manager and kube-scheduler.

    versions.py     versions of binaries, and which of them work together          (pure)
    commands.py     the command line of each binary                                (pure)
    binaries.py     finds the binaries in a folder and asks for their versions
    identities.py   certificates, kubeconfigs and the audit policy, as files
    accounts.py     tokens and kubeconfigs of ServiceAccounts

`trimtab_lab.definition` puts a lab together from these; `trimtab_lab.supervisor` runs it.
"""
