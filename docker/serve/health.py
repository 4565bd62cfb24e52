"""Ends with 0 if all brokers of `quorate serve` in this container serve, otherwise with 1."""

import http.client
import os
import sys

connection = http.client.HTTPConnection("127.0.0.1", int(os.environ["QUORATE_SERVE_METRICS_PORT"]), timeout=2)
try:
    connection.request("GET", "/ready")
    response = connection.getresponse()
    print(response.read().decode().strip())
except OSError as error:
    sys.exit(f"/ready: {error}")
sys.exit(response.status != 200)
