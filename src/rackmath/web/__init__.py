"""The board: the lecture and the tools as pages that answer while you drag (extra ``web``)."""
