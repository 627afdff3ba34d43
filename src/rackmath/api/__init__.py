"""Requests and results: the one room that the doors call.

In: names, paths, numbers with units, or records. Out: results with values, ranges, assumptions, ``to_dict()`` (the JSON
of the command), ``figure()``. The command line and the pages are made from the fields of the requests.
"""
