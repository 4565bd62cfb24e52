"""Options for reaching a cluster, named as kafka-python names its configuration. Nothing is connected here."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from quorate.cli.errors import UserError

__all__ = ["CONNECTION_OPTIONS", "WithConnection", "connection_config", "connection_options"]

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--security-protocol",
        type=click.Choice(["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]),
        help="How to talk to the brokers.  [default: PLAINTEXT]",
    ),
    click.option("--ssl-cafile", metavar="FILE", help="Certificates of the authorities to trust (PEM)."),
    click.option("--ssl-certfile", metavar="FILE", help="Our certificate (PEM)."),
    click.option("--ssl-keyfile", metavar="FILE", help="Our private key (PEM)."),
    click.option(
        "--ssl-password",
        metavar="TEXT",
        envvar="QUORATE_SSL_PASSWORD",
        show_envvar=True,
        help="Password of the private key.",
    ),
    click.option("--ssl-crlfile", metavar="FILE", help="Certificate revocation list (PEM)."),
    click.option("--ssl-ciphers", metavar="TEXT", help="Ciphers to offer, in OpenSSL's words."),
    click.option(
        "--ssl-check-hostname/--no-ssl-check-hostname",
        default=None,
        help="Whether the certificate must name the broker's host.  [default: yes]",
    ),
    click.option(
        "--sasl-mechanism",
        type=click.Choice(["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI"]),
        help="How to log in.",
    ),
    click.option(
        "--sasl-plain-username",
        metavar="TEXT",
        envvar="QUORATE_SASL_USERNAME",
        show_envvar=True,
        help="User, for PLAIN and SCRAM.",
    ),
    click.option(
        "--sasl-plain-password",
        metavar="TEXT",
        envvar="QUORATE_SASL_PASSWORD",
        show_envvar=True,
        help="Password. Better in the environment: other users can see command lines.",
    ),
    click.option("--sasl-kerberos-service-name", metavar="TEXT", help="Service name, for GSSAPI.  [default: kafka]"),
    click.option("--sasl-kerberos-domain-name", metavar="TEXT", help="Kerberos domain, for GSSAPI."),
    click.option("--client-id", metavar="TEXT", help="Name to show to the brokers.  [default: quorate]"),
)

CONNECTION_OPTIONS = (
    "security_protocol",
    "ssl_cafile",
    "ssl_certfile",
    "ssl_keyfile",
    "ssl_password",
    "ssl_crlfile",
    "ssl_ciphers",
    "ssl_check_hostname",
    "sasl_mechanism",
    "sasl_plain_username",
    "sasl_plain_password",
    "sasl_kerberos_service_name",
    "sasl_kerberos_domain_name",
    "client_id",
)


class WithConnection(click.Command):
    """A command whose help lists the connection options apart."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The command's own options first."""
        own: list[tuple[str, str]] = []
        connection: list[tuple[str, str]] = []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                (connection if parameter.name in (*CONNECTION_OPTIONS, "connect_timeout_ms") else own).append(record)
        for title, records in (("Options", own), ("Connection, with -b", connection)):
            with formatter.section(title):
                formatter.write_dl(records)


def connection_options(command: F) -> F:
    """Give a command the options; they arrive as `CONNECTION_OPTIONS`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def connection_config(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given, as kafka-python's configuration. Raises `UserError` for those that would have no effect."""
    given = {name: options[name] for name in CONNECTION_OPTIONS if options.get(name) is not None}
    protocol = given.get("security_protocol", "PLAINTEXT")
    for prefix, needed in (("ssl_", ("SSL", "SASL_SSL")), ("sasl_", ("SASL_PLAINTEXT", "SASL_SSL"))):
        # kafka-python ignores them, and the failure that follows would not say why. What the environment holds may be for other clusters.
        pointless = [name for name in given if name.startswith(prefix) and not _from_environment(name)]
        if pointless and protocol not in needed:
            option = "--" + pointless[0].replace("_", "-")
            raise UserError(
                f"{option} has no effect with --security-protocol {protocol}",
                f"add --security-protocol {' or '.join(reversed(needed))}",
            )
    if "sasl_mechanism" not in given and protocol.startswith("SASL"):
        raise UserError(
            f"--security-protocol {protocol} needs --sasl-mechanism",
            "use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or GSSAPI",
        )
    return {"client_id": "quorate"} | given


def _from_environment(name: str) -> bool:
    from click.core import ParameterSource

    return click.get_current_context().get_parameter_source(name) is ParameterSource.ENVIRONMENT
