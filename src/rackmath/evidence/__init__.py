"""Published measurements near an answer, and what they say of it.

In: the configuration of an answer (:class:`~rackmath.evidence.configurations.Configurations`), and rows with their
residuals: the logarithm of measured over computed time. Out: the residual to expect there and its spread, and the rows
that it comes from. Called by ``api``; it reads no files (``io.evidence_files`` does) and knows nothing of the engine.
"""
