"""Costs that are kept current, for `delivery: Continuous` and for carriers whose controllers wait for costs.

Belongs here: the ranks of a group (`assessment`, pure), costs with few changes (`numbering`, pure), where they are
written (`carriers`, `annotation_costs`, `group_costs`), the controller (`delivery`), and reverting all of them
(`sweeps`).

Does not belong here: costs for one scale-down (see `intent`).
"""
