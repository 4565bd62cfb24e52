"""Options for connecting to a cluster, named as kafka-python's configs. Opens no connection."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from quorate.cli.errors import UserError

F = TypeVar("F", bound=Callable[..., Any])

LONGEST_MS = 2**31 - 1
"""The longest time that Kafka's configs accept. Python cannot wait for much longer ones."""

_PASSWORD = "Password; prefer the environment variable, as other users can see command lines."
_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "--security-protocol": {
        "type": click.Choice(["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]),
        "help": "Security protocol of the brokers.  [default: PLAINTEXT]",
    },
    "--ssl-cafile": {"metavar": "FILE", "help": "CA certificates to trust (PEM)."},
    "--ssl-certfile": {"metavar": "FILE", "help": "Client certificate (PEM)."},
    "--ssl-keyfile": {"metavar": "FILE", "help": "Client private key (PEM)."},
    "--ssl-password": {"envvar": "QUORATE_SSL_PASSWORD", "help": "Password of the private key."},
    "--ssl-crlfile": {"metavar": "FILE", "help": "Certificate revocation list (PEM)."},
    "--ssl-ciphers": {"metavar": "TEXT", "help": "Ciphers to offer, in OpenSSL's format."},
    "--ssl-check-hostname/--no-ssl-check-hostname": {
        "default": None,
        "help": "Check that the certificate names the broker's host.  [default: yes]",
    },
    "--sasl-mechanism": {
        "type": click.Choice(["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI"]),
        "help": "SASL mechanism.",
    },
    "--sasl-plain-username": {"envvar": "QUORATE_SASL_USERNAME", "help": "User name, for PLAIN and SCRAM."},
    "--sasl-plain-password": {"envvar": "QUORATE_SASL_PASSWORD", "help": _PASSWORD},
    "--sasl-kerberos-service-name": {"help": "Service name, for GSSAPI.  [default: kafka]"},
    "--sasl-kerberos-domain-name": {"help": "Kerberos domain, for GSSAPI."},
    "--client-id": {"help": "Client id to send to the brokers.  [default: quorate]"},
}

CONNECTION_OPTIONS = tuple(flag.partition("/")[0].removeprefix("--").replace("-", "_") for flag in _OPTIONS)


class WithConnection(click.Command):
    """A command whose help lists the connection options in a section of their own."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options, then the connection options."""
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
    """Add the connection options: `CONNECTION_OPTIONS` and `connect_timeout_ms`."""
    for flag, how in reversed(list(_OPTIONS.items())):
        command = click.option(flag, show_envvar="envvar" in how, **how)(command)
    option: Callable[[F], F] = click.option(
        "--connect-timeout-ms",
        type=click.IntRange(min=1, max=LONGEST_MS),
        metavar="N",
        default=10_000,
        show_default=True,
        help="Timeout for reaching a broker.",
    )
    return option(command)


def servers_option(what: str = "Read from this cluster.") -> Callable[[F], F]:
    """Return `-b`, the addresses of a live cluster."""
    return click.option("-b", "--bootstrap-servers", metavar="HOST:PORT[,...]", help=what)


def check_one_source(ctx: click.Context | None, sources: Sequence[str], servers: str | None) -> None:
    """Raise `UsageError` unless exactly one of SOURCE and -b is given."""
    if servers is not None and sources:
        raise click.UsageError("give either -b or a SOURCE, not both", ctx)
    if servers is None and not sources:
        raise click.UsageError("nothing to read: give a segment file, a log directory, or -b for a live cluster", ctx)


def refuse_connection_options(ctx: click.Context) -> None:
    """Raise `UsageError` for a connection option of a command that reads no live cluster."""
    for name in CONNECTION_OPTIONS:
        if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name.replace('_', '-')} is for a live cluster (-b)", ctx)


def connection_config(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given options as kafka-python's configs.

    Raises `UserError` for options that would have no effect.
    """
    given = {name: options[name] for name in CONNECTION_OPTIONS if options.get(name) is not None}
    protocol = given.get("security_protocol", "PLAINTEXT")
    for prefix, needed in (("ssl_", ("SSL", "SASL_SSL")), ("sasl_", ("SASL_PLAINTEXT", "SASL_SSL"))):
        # kafka-python ignores them, and the failure that follows would not name the cause. Values
        # from the environment may be meant for other clusters.
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
