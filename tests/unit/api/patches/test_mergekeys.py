"""The shipped table says of every built-in kind how it is patched, and is what the generator writes."""

from __future__ import annotations

import json

import pytest

from tools import mergekeys as generator
from trimtab.api.errors import InvalidError
from trimtab.api.patches import NoSchemaError, Schema, schema_for


def test_the_shipped_table_is_the_generated_one() -> None:
    """Nobody edited the table, and nobody changed the generator without running it (`python -m tools.mergekeys`)."""
    assert generator.TARGET.read_text(encoding="utf-8") == generator.generate()


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        pytest.param("v1", "Pod", id="a pod"),
        pytest.param("v1", "PodTemplateSpec", id="a pod template"),
        pytest.param("v1", "Service", id="a service"),
        pytest.param("v1", "Node", id="a node"),
        pytest.param("apps/v1", "Deployment", id="a deployment"),
        pytest.param("apps/v1", "ReplicaSet", id="a replica set"),
        pytest.param("apps/v1", "StatefulSet", id="a stateful set"),
        pytest.param("autoscaling/v1", "Scale", id="the scale of a workload"),
        pytest.param("batch/v1", "CronJob", id="a cron job"),
        pytest.param("coordination.k8s.io/v1", "Lease", id="a lease"),
        pytest.param("apiextensions.k8s.io/v1", "CustomResourceDefinition", id="a definition of a custom resource"),
    ],
)
def test_built_in_kinds_have_metadata(api_version: str, kind: str) -> None:
    """What every object has is patched in the same way in every kind."""
    metadata = schema_for(api_version, kind).object_field("metadata").schema
    assert metadata.list_field("finalizers").strategy == "merge"
    assert metadata.list_field("ownerReferences").key == "uid"


@pytest.mark.parametrize(
    ("field", "strategy", "key"),
    [
        pytest.param("containers", "merge", "name", id="containers by name"),
        pytest.param("volumes", "merge", "name", id="volumes by name, though they also retain keys"),
        pytest.param(
            "topologySpreadConstraints", "merge", "topologyKey", id="constraints by the first of their two keys"
        ),
        pytest.param("hostAliases", "merge", "ip", id="host aliases by address"),
        pytest.param("tolerations", "", "", id="tolerations not at all"),
    ],
)
def test_lists_of_a_pod(field: str, strategy: str, key: str) -> None:
    """Each list of a pod is merged, or not, by the key that Kubernetes declares."""
    merging = schema_for("v1", "Pod").object_field("spec").schema.list_field(field)
    assert (merging.strategy, merging.key) == (strategy, key)


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        pytest.param("apps.kruise.io/v1alpha1", "CloneSet", id="a custom resource"),
        pytest.param("v1", "Deployment", id="a kind in another group"),
        pytest.param("apps/v1beta1", "Deployment", id="a version that is gone"),
        pytest.param("v1", "PodList", id="a list of objects"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_other_kinds_have_no_schema(api_version: str, kind: str) -> None:
    """What is not built in is refused with what to send instead."""
    with pytest.raises(NoSchemaError, match=r"send a JSON merge patch") as caught:
        schema_for(api_version, kind)
    assert (caught.value.api_version, caught.value.kind) == (api_version, kind)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        pytest.param("containers", True, id="as it is written"),
        pytest.param("CONTAINERS", True, id="in another case"),
        pytest.param("container\u017f", True, id="with a long s"),
        pytest.param("to\u212aens", False, id="with a kelvin sign, but no such field"),
        pytest.param("contain\u00e9rs", False, id="with another letter"),
        pytest.param("", False, id="empty"),
    ],
)
def test_names_are_found_whatever_their_case(name: str, found: bool) -> None:
    """A field is found as Kubernetes finds it: by its name, else by its name in another case."""
    schema = schema_for("v1", "Pod").object_field("spec").schema
    if found:
        assert schema.list_field(name) == schema.list_field("containers")
    else:
        with pytest.raises(InvalidError, match=r"is not a field of core\.v1\.PodSpec"):
            schema.list_field(name)


def test_types_without_fields_have_no_fields() -> None:
    """A map of labels is a known field, but nothing is known of what is in it."""
    labels = schema_for("v1", "Pod").object_field("metadata").schema.object_field("labels").schema
    assert labels == Schema("")
    with pytest.raises(InvalidError, match="has no known fields"):
        labels.object_field("a")


def test_every_type_that_is_named_is_there() -> None:
    """From every kind all fields can be followed to their end."""
    table = json.loads(generator.TARGET.read_text(encoding="utf-8"))
    of_kinds = {name for kinds in table["kinds"].values() for name in kinds.values()}
    of_fields = {field.get("type") for known in table["types"].values() for field in known["fields"].values()}
    assert set(table["types"]) == of_kinds | of_fields - {None}


def test_every_merged_list_of_objects_has_its_key_among_their_fields() -> None:
    """A merge key that the elements do not have would make every patch to the list fail."""
    types = json.loads(generator.TARGET.read_text(encoding="utf-8"))["types"]
    for name, known in types.items():
        for field, described in known["fields"].items():
            if "key" in described:
                element = types[described["type"]]
                assert described["key"] in {*element["fields"], *element["plain"]}, f"{name}.{field}"
