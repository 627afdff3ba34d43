"""Tests by rooms; none of them speaks to another machine, and nothing that it imports does."""

from tests.offline import stay_here

stay_here()
