"""`meta.properties`: cluster id, node id and directory id of a log directory.

The controller and each broker have the cluster id in their files, so that one file may be damaged.
`boot_id` identifies the machine's boot in which a directory was written. Within the same boot,
unflushed writes are not lost.
"""

from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

from quorate.cluster.errors import ClusterError
from quorate.cluster.storage.files import BadFileError, decode_properties, encode_properties
from quorate.codecs import Uuid

META = "meta.properties"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> bytes:
    """Return the id of the machine's current boot, or "" where the system has none."""
    try:
        return _BOOT_ID.read_bytes().strip()
    except OSError:
        return b""


def properties_of(folder: Path) -> dict[str, str]:
    """Return the properties of a folder; none if the file is missing or damaged.

    Raises `OSError`.
    """
    try:
        return decode_properties((folder / META).read_bytes())
    except (FileNotFoundError, BadFileError):
        return {}


def cluster_id_of(folders: list[Path]) -> str | None:
    """Return the cluster id in the files of a cluster's folders, or `None` if no file has one.

    Raises `ClusterError` if they differ.
    """
    found = {folder: text for folder in folders if (text := properties_of(folder).get("cluster.id"))}
    if len(set(found.values())) > 1:
        first, *others = found
        other = next(one for one in others if found[one] != found[first])
        raise ClusterError(
            f"{first / META} has cluster id {found[first]}, {other / META} has {found[other]}; "
            f"if one of the files is damaged, correct its cluster.id, otherwise choose another directory"
        )
    return next(iter(found.values()), None)


def identity(folder: Path, number: int, cluster_id: str, registered: Uuid | None) -> tuple[Uuid, bytes | None]:
    """Return the directory id of a node's folder, and new contents of its file if that must change.

    `registered`: the directory id in the cluster's metadata. Raises `ClusterError` if the folder
    belongs to another node.
    """
    found = properties_of(folder)
    directory = registered or _uuid(found) or Uuid(uuid4().bytes)
    if found.get("node.id", "").isdigit() and found["node.id"] != str(number) and _uuid(found) != directory:
        raise ClusterError(f"{folder / META} has node id {found['node.id']}, expected {number}; rename the folder back")
    wanted = {"version": "1", "cluster.id": cluster_id, "node.id": str(number), "directory.id": str(directory)}
    return directory, None if wanted.items() <= found.items() else encode_properties(wanted)


def _uuid(found: Mapping[str, str]) -> Uuid | None:
    try:
        return Uuid.parse(found["directory.id"])
    except (LookupError, ValueError):
        return None
