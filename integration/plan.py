"""`ClusterPlan`: the configuration with which a cluster was first started, stored as JSON."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

_BY_BROKER = frozenset({"ports", "racks", "racks_now", "disk_mb"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """Configuration of a cluster's first start.

    `racks`, `ports`: by broker. `controllers`: nodes that are only controllers. `image`: of
    containers, as it was requested.
    """

    version: str
    racks: Mapping[int, str | None]
    ports: Mapping[int, int]
    properties: Mapping[str, object]
    secure: bool
    cluster_id: str = ""
    image: str | None = None
    controllers: tuple[int, ...] = ()
    heap_mb: int | None = None

    @property
    def voters(self) -> Mapping[int, str]:
        """Nodes that are controllers → their names; empty for embedded clusters."""
        return {}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Self:
        """Create a plan from the result of `to_json`.

        Raises `TypeError`, `LookupError` or `ValueError` for JSON of another version of quorate.
        """
        numbered = {  # keys of JSON objects are strings
            name: {int(number): value for number, value in plain[name].items()}
            for name in _BY_BROKER
            if plain.get(name) is not None
        }
        return cls(**{**plain, **numbered, "controllers": tuple(plain["controllers"])})

    def to_json(self) -> dict[str, Any]:
        """Return the plan for JSON."""
        return asdict(self)
