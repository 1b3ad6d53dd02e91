"""`python -m hemostat` is the `hemostat` command; the ranks of a job are started this way."""

from hemostat.cli.main import main

main()
