"""Where pytest finds quorate's plugin, which is `quorate.integration.plugin`.

A module of its own at the top, because pytest looks among a plugin's files for top-level modules
whose asserts it rewrites. With none, it takes our rooms for such modules, and warns each user that
`codecs`, the standard library's, "cannot be rewritten".
"""

from quorate.integration.plugin import (
    group_id,
    kafka_cluster,
    kafka_cluster_factory,
    pytest_addoption,
    pytest_configure,
    pytest_load_initial_conftests,
    topic,
)

__all__ = [
    "group_id",
    "kafka_cluster",
    "kafka_cluster_factory",
    "pytest_addoption",
    "pytest_configure",
    "pytest_load_initial_conftests",
    "topic",
]
