"""Assignors for Python clients: `kafka_python` and `aiokafka`, imported only where used."""
