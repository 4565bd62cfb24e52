"""Plugs assignors into Python clients: `kafka_python` and `aiokafka`, each imported only by those who use it."""
