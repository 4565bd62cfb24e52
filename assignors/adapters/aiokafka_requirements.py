"""The private API of aiokafka that its adapter uses, checked on import."""

from aiokafka.client import AIOKafkaClient
from aiokafka.cluster import ClusterMetadata
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.consumer.group_coordinator import CoordinatorGroupRebalance, GroupCoordinator
from aiokafka.consumer.subscription_state import Assignment, SubscriptionState, TopicPartitionState
from aiokafka.protocol.group import JoinGroupRequest

from quorate.assignors.adapters.compatibility import Requirements, check

CLIENT, SUPPORTED = "aiokafka", "0.14"

REQUIREMENTS = (
    Requirements(
        kind=GroupCoordinator,
        replaces={
            "_perform_assignment": "response",
            "_on_join_prepare": "previous_assignment",
            "_on_join_complete": "generation member_id protocol member_assignment_bytes",
            "reset_generation": "",
            "_send_req": "request",
            "_maybe_do_last_autocommit": "assignment",
            "_push_error_to_user": "exc",
            "_do_heartbeat": "",
            "_do_rejoin_group": "subscription",
        },
        calls={
            "request_rejoin": "",
            "_lookup_assignor": "name",
            "_get_metadata_snapshot": "",
            "commit_offsets": "assignment offsets",
            "coordinator_dead": "",
            "ensure_coordinator_known": "",
            "_stop_commit_offsets_refresh_task": "",
            "start_commit_offsets_refresh_task": "assignment",
        },
        attributes=(
            "_assignors",
            "_client",
            "_enable_auto_commit",
            "_rebalance_timeout_ms",
            "_retry_backoff_ms",
            "_session_timeout_ms",
            "_cluster",
            "_group_instance_id",
            "_group_subscription",
            "_metadata_snapshot",
            "_subscription",
            "generation",
            "group_id",
            "member_id",
        ),
    ),
    Requirements(kind=CoordinatorGroupRebalance, calls={"perform_group_join": ""}, attributes=("_coordinator",)),
    Requirements(
        kind=SubscriptionState,
        calls={
            "assign_from_subscribed": "assignment",
            "abort_waiters": "exc",
            "assigned_partitions": "",
            "begin_reassignment": "",
            "partitions_auto_assigned": "",
        },
        attributes=("fetcher_idle_time", "listener", "subscribed_pattern", "subscription"),
    ),
    Requirements(
        kind=Assignment,
        calls={"all_consumed_offsets": "", "state_value": "tp"},
        attributes=("_tp_state", "active", "commit_refresh_needed", "tps"),
    ),
    Requirements(
        kind=Fetcher,
        calls={
            "_fetch_requests_routine": "",  # the adapter finds the fetcher by its task
            "beginning_offsets": "partitions timeout_ms",
            "end_offsets": "partitions timeout_ms",
        },
        attributes=("_client_rack", "_default_reset_strategy", "_fetch_task", "_subscriptions"),
    ),
    Requirements(kind=TopicPartitionState, attributes=("_assignment", "_committed_futs")),
    Requirements(kind=AIOKafkaClient, calls={"set_topics": "topics", "_maybe_wait_metadata": ""}),
    Requirements(
        kind=ClusterMetadata,
        calls={"add_listener": "listener", "leader_for_partition": "partition", "partitions_for_topic": "topic"},
        attributes=("_brokers", "_partitions"),
    ),
    Requirements(kind=JoinGroupRequest, attributes=("_group_protocols",)),
)

check(CLIENT, SUPPORTED, REQUIREMENTS)
