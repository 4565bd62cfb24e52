"""Images of brokers: the official one, or its equivalent, which docker/image builds locally."""

import os
from collections.abc import Callable

from quorate.cluster.errors import ClusterError
from quorate.integration.containers.engine import engine

DEFAULT_VERSION = "4.3.1"

IMAGE_VARIABLE = "QUORATE_KAFKA_IMAGE"

OFFICIAL = "apache/kafka"
EQUIVALENT = "quorate/kafka"


def resolve_image(version: str, image: str | None = None, on_progress: Callable[[str], None] = lambda _: None) -> str:
    """Return the image for a Kafka version, and pull it if it is missing.

    `image`, or `QUORATE_KAFKA_IMAGE` in the environment: "{version}" in it is replaced; without a
    tag, the version is the tag. Otherwise the image is apache/kafka or quorate/kafka
    (docker/image), whichever exists locally. Raises `ClusterError`.
    """
    client = engine()  # first: its error says what to install if Docker's package is missing
    from docker.errors import APIError, ImageNotFound

    chosen = image or os.environ.get(IMAGE_VARIABLE)
    names = [name_image(chosen, version)] if chosen else [f"{OFFICIAL}:{version}", f"{EQUIVALENT}:{version}"]
    for name in names:
        try:
            client.images.get(name)
        except ImageNotFound:
            continue
        return name
    on_progress(f"pulling {names[0]}")
    try:
        client.images.pull(names[0])
    except APIError as error:
        reason = str(error.explanation or error).splitlines()[0]
        raise ClusterError(
            f"image {names[0]} cannot be pulled ({reason})",
            "check the name in the option for the image or in QUORATE_KAFKA_IMAGE"
            if chosen
            else f"build an equivalent with docker/image {version} of quorate's repository, "
            "or set QUORATE_KAFKA_IMAGE to another image",
        ) from None
    return names[0]


def name_image(image: str, version: str) -> str:
    """Return the image's name with a tag."""
    tagged = ":" in image.rpartition("/")[2] or "@" in image  # an earlier colon is before a registry's port
    return image.replace("{version}", version) if tagged else f"{image}:{version}"
