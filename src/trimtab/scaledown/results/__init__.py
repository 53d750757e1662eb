"""The results of plans: whether they were carried out, which pods were deleted otherwise and why, and reverting costs.

Belongs here: evaluating a plan (`evaluation`, pure), plans that are open (`open_plans`), and their controller
(`plan_tracker`).

Does not belong here: making plans and writing their costs (see `intent`).
"""
