"""The controller: the cluster's metadata, and its changes, as in KRaft's controller (KIP-631).

A request produces records of `__cluster_metadata` and a response (`ControllerResult`). The records
are appended to the metadata log, if the cluster has a data directory, then replayed, and then the
response is sent. A start replays the log in the same way.

- `state`: `ClusterState`, and how each type of record changes it;
- `records`: the records of a change, and of a snapshot;
- `controller`: appends records, replays them, and publishes what changed.
"""
