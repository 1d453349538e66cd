"""`python -m lrbench`."""

from lrbench.cli import main

if __name__ == "__main__":
    main()
