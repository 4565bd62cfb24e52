"""Decode records as columns.

`quorate.codecs` has the public names. Arrow tables require `pip install quorate[arrow]`. Nothing is
imported here: the embedded broker uses the modules that require only NumPy.
"""
