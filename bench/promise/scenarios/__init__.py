"""One module a scenario: `add_arguments` for its own options, and `measure`, which runs it and gives a `Report`."""
