"""Storage: objects in memory, their history, and the events that watchers receive.

    store        collections of encoded objects, one resource version for all, and a history
    selections   which objects of a collection a list or watch selects
    broadcaster  committed events, encoded once for all watchers with equal selections

Belongs here: what works on stored entries without knowing their kinds. Does not belong here: anything about requests
(`verbs`) or about the fields of a kind (`kinds`), except which fields can be selected by. Imports no other group.
"""
