"""Brokers register, are fenced and unregistered, and partitions get leaders accordingly (ClusterControlManager, ReplicationControlManager)."""

from collections.abc import Callable, Iterable, Sequence

from quorate.cluster.controller.controller import Controller, NotWrittenError
from quorate.cluster.controller.records import election_record, fence_record, registration_record
from quorate.cluster.controller.state import BrokerRegistration
from quorate.cluster.log_manager import LogManager
from quorate.cluster.storage.metadata import MetadataBatch
from quorate.cluster.topics import Elections
from quorate.cluster.turns import Work, at_once, parts
from quorate.codecs import Uuid
from quorate.codecs.message import Message
from quorate.codecs.metadata_records import UnregisterBrokerRecord

__all__ = ["BrokerControl"]


class BrokerControl:
    """Which brokers the cluster has, and which of them are up.

    What happens to brokers counts even where it cannot be written: that is done later.
    """

    def __init__(self, controller: Controller, logs: LogManager) -> None:
        self._controller = controller
        self._state = controller.state
        self._logs = logs

    def register(self, brokers: Iterable[tuple[int, str | None, str, int]]) -> None:
        """Brokers have started: their ids, racks, hosts and ports.

        They may lead from now on. Raises `OSError`.
        """
        data = self._logs.data
        first = self._controller.next_offset  # a broker's epoch is the offset of its registration
        registrations = [
            BrokerRegistration(
                id=number,
                rack=rack,
                host=host,
                port=port,
                directory=Uuid.ZERO if data is None else data.directory_id(number),
                fenced=False,
                epoch=epoch,
            )
            for epoch, (number, rack, host, port) in enumerate(brokers, first)
        ]
        up = self._state.alive.keys() | {one.id for one in registrations}
        self._commit_at_once(self._electing(up, list(map(registration_record, registrations))))

    def fence(self, broker: int) -> None:
        """A broker has stopped: others lead in its place at once."""
        known = self._state.brokers.get(broker)
        if known is not None and not known.fenced:
            others = self._state.alive.keys() - {broker}
            self._commit_at_once(self._electing(others, [fence_record(known, fenced=True)]))

    def unfence(self, broker: int) -> None:
        """The controller hears of a broker again."""
        known = self._state.brokers.get(broker)
        if known is not None and known.fenced:
            up = self._state.alive.keys() | {broker}
            self._commit_at_once(self._electing(up, [fence_record(known, fenced=False)]))

    def unregister(self, broker: int) -> None:
        """Forget a broker at once."""
        known = self._state.brokers.get(broker)
        if known is not None:
            self._commit_at_once(self._unregistration(known))

    def fencing(self, broker: int, leave: Callable[[], bool]) -> Work[None]:
        """Fence a broker in turns: it is fenced, and others lead, at the same moment, if `leave`, called then, returns True."""

        def electing() -> Work[MetadataBatch]:
            known = self._state.brokers.get(broker)
            fenced = [] if known is None or known.fenced else [fence_record(known, fenced=True)]
            return (yield from self._electing(self._state.alive.keys() - {broker}, fenced))

        try:
            batch = yield from self._controller.preparing(electing)
        except NotWrittenError:
            batch = at_once(electing())
        if leave():
            yield from self._logs.following(self._controller.commit_in_any_case(batch))

    def unregistering(self, broker: int) -> Work[None]:
        """Forget a broker in turns, as a client asks for. Raises `NotWrittenError`."""
        batch = yield from self._controller.preparing(lambda: self._unregistration(self._state.brokers[broker]))
        yield from self._controller.committing(batch)

    def _unregistration(self, known: BrokerRegistration) -> Work[MetadataBatch]:
        record = UnregisterBrokerRecord(broker_id=known.id, broker_epoch=known.epoch)
        return self._electing(self._state.alive.keys() - {known.id}, [record])

    def _electing(self, up: Iterable[int], change: Sequence[Message]) -> Work[MetadataBatch]:
        """The records of a change of brokers, after which these are `up`, and of the elections that follow."""
        elections = Elections(up)
        batch = yield from self._controller.encoding(change)
        for topic in list(self._state.topics.values()):
            for some in parts(topic.partitions):
                for partition, election in elections.moved(some):
                    batch.add(election_record(topic.id, partition, election))
                yield None
        return batch

    def _commit_at_once(self, work: Work[MetadataBatch]) -> None:
        batch = at_once(work)
        at_once(self._logs.following(self._controller.commit_in_any_case(batch)))
