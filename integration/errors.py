"""What goes wrong with a cluster as such: no engine, no image, a broker that does not come up."""

__all__ = ["ClusterError"]


class ClusterError(RuntimeError):
    """A cluster cannot be started, or does not do what it was told in time. The message says which broker, and what to do."""
