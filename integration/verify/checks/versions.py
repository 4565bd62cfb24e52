"""ApiVersions, and versions that a broker does not have."""

from quorate.integration.verify.check import check, checks_in
from quorate.integration.verify.session import CheckSession

_API_VERSIONS, _METADATA, _FIND_COORDINATOR = 18, 3, 10


@check("KIP-511", "ApiVersions in an unknown version gets a response of version 0 with UNSUPPORTED_VERSION.")
def unknown_version_of_api_versions_gets_version_0(s: CheckSession) -> None:
    s.raw(_API_VERSIONS, 120, b"\x02a\x021\x00", flexible=True)


@check("KIP-511", "ApiVersions with characters that a software name must not have is an INVALID_REQUEST.")
def client_software_name_has_to_be_valid(s: CheckSession) -> None:
    s.raw(_API_VERSIONS, 3, b"\x04a b\x021\x00", flexible=True)


@check("KIP-35", "A request in a version that the broker does not have closes the connection.")
def unknown_version_closes_the_connection(s: CheckSession) -> None:
    s.raw(_METADATA, 120, b"\x00\x00\x00\x00\x00\x00", flexible=True)


@check("KIP-35", "A request with an unknown API key closes the connection.")
def unknown_api_closes_the_connection(s: CheckSession) -> None:
    s.raw(9999, 0, b"")


@check("Kafka protocol guide", "A request whose body ends too early closes the connection.")
def malformed_body_closes_the_connection(s: CheckSession) -> None:
    s.raw(_FIND_COORDINATOR, 1, b"\x00\x09ab")


CHECKS = checks_in(globals())
