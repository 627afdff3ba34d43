"""Readers and writers: the catalogue, configs, constants, kernel curves, price lists, traces, tables, snapshots.

In: paths and names. Out: records of the rooms below, and files that appear whole or not at all. Called by the API, by
what compares predictions with measurements, and by the doors where they write. No other room opens a file of the
package's data.
"""
