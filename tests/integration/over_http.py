"""HTTP requests for tests."""

import urllib.error
import urllib.request


def got(url: str) -> tuple[int, str]:
    """Return the status and the body, also of an error."""
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
