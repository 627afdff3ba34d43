"""Questions that pages ask, one module per page."""
