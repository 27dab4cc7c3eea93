"""`python -m evalindex` is the command `evalindex`."""

from evalindex.cli import main

main()
