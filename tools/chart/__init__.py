"""The Helm chart in `deploy/chart`, generated from the objects of an installation (`trimtab.install`).

Nothing of an object is written here. An installation is rendered with every combination of the settings that decide
which objects there are and what is in them (`settings`), with placeholders for values that are only copied; what the
combinations have in common becomes text, and where they differ, a condition (`merging`). A test renders the chart with
Helm's own template engine, and compares the objects with those of `trimtab install` for the same settings.
"""
