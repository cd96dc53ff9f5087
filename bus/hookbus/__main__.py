"""``python -m hookbus`` is the ``hookbus`` command."""

from hookbus.cli import main

main()
