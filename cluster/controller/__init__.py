"""The controller: what there is in a cluster, and how requests change it, as KRaft's controller does (KIP-631).

A request gives records of `__cluster_metadata` and a response (`ControllerResult`). The records are
appended to the metadata log, if the cluster has a data directory, then replayed, and then the
response is sent. Loading the log at a start is the same replay.

- `state`: `ClusterState`, and what each type of record does to it;
- `records`: the records of a change, and of a whole state;
- `controller`: appends records, replays them, and notifies those who follow the cluster.
"""
