"""What the embedded cluster keeps, in memory or on the disk: segments with indexes, the files next to them in Kafka's own form, and the cluster's metadata.

- `segment`, `stores`: batches and where their bytes are;
- `files`, `log_files`, `recovery`: a partition's folder, and what is made of it after a stop or a
  crash;
- `data`, `metadata`: a directory with a folder per broker, and the log of what there is in the
  cluster;
- `cleaning`: retention and compaction.
"""
