"""Where a cache of keys and values waits between two uses, and what that costs."""
