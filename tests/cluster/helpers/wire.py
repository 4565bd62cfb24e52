"""A raw client: sends exactly the given frames over a socket, unlike real clients."""

from types import TracebackType
from typing import Any, Self

from quorate.integration.verify.wire import RawConnection


class Wire(RawConnection):
    """One connection. `user`: for SASL/PLAIN; the password is the user name."""

    def __init__(
        self,
        port: int,
        client_id: str = "wire",
        timeout_s: float = 300,
        user: str | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        login: dict[str, Any] = {"sasl_mechanism": "PLAIN", "sasl_plain_username": user, "sasl_plain_password": user}
        config = {"security_protocol": "SASL_PLAINTEXT", **login} if user is not None else {}
        super().__init__(host, port, config, client_id=client_id, timeout_s=timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
