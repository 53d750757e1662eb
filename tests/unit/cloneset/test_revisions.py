"""Templates as ControllerRevisions."""

from __future__ import annotations

import msgspec

from tests.unit.cloneset.clusters import manifest, template
from trimtab.api import codec
from trimtab.api.apps import ControllerRevision
from trimtab.api.cloneset import INSTANCE_ID, REVISION_HASH, CloneSet
from trimtab.api.documents import JSON
from trimtab.cloneset import revisions
from trimtab.cloneset.instances import Instance
from trimtab.testing.builders import uid_for

OWNER: JSON = {"kind": "CloneSet", "name": "web"}


def cloneset(image: str = "app:1", name: str = "web", **status: int) -> CloneSet:
    """A CloneSet of that image."""
    tree = manifest(3, name, template=template(image, app=name))
    tree["metadata"]["uid"] = uid_for(name)
    return codec.convert({**tree, "status": status}, CloneSet)


def stored(image: str, number: int) -> ControllerRevision:
    """The revision of that image, as an API server has it."""
    newest = revisions.newest(cloneset(image), (), OWNER)
    assert newest.creation is not None
    return codec.convert({**newest.creation.body, "revision": number}, ControllerRevision)


def test_a_new_template_makes_a_revision() -> None:
    """Named after its template, numbered on, owned, holding the whole template."""
    known = [stored("app:1", 4)]
    newest = revisions.newest(cloneset("app:2"), known, OWNER)
    assert newest.creation is not None
    body = newest.creation.body
    assert (newest.name, body["revision"], body["metadata"]["ownerReferences"]) == (
        body["metadata"]["name"],
        5,
        [OWNER],
    )
    held = revisions.template_of(codec.convert(body, ControllerRevision))
    assert held is not None
    assert held.tree() == template("app:2")


def test_the_same_template_has_its_revision() -> None:
    """Nothing is to be created, whatever the order of fields."""
    one = stored("app:1", 1)
    assert revisions.newest(cloneset("app:1"), [one], OWNER) == revisions.NewestRevision(one.metadata.name, number=1)


def test_a_template_that_comes_back_is_renumbered() -> None:
    """So that the newest revision is the one with the highest number."""
    known = [stored("app:1", 1), stored("app:2", 2)]
    newest = revisions.newest(cloneset("app:1"), known, OWNER)
    assert (newest.name, newest.renumbered, newest.number) == (known[0].metadata.name, known[0], 3)


def test_a_revision_that_was_made_late_does_not_stay_the_newest() -> None:
    """A process that was killed gave an older template the same number: the one that is wanted gets a higher one."""
    known = [stored("app:1", 2), stored("app:2", 2)]
    newest = revisions.newest(cloneset("app:2"), known, OWNER)
    assert (newest.renumbered, newest.number) == (known[1], 3)


def test_a_collision_changes_the_name() -> None:
    """The name is taken: the next one differs."""
    first = revisions.newest(cloneset(), (), OWNER)
    second = revisions.newest(cloneset(collisionCount=1), (), OWNER)
    assert first.name != second.name


def test_history_keeps_what_is_in_use_and_the_latest() -> None:
    """The oldest of the others go."""
    known = [stored(f"app:{number}", number) for number in range(1, 6)]
    names = [each.metadata.name for each in known]
    gone = revisions.expired(known, {names[4], names[0].rpartition("-")[2]}, 1)
    assert [each.metadata.name for each in gone] == names[1:3]
    assert revisions.expired(known, set(names), 0) == ()


def test_a_pod_is_created_from_the_whole_template() -> None:
    """Fields that no type here knows are in it, and its labels tell revision and id."""
    whole = cloneset()
    tree = whole.spec.template.tree()
    tree["spec"]["brandNewField"] = {"deep": [1, None]}
    spec = msgspec.structs.replace(whole.spec, template=type(whole.spec.template)(tree))
    created = revisions.pod(msgspec.structs.replace(whole, spec=spec), "web-abc", Instance("x2345", "web-x2345"), OWNER)
    assert created["spec"]["brandNewField"] == {"deep": [1, None]}
    labels = created["metadata"]["labels"]
    assert labels == {"app": "web", REVISION_HASH: "web-abc", "pod-template-hash": "abc", INSTANCE_ID: "x2345"}
    assert (created["metadata"]["name"], created["metadata"]["ownerReferences"]) == ("web-x2345", [OWNER])


def test_a_long_revision_is_labelled_by_its_hash() -> None:
    """A label has 63 characters at most."""
    name = "w" * 70
    created = revisions.pod(cloneset(name=name), f"{name}-abc", Instance("i", "n"), OWNER)
    assert created["metadata"]["labels"][REVISION_HASH] == "abc"
