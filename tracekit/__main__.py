"""`python -m tracekit` is the program too."""

from tracekit.cli import main

main()
