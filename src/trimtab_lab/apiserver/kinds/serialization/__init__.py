"""Serialization: from bytes to trees, and the Go types of built-in kinds.

    decoding          bodies in JSON, YAML and protobuf
    protobuf          Kubernetes' protobuf messages
    wiretypes         trees as Kubernetes' Go structs read and write them; wirevalues for quantities, times, bytes
    typetable         the generated tables of types (wiretypes.json) and field numbers (wirenumbers.json)
    field_validation  unknown and repeated fields

Belongs here: formats, and types as Go defines them. Does not belong here: what values are valid (`validation`,
`schemas`).
"""
