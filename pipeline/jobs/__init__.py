"""Jobs: functions from a DataFrame of decoded records to DataFrames of results, one module each."""
