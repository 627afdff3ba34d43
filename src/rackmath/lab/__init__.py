"""The lecture's experiments on this machine: measured against predicted. Needs the extra ``lab`` (PyTorch)."""
