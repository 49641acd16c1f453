"""`python -m twinfer.cli`."""

from twinfer.cli import main

if __name__ == "__main__":
    main()
