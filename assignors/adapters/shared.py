"""Base classes of the adapters for kafka-python and aiokafka. Knows no client."""

import copy
import logging
import weakref
from abc import ABC, ABCMeta, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn, Self

from quorate.assignors.adapters.membership import Membership, Strategy
from quorate.assignors.adapters.protocol import Joined
from quorate.assignors.adapters.racks import ClusterView
from quorate.assignors.assignor import Assignor
from quorate.assignors.model import Assignment
from quorate.assignors.registry import client_assignor

log = logging.getLogger(__name__)


class ConsumerCompanion(ABC):
    """Serves one consumer: replaces methods of its coordinator, and refers to it weakly."""

    def __init__(self, coordinator: Any, rack: str | None) -> None:
        self._coordinator_ref = weakref.ref(coordinator)
        self._type = type(coordinator)
        self.membership = Membership(group=coordinator.group_id or "(none)", rack=rack)

    @property
    def _coordinator(self) -> Any:
        coordinator = self._coordinator_ref()
        assert coordinator is not None  # it is the caller
        return coordinator

    @staticmethod
    @abstractmethod
    def view(cluster: Any) -> ClusterView:
        """Return the client's metadata."""

    @abstractmethod
    def owned(self) -> list[tuple[str, int]] | None:
        """Return the partitions that the consumer keeps while it joins; `None` if it is eager."""

    @abstractmethod
    def generation(self) -> int:
        """Return the consumer's generation; -1 if it is not a member, or was fenced."""

    def check_racks(self) -> None:
        """Request a rebalance if racks changed since this leader's last assignment (KIP-881)."""
        coordinator = self._coordinator_ref()
        if coordinator is not None and self.membership.racks_changed(self.view(coordinator._cluster)):
            coordinator.request_rejoin()

    def _metadata_changed(self, _cluster: Any) -> None:
        try:
            self.check_racks()
        except Exception:
            # The remaining listeners must still be called.
            log.exception("group %s: the racks of partitions could not be compared", self.membership.group)


class _AssignorType(ABCMeta):
    """The type of adapters: a client also iterates over a class that was given without a list."""

    def __iter__(cls) -> NoReturn:
        """Raise `TypeError`."""
        raise TypeError(
            f"{cls.__name__} was given without a list: write partition_assignment_strategy=[{cls.__name__}()]"
        )


class AdaptedAssignor(metaclass=_AssignorType):
    """An assignor of quorate for consumers; a client's adapter adds the methods that it calls."""

    def __init__(self, assignor: Assignor, *, client_rack: str | None = None, cooperative: bool | None = None) -> None:
        self.strategy = Strategy.of(assignor, cooperative)
        if not isinstance(client_rack, str | None):
            raise TypeError(f"client_rack is {client_rack!r}; use a string")
        self.client_rack = client_rack
        self.membership = Membership(rack=client_rack or None)
        self._companion: Any = None

    def __repr__(self) -> str:
        return f"<{self.name} of quorate, client_rack={self.membership.rack!r}>"

    def __iter__(self) -> NoReturn:
        """Raise `TypeError`: a client iterates over an assignor that was given without a list."""
        raise TypeError(f"assignor {self.name} was given without a list: write partition_assignment_strategy=[...]")

    @property
    def name(self) -> str:
        """The assignor's name in the group protocol."""
        return self.strategy.name

    def _subscription(self, topics: Iterable[str]) -> bytes:
        self.membership.watch.stop()
        owned: Iterable[tuple[str, int]] | None
        if self._companion is not None:
            owned, generation = self._companion.owned(), self._companion.generation()
        else:
            owned = (self.membership.assigned or ()) if self.strategy.cooperative else None
            generation = self.membership.generation
        return self.membership.subscription(self.strategy, topics, owned=owned, generation=generation)

    def _lead(self, joined: Sequence[Joined], view: ClusterView) -> Assignment:
        members = self.membership.read(joined)
        return self.membership.assign(self.strategy, members, self.membership.topology(members, view))

    def _complete(self, assignment: Any, generation: int) -> None:
        self.membership.complete(assignment.partitions(), generation)
        if self._companion is not None:
            self._companion.check_racks()

    def _for(self, companion: ConsumerCompanion) -> Self:
        """Return a copy for one consumer."""
        other = copy.copy(self)
        other._companion = companion
        other.membership = companion.membership
        return other


class NamedConsumerAssignor(AdaptedAssignor):
    """An assignor that is created by its name in `quorate.assignors.registry`."""

    registered: str

    def __init__(self, *, client_rack: str | None = None, **options: Any) -> None:
        super().__init__(client_assignor(self.registered, **options), client_rack=client_rack)


class LagAwareConsumerAssignor(AdaptedAssignor):
    """The `lag-aware` assignor, which may be cooperative."""

    def __init__(self, *, client_rack: str | None = None, cooperative: bool = False, **options: Any) -> None:
        super().__init__(client_assignor("lag-aware", **options), client_rack=client_rack, cooperative=cooperative)
