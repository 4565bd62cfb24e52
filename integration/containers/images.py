"""Which image a broker runs from: the official one, or its equivalent that docker/image builds where no registry can be reached."""

import os
from collections.abc import Callable

from quorate.cluster.errors import ClusterError
from quorate.integration.containers.engine import engine

__all__ = ["DEFAULT_VERSION", "IMAGE_VARIABLE", "name_image", "resolve_image"]

DEFAULT_VERSION = "4.3.1"

IMAGE_VARIABLE = "QUORATE_KAFKA_IMAGE"

OFFICIAL = "apache/kafka"
EQUIVALENT = "quorate/kafka"


def resolve_image(version: str, image: str | None = None, tell: Callable[[str], None] = lambda _: None) -> str:
    """The image to run a Kafka version from.

    `image`, or `QUORATE_KAFKA_IMAGE` in the environment: "{version}" in it is replaced, and without
    a tag the version is its tag. Otherwise whichever of apache/kafka and quorate/kafka
    (docker/image) is there, and if neither is, apache/kafka. An image that is not there is pulled,
    which `tell` is told. Raises `ClusterError`.
    """
    client = engine()  # first: it says what to install where Docker's package is missing
    from docker.errors import APIError, ImageNotFound

    chosen = image or os.environ.get(IMAGE_VARIABLE)
    names = [name_image(chosen, version)] if chosen else [f"{OFFICIAL}:{version}", f"{EQUIVALENT}:{version}"]
    for name in names:
        try:
            client.images.get(name)
        except ImageNotFound:
            continue
        return name
    tell(f"pulling {names[0]}")
    try:
        client.images.pull(names[0])
    except APIError as error:
        reason = str(error.explanation or error).splitlines()[0]
        raise ClusterError(
            f"image {names[0]} cannot be pulled ({reason})",
            "check the name, which comes from the option for an image or from QUORATE_KAFKA_IMAGE"
            if chosen
            else f"build an equivalent with docker/image {version} of quorate's repository, or name another with QUORATE_KAFKA_IMAGE",
        ) from None
    return names[0]


def name_image(image: str, version: str) -> str:
    """The image with its tag."""
    tagged = ":" in image.rpartition("/")[2] or "@" in image  # a colon before that is of the registry's port
    return image.replace("{version}", version) if tagged else f"{image}:{version}"
