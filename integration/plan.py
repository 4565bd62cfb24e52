"""`ClusterPlan`: what a cluster was asked for when it was first started.

It stays the same from start to start, and is kept as JSON.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

__all__ = ["ClusterPlan"]

_BY_BROKER = frozenset({"ports", "racks", "racks_now", "disk_mb"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """`racks`, `ports`: by broker, as it was first started; `controllers`: nodes that are controllers only; `image`: of containers, as asked for."""

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
        """The nodes that are controllers, by name; none where nothing has to be elected."""
        return {}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Self:
        """What `to_json` returned.

        Raises `TypeError`, `LookupError` or `ValueError` for what another version of quorate wrote.
        """
        numbered = {  # names of JSON objects are text
            name: {int(number): value for number, value in plain[name].items()}
            for name in _BY_BROKER
            if plain.get(name) is not None
        }
        return cls(**{**plain, **numbered, "controllers": tuple(plain["controllers"])})

    def to_json(self) -> dict[str, Any]:
        """All of it, as JSON can hold it."""
        return asdict(self)
