"""The `quorate` command: decode, encode, records, demo.

Thin: what it shows comes from the other rooms. One module per command; `main` loads them when they
are called, so that `quorate --help` is quick.
"""
