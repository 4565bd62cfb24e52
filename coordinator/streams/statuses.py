"""The statuses of a streams group in responses to heartbeats (KIP-1071)."""

from enum import IntEnum


class StreamsStatus(IntEnum):
    """Why tasks are missing, or what members must do."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6
