"""Decisions that ask questions: whether a node can take a pod is not known here, and takes long to find out.

A decision is a generator. It yields questions, is sent the answers, and returns what was decided. So the caller chooses
how a question is answered, and may do something else between two of them. None is no question: there the caller may
pause, because many subsets have been compared.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

Q = TypeVar("Q")
R = TypeVar("R")

Questions = Generator[Q | None, bool | None, R]
"""A decision R that asks questions Q; what is sent for None does not matter."""


def answer_all(questions: Questions[Q, R], answer: Callable[[Q], bool]) -> R:
    """The decision, without any pause."""
    reply: bool | None = None
    while True:
        try:
            question = questions.send(reply)
        except StopIteration as end:
            decision: R = end.value
            return decision
        reply = question is not None and answer(question)
