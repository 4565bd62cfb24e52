"""Configs of share groups, set by librdkafka's admin client."""

from typing import Any

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from quorate.cluster import Cluster


def configure(cluster: Cluster, group: str, **configs: Any) -> None:
    """Let a group read from the beginning."""
    given = {"share.auto.offset.reset": "earliest"} | {name.replace("_", "."): str(configs[name]) for name in configs}
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in given.items()]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(60)
