"""Share-partitions (KIP-932): which member of a share group has acquired which records.

`partition.py` is the state machine of one partition for one group, without I/O. Its operations are
in `acquire.py`, `acknowledge.py` and `timeouts.py`; `aborted.py` leaves out records of aborted
transactions. `sessions.py` has the share sessions of a broker, and `manager.py` what a broker does
with both. Source of the rules: SharePartition, SharePartitionManager and ShareSessionCache of
Kafka 4.4.
"""
