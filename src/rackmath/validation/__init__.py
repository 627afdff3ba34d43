"""Measured rows -> predicted, with error and coverage; and the constants fitted on them."""
