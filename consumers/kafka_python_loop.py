"""Sends the heartbeats of a member of the consumer protocol, in kafka-python's I/O thread."""

import logging
import time

from kafka import errors
from kafka.coordinator.consumer import ConsumerCoordinator

from quorate.consumers.heartbeats import Heartbeat
from quorate.consumers.kafka_python_requests import OwnRequest
from quorate.consumers.membership import ConsumerMembership
from quorate.consumers.states import NOT_IN_GROUP

log = logging.getLogger(__name__)

UNSUPPORTED = (errors.IncompatibleBrokerVersion, errors.UnsupportedVersionError)
FATAL = (*UNSUPPORTED, errors.SaslAuthenticationFailedError, errors.AuthorizationError)
"""Errors that repeating a request does not solve."""


def now_ms() -> int:
    """Return the time of a clock that never runs backwards."""
    return int(time.monotonic() * 1000)


class HeartbeatLoop(ConsumerCoordinator):  # type: ignore[misc]  # kafka-python has no types
    """kafka-python's coordinator with a loop that sends a member's heartbeats.

    All calls of the membership are made with the coordinator's lock.
    """

    _membership: ConsumerMembership

    async def _membership_loop(self) -> None:
        while not self._heartbeat_closed:
            if self._membership.state not in NOT_IN_GROUP and self.coordinator_unknown():
                await self._find_coordinator()
            with self._lock:
                if self._heartbeat_closed:
                    break
                at_ms = now_ms()
                self._membership.coordinator_known = self.coordinator_id is not None
                self._membership.reconcile(at_ms, can_commit=False)
                heartbeat = self._membership.next_heartbeat(at_ms)
                self._dispatch()
                wait_ms = self._membership.time_to_wait_ms(at_ms)
            if heartbeat is not None:
                self._manager.call_soon(self._send_membership_heartbeat, heartbeat)
            else:
                # 0 until the response of a heartbeat in flight, which wakes this up.
                await self._heartbeat_wakeup(None if wait_ms is None else max(wait_ms, 20) / 1000)

    async def _find_coordinator(self) -> None:
        try:
            await self.lookup_coordinator()
        except errors.KafkaError as error:
            if not error.retriable and not isinstance(error, errors.InvalidMetadataError):
                self._events.append(error)
                self._has_events.set()
            self._cluster.request_update()
            await self._net.sleep(self.config["retry_backoff_ms"] / 1000)

    async def _send_membership_heartbeat(self, heartbeat: Heartbeat) -> None:
        started = time.monotonic()
        self.heartbeat.sent_heartbeat()
        min_version = 0 if heartbeat.request.subscribed_topic_regex is None else 1
        try:
            request = OwnRequest(heartbeat.request, min_version=min_version)
            response = await self._manager.send(request, node_id=self.coordinator_id)
        except Exception as error:  # noqa: BLE001 - the member would wait for the response for ever
            self._on_heartbeat_failure(heartbeat, error)
        else:
            if self._sensors:
                self._sensors.heartbeat_latency.record((time.monotonic() - started) * 1000)
            self.heartbeat.received_heartbeat()
            with self._lock:
                self._membership.on_response(response, now_ms(), heartbeat)
                self._dispatch()
        self._heartbeat_wakeup.notify()

    def _on_heartbeat_failure(self, heartbeat: Heartbeat, error: Exception) -> None:
        known = isinstance(error, errors.KafkaError)
        with self._lock:
            self._membership.on_failure(
                now_ms(),
                heartbeat,
                retriable=known and not isinstance(error, FATAL),
                disconnected=not isinstance(error, errors.NodeNotReadyError),
                message=str(error) if known else repr(error),
                unsupported=isinstance(error, UNSUPPORTED),
            )
            self._dispatch()

    async def _send_last(self, heartbeat: Heartbeat, timeout_ms: float | None) -> None:
        try:
            future = self._manager.send(OwnRequest(heartbeat.request), node_id=self.coordinator_id)
            await self._manager.wait_for(future, timeout_ms)
        except errors.KafkaError as error:
            log.warning("Leaving group %s failed: %s", self.group_id, error)
