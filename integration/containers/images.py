"""Which image a broker runs from: the official one, or its equivalent that docker/image builds where no registry can be reached."""

import os

from quorate.integration.containers.engine import engine
from quorate.integration.errors import ClusterError

__all__ = ["DEFAULT_VERSION", "resolve_image"]

DEFAULT_VERSION = "4.3.1"

OFFICIAL = "apache/kafka"
EQUIVALENT = "quorate/kafka"


def resolve_image(version: str, image: str | None = None) -> str:
    """The image to run a Kafka version from.

    `image`, or `QUORATE_KAFKA_IMAGE` in the environment: taken as it is ("{version}" is replaced). Otherwise whichever of apache/kafka and quorate/kafka
    (docker/image) is there, and if neither is, apache/kafka is pulled. Raises `ClusterError`.
    """
    from docker.errors import APIError, ImageNotFound

    chosen = image or os.environ.get("QUORATE_KAFKA_IMAGE")
    client = engine()
    if chosen:
        return chosen.replace("{version}", version)
    for name in (f"{OFFICIAL}:{version}", f"{EQUIVALENT}:{version}"):
        try:
            client.images.get(name)
        except ImageNotFound:
            continue
        return name
    try:
        client.images.pull(OFFICIAL, version)
    except APIError as error:
        reason = str(error.explanation or error).splitlines()[0]
        raise ClusterError(
            f"image {OFFICIAL}:{version} cannot be pulled ({reason}); build an equivalent with docker/image {version} of quorate's repository, "
            "or name another with QUORATE_KAFKA_IMAGE"
        ) from None
    return f"{OFFICIAL}:{version}"
