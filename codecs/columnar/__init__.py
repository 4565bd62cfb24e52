"""Records as columns.

`quorate.codecs` has the public names; what gives Arrow tables needs `pip install quorate[arrow]`.

Nothing is imported here: the broker reads records with the modules that need NumPy only.
"""
