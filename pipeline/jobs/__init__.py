"""What to find out from decoded records: functions from a DataFrame of the pipeline's schema to DataFrames.

A module each, and none knows where records are from.
"""
