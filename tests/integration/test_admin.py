"""How the Cluster interface handles brokers' responses, with synthetic responses."""

from types import SimpleNamespace
from typing import Any

import pytest

from quorate.cluster import ClusterError, EmbeddedCluster
from quorate.cluster.admin import HIDDEN, configs_from


def test_a_hidden_config_differs_from_one_that_is_not_set() -> None:
    password = {"name": "ssl.key.password", "config_source": 2, "value": None, "synonyms": []}
    threads = {"name": "num.io.threads", "config_source": 4, "value": "8", "synonyms": []}
    response: dict[str, Any] = {"results": [{"configs": [password, threads]}]}
    sent = SimpleNamespace(to_dict=lambda: response)
    admin: Any = SimpleNamespace(_manager=SimpleNamespace(send=None, run=lambda *_: sent))
    found = configs_from(admin, 1, "broker", "1", ["ssl.key.password", "num.io.threads"])
    assert found == {"ssl.key.password": HIDDEN, "num.io.threads": None}


@pytest.mark.parametrize("resource", ["orders", "topics:orders", "", "client:x"])
def test_what_has_no_configuration_is_named_with_what_has(resource: str) -> None:
    with (
        EmbeddedCluster() as kafka,
        pytest.raises(ClusterError, match="has no configuration") as raised,
    ):
        kafka.set_config(resource, {"x": "y"})
    assert raised.value.remedy == ("name it as topic:NAME, broker:ID, broker: or group:ID",)
