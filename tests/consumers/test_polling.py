"""How long a poll of quorate's kafka-python consumer waits for records."""

from types import SimpleNamespace

from quorate.consumers.kafka_python_coordinator import WAKE_UP_SECONDS, ConsumerProtocolCoordinator


def test_a_poll_waits_for_records_while_a_commit_before_a_rebalance_delays_automatic_commits() -> None:
    """Otherwise `poll()` repeats without waiting, until an unreachable coordinator times out."""
    subscription = SimpleNamespace(assignment={"orders-0"}, has_all_fetch_positions=lambda: True)
    consumer = SimpleNamespace(
        _events=[],
        _subscription=subscription,
        _committing=True,
        config={"enable_auto_commit": True},
        next_auto_commit_deadline=0.0,
    )
    assert ConsumerProtocolCoordinator.time_to_next_poll(consumer) == WAKE_UP_SECONDS
    consumer._committing = False
    assert ConsumerProtocolCoordinator.time_to_next_poll(consumer) == 0  # the commit is due
