"""Kinds: everything that depends on the kind of an object, and on nothing else.

    registry             the served kinds: built-in ones, and those of CustomResourceDefinitions
    objects              from a request's body to an object of its kind
    serialization        JSON, YAML and protobuf; the Go types of built-in kinds
    conversions          kinds that are stored as another kind
    defaults             defaults of built-in kinds
    registry_strategies  status, generation and validation on create and update; pod_strategy for pods
    validation           validation of built-in kinds
    schemas              pruning, defaults and validation of custom kinds
    printers             tables, as `kubectl get` prints them
    errors               API errors as Status objects

Belongs here: rules about one object by itself. Does not belong here: rules that depend on other objects (`admission`),
the order of the steps of a request (`verbs`). Imports `storage` and `trimtab.api`.
"""
