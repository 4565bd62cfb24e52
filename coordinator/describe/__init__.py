"""Handlers of Kafka's List and Describe APIs for groups, one module per API."""
