"""``python -m rackmath``."""

from rackmath.cli.app import main

if __name__ == "__main__":
    main()
