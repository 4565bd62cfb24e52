"""`api_of`: an API by its key, its name or one of its messages."""

from quorate.codecs.api.declare import Api
from quorate.codecs.message import Message


def api_of(which: int | str | type[Message]) -> Api:
    """Return the API with a key or name, or that of a request or response class.

    Raises `ValueError` if none is declared.
    """
    if isinstance(which, type) and hasattr(which, "api"):
        found: Api = which.api
        return found
    # A class needs no table. Without this, coordinating groups would load all broker APIs.
    from quorate.codecs.api.broker import APIS

    for api in APIS.values():
        if which in (api.key, api.name):
            return api
    name = which.__name__ if isinstance(which, type) else repr(which)
    raise ValueError(f"no API {name} is declared; known are {', '.join(f'{a.name} ({a.key})' for a in APIS.values())}")
