"""Handlers that only look: what groups there are, and what is in them, in the words of Kafka's Describe APIs.

One module per API.
"""
