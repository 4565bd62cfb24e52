"""Assignors of the server side: `uniform` and `range` of KIP-848, `simple` of share groups (KIP-932)."""
