"""python -m tensorfs: the command line."""

from ._program import main

main()
