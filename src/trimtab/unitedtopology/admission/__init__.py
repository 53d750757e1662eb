"""The admission half: pods get a subset when they are created, and release it when they are deleted."""
