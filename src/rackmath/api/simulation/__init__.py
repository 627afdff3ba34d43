"""Traffic against a deployment: the request, what it becomes, the run, the report.

In: a :class:`~rackmath.api.simulation.request.SimulateRequest`. Out: a
:class:`~rackmath.api.simulation.result.SimulateResult`. Called by the doors, and by sweeps through :mod:`.report`.
"""
