"""`api_of`: an API by its key, its name or one of its messages."""

from quorate.codecs.api.declare import Api
from quorate.codecs.message import Message

__all__ = ["api_of"]


def api_of(which: int | str | type[Message]) -> Api:
    """The API with that key, of that name, or that a request or response class belongs to.

    Raises `ValueError` if none is declared.
    """
    if isinstance(which, type) and hasattr(which, "api"):
        found: Api = which.api
        return found
    # Who has the class needs no table, and who only coordinates groups does not load what brokers
    # answer besides.
    from quorate.codecs.api.broker import APIS

    for api in APIS.values():
        if which in (api.key, api.name):
            return api
    asked = which.__name__ if isinstance(which, type) else repr(which)
    raise ValueError(f"no API {asked} is declared; there are {', '.join(f'{a.name} ({a.key})' for a in APIS.values())}")
