"""Storage of the embedded cluster, in memory or in files with the formats of Kafka.

- `segment`, `stores`: segments with their indexes, and their bytes;
- `files`, `log_files`, `recovery`: a partition's folder, and how it is loaded after a stop or a
  crash;
- `data`, `metadata`: the data directory with a folder per broker, and the metadata log;
- `retention`, `cleaning`: deletion of old segments, and compaction.
"""
