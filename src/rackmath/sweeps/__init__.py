"""Many questions at once: tables of plans, dense grids, on this machine or on a cluster."""
