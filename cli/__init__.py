"""The `quorate` command.

One module per command, which reads options and prints what the other packages compute. `main`
imports a command when it is called, so that `quorate --help` is quick.
"""
