"""Committed offsets: their APIs, one module each, and their expiry."""
