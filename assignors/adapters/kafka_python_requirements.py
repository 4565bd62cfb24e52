"""The private API of kafka-python that its adapter uses, checked on import."""

from kafka import KafkaConsumer
from kafka.cluster import ClusterMetadata
from kafka.consumer.fetcher import Fetcher
from kafka.consumer.subscription_state import SubscriptionState
from kafka.coordinator.base import Generation
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.protocol.consumer import JoinGroupRequest

from quorate.assignors.adapters.compatibility import Requirements, check

CLIENT, SUPPORTED = "kafka-python", "3.0"

REQUIREMENTS = (
    Requirements(
        kind=ConsumerCoordinator,
        replaces={
            "poll": "timeout_ms",
            "time_to_next_poll": "",
            "need_rejoin": "",
            "ensure_active_group_async": "timeout_ms",
            "reset_generation": "member_id",
            "_perform_assignment": "leader_id protocol_name members",
            "_on_join_prepare_async": "generation member_id timeout_ms",
            "_commit_offsets_sync_async": "offsets timeout_ms",
            "_handle_heartbeat_response": "response send_time",
            "_process_sync_group_response": "response send_time",
        },
        calls={
            "request_rejoin": "",
            "_build_metadata_snapshot": "subscription cluster",
            # These call the adapters.
            "_validate_rebalance_protocol": "",
            "group_protocols": "",
            "_do_join_and_sync_async": "",
            "_send_heartbeat_request": "",
            "fetch_committed_offsets_async": "partitions timeout_ms",
            "_lookup_assignor": "name",
        },
        attributes=(
            "_assignment_snapshot",
            "_assignors",
            "_cluster",
            "_generation",
            "_heartbeat_closed",
            "_is_leader",
            "_join_task",
            "_manager",
            "_metadata_snapshot",
            "_net",
            "_rebalance_protocol",
            "_subscription",
            "config",
            "group_id",
            "group_instance_id",
            "rejoining",
            "state",
        ),
    ),
    Requirements(
        kind=SubscriptionState,
        calls={
            "assigned_partitions": "",
            "partitions_auto_assigned": "",
            "group_subscribe": "topics",
            "group_subscription": "",
        },
        attributes=("subscription",),
    ),
    Requirements(
        kind=ClusterMetadata,
        calls={
            "add_listener": "listener",
            "brokers": "",
            "partitions_for_topic": "topic",
            "leader_for_partition": "partition",
            "request_update": "",
            "set_topics": "topics",
        },
        attributes=("_partitions",),
    ),
    Requirements(kind=Generation, calls={"is_lost": ""}, attributes=("generation_id", "member_id")),
    Requirements(kind=JoinGroupRequest, attributes=("_max_version",)),
    Requirements(kind=Fetcher, calls={"_fetch_offsets_by_times_async": "timestamps timeout_ms"}),
    Requirements(kind=KafkaConsumer, attributes=("_closed", "_coordinator", "_fetcher", "config")),
)

check(CLIENT, SUPPORTED, REQUIREMENTS)
