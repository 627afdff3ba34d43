"""``python -m rackmath``."""

from rackmath.cli.app import main

main()
