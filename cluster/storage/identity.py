"""`meta.properties`: whose a directory is.

The one cluster id is in the file of the controller and of each broker, so that one of them can be
damaged.

Also which start of the machine a directory was last written in: what was written then is there,
whether it was flushed or not.
"""

from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

from quorate.cluster.errors import ClusterError
from quorate.cluster.storage.files import BadFileError, decode_properties, encode_properties
from quorate.codecs import Uuid

__all__ = ["META", "boot_id", "cluster_id_of", "identity", "properties_of"]

META = "meta.properties"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> bytes:
    """Of the machine's last start; empty where the system has none."""
    try:
        return _BOOT_ID.read_bytes().strip()
    except OSError:
        return b""


def properties_of(folder: Path) -> dict[str, str]:
    """What is in the file of a folder, as far as it can be read. Raises `OSError`."""
    try:
        return decode_properties((folder / META).read_bytes())
    except (FileNotFoundError, BadFileError):
        return {}


def cluster_id_of(folders: list[Path]) -> str | None:
    """The id that the files of a cluster's folders agree on; `None` if none of them has one.

    Raises `ClusterError`.
    """
    found = {folder: text for folder in folders if (text := properties_of(folder).get("cluster.id"))}
    if len(set(found.values())) > 1:
        first, *others = found
        other = next(one for one in others if found[one] != found[first])
        raise ClusterError(
            f"{first / META} is of cluster {found[first]}, {other / META} of cluster {found[other]}; "
            f"if one of the files is damaged, write the right cluster.id into it, else choose another directory"
        )
    return next(iter(found.values()), None)


def identity(folder: Path, number: int, cluster_id: str, registered: Uuid | None) -> tuple[Uuid, bytes | None]:
    """The directory id of a broker's or the controller's folder, and what its file should be if it is not that.

    `registered`: the id that the cluster's metadata has for it. Raises `ClusterError` if the folder
    is another broker's.
    """
    found = properties_of(folder)
    directory = registered or _uuid(found) or Uuid(uuid4().bytes)
    if found.get("node.id", "").isdigit() and found["node.id"] != str(number) and _uuid(found) != directory:
        raise ClusterError(f"{folder / META} is of node {found['node.id']}, not of {number}; rename the folder back")
    wanted = {"version": "1", "cluster.id": cluster_id, "node.id": str(number), "directory.id": str(directory)}
    return directory, None if wanted.items() <= found.items() else encode_properties(wanted)


def _uuid(found: Mapping[str, str]) -> Uuid | None:
    try:
        return Uuid.parse(found["directory.id"])
    except (LookupError, ValueError):
        return None
