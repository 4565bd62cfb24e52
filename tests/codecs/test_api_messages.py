"""Requests and responses of the group coordination APIs: Kafka's schemas, Kafka's bytes, Kafka's JSON, in every version."""

import pytest

from quorate.codecs.api import APIS
from quorate.codecs.message import MessageSpec
from tests.codecs.test_schemas import as_schema
from tests.oracle.fixtures import need_oracle
from tests.oracle.schemas import facts, schema

EACH_MESSAGE = pytest.mark.parametrize(
    "spec", [spec for api in APIS.values() for spec in (api.request, api.response)], ids=lambda spec: spec.name
)


@pytest.mark.oracle
@EACH_MESSAGE
def test_declaration_equals_schema(spec: MessageSpec) -> None:
    need_oracle()
    kind = "request" if spec.name.endswith("Request") else "response"
    key = next(api.key for api in APIS.values() if spec in (api.request, api.response))
    assert facts(as_schema(spec, kind, key)) == facts(schema("kafka-clients", spec.name))
