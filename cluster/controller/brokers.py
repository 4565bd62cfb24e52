"""Registration, fencing and unregistration of brokers, with the elections that follow.

In Kafka: ClusterControlManager and ReplicationControlManager.
"""

from collections.abc import Callable, Iterable, Sequence

from quorate.cluster.controller.controller import Controller, MetadataWriteError
from quorate.cluster.controller.records import election_record, fence_record, registration_record
from quorate.cluster.controller.state import BrokerRegistration
from quorate.cluster.log_manager import LogManager
from quorate.cluster.storage.metadata import MetadataBatch
from quorate.cluster.topics import Elections
from quorate.cluster.turns import Work, at_once, chunks
from quorate.codecs import Uuid
from quorate.codecs.message import Message
from quorate.codecs.metadata_records import UnregisterBrokerRecord


class BrokerControl:
    """Registers, fences and unregisters brokers.

    A change of a broker takes effect even if the metadata log cannot be written. It is written
    later.
    """

    def __init__(self, controller: Controller, logs: LogManager) -> None:
        self._controller = controller
        self._state = controller.state
        self._logs = logs

    def register(self, brokers: Iterable[tuple[int, str | None, str, int]]) -> None:
        """Register brokers that have started: ids, racks, hosts and ports.

        They may lead partitions from now on. Raises `OSError`.
        """
        data = self._logs.data
        first = self._controller.next_offset  # a broker's epoch is the offset of its registration
        registrations = [
            BrokerRegistration(
                id=broker_id,
                rack=rack,
                host=host,
                port=port,
                directory=Uuid.ZERO if data is None else data.directory_id(broker_id),
                fenced=False,
                epoch=epoch,
            )
            for epoch, (broker_id, rack, host, port) in enumerate(brokers, first)
        ]
        up = self._state.alive.keys() | {registration.id for registration in registrations}
        self._commit_at_once(self._electing(up, list(map(registration_record, registrations))))

    def fence(self, broker: int) -> None:
        """Fence a broker that has stopped, and elect other leaders at once."""
        registration = self._state.brokers.get(broker)
        if registration is not None and not registration.fenced:
            others = self._state.alive.keys() - {broker}
            self._commit_at_once(self._electing(others, [fence_record(registration, fenced=True)]))

    def unfence(self, broker: int) -> None:
        """Unfence a broker that is connected to the controller again."""
        registration = self._state.brokers.get(broker)
        if registration is not None and registration.fenced:
            up = self._state.alive.keys() | {broker}
            self._commit_at_once(self._electing(up, [fence_record(registration, fenced=False)]))

    def unregister(self, broker: int) -> None:
        """Unregister a broker at once."""
        registration = self._state.brokers.get(broker)
        if registration is not None:
            self._commit_at_once(self._unregistration(registration))

    def fencing(self, broker: int, leave: Callable[[], bool]) -> Work[None]:
        """Fence a broker and elect other leaders, in turns.

        Both take effect in one step, unless `leave`, which is called just before, returns False.
        """

        def electing() -> Work[MetadataBatch]:
            registration = self._state.brokers.get(broker)
            fenced = [] if registration is None or registration.fenced else [fence_record(registration, fenced=True)]
            return (yield from self._electing(self._state.alive.keys() - {broker}, fenced))

        try:
            batch = yield from self._controller.preparing(electing)
        except MetadataWriteError:
            batch = at_once(electing())
        if leave():
            yield from self._logs.apply_configs(self._controller.commit_in_any_case(batch))

    def unregistering(self, broker: int) -> Work[None]:
        """Unregister a broker on request, in turns. Raises `MetadataWriteError`."""
        batch = yield from self._controller.preparing(lambda: self._unregistration(self._state.brokers[broker]))
        yield from self._controller.committing(batch)

    def _unregistration(self, registration: BrokerRegistration) -> Work[MetadataBatch]:
        record = UnregisterBrokerRecord(broker_id=registration.id, broker_epoch=registration.epoch)
        return self._electing(self._state.alive.keys() - {registration.id}, [record])

    def _electing(self, up: Iterable[int], change: Sequence[Message]) -> Work[MetadataBatch]:
        """Return the records of a change of brokers, and of the elections that follow.

        `up`: the brokers that are live after the change.
        """
        elections = Elections(up)
        batch = yield from self._controller.encoding(change)
        for topic in list(self._state.topics.values()):
            for some in chunks(topic.partitions):
                for partition, election in elections.moved(some):
                    batch.add(election_record(topic.id, partition, election))
                yield None
        return batch

    def _commit_at_once(self, work: Work[MetadataBatch]) -> None:
        batch = at_once(work)
        at_once(self._logs.apply_configs(self._controller.commit_in_any_case(batch)))
