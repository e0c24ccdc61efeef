"""``python -m magpie``: the command line."""

from magpie.cli import main

if __name__ == "__main__":
    main()
