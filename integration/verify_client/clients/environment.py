"""What `quorate verify-client` passes to a program, by environment variables; and SIGTERM."""

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FrameType

SESSION_MS = 6_000
HEARTBEAT_MS = 500
COMMIT_MS = 300
RECORDS_EVERY_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientEnvironment:
    """Addresses and names for one program. `callback_s`: how long callbacks should take."""

    bootstrap: str
    topic: str
    group: str
    client_id: str
    transactional_id: str
    rack: str
    callback_s: float

    @classmethod
    def read(cls) -> "ClientEnvironment":
        """Read QUORATE_BOOTSTRAP, QUORATE_TOPIC and the others. Exits if one is missing."""
        try:
            return cls(
                bootstrap=os.environ["QUORATE_BOOTSTRAP"],
                topic=os.environ["QUORATE_TOPIC"],
                group=os.environ["QUORATE_GROUP"],
                client_id=os.environ["QUORATE_CLIENT_ID"],
                transactional_id=os.environ["QUORATE_TRANSACTIONAL_ID"],
                rack=os.environ["QUORATE_RACK"],
                callback_s=int(os.environ["QUORATE_CALLBACK_MS"]) / 1000,
            )
        except KeyError as missing:
            sys.exit(f"{missing} is not in the environment: run this by quorate verify-client")

    def called_back(self) -> None:
        """Take as long as a slow callback of an application."""
        time.sleep(self.callback_s)


class Stopping:
    """True from SIGTERM on."""

    def __init__(self) -> None:
        self._stopped = False
        signal.signal(signal.SIGTERM, self._stop)

    def _stop(self, _: int, __: FrameType | None) -> None:
        self._stopped = True

    def __bool__(self) -> bool:
        return self._stopped


def run_action(actions: Mapping[str, Callable[[ClientEnvironment, Stopping], None]]) -> None:
    """Run the action that the command line names, until SIGTERM."""
    if len(sys.argv) != 2 or sys.argv[1] not in actions:
        sys.exit(f"name one of: {', '.join(actions)}")
    actions[sys.argv[1]](ClientEnvironment.read(), Stopping())
