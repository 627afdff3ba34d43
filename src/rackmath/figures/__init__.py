"""Pictures of results: data first, then Plotly, Matplotlib, or characters.

In: records and plain values of the rooms below. Out: :class:`Figure`, files, figures of Plotly.
Called by the API and by what renders its results.
"""

from rackmath.figures.record import COLOURS, Figure, Moment, Panel, Series

__all__ = ["COLOURS", "Figure", "Moment", "Panel", "Series"]
