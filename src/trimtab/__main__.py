"""`python -m trimtab`: the command line."""

from trimtab.cli import main

main()
