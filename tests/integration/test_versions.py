"""ApiVersions of brokers: Kafka's equal the recording in tests/data; embedded ones are a subset."""

import json
from pathlib import Path
from typing import Any

from quorate.cluster.handlers import MISSING
from quorate.codecs.api.broker import ApiVersionsRequest
from quorate.integration import Cluster
from tests.cluster.helpers.wire import Wire

RECORDED = Path(__file__).parents[1] / "data" / "api_versions.jsonl"


def recorded(version: str) -> dict[str, Any]:
    """Return the recorded response of a Kafka broker of a release."""
    lines = map(json.loads, RECORDED.read_text(encoding="utf-8").splitlines())
    (found,) = (line for line in lines if line["version"] == version)
    return dict(found)


def check_versions(cluster: Cluster) -> None:
    """Check that a cluster that was created with its release reports the recorded versions."""
    broker = cluster.brokers[0]
    with Wire(int(broker.address.rpartition(":")[2])) as wire:
        response = wire.request(ApiVersionsRequest(client_software_name="w", client_software_version="1"), 4)
    expected = recorded(broker.version)
    versions = {str(api_key.api_key): [api_key.min_version, api_key.max_version] for api_key in response.api_keys}
    features = expected["features_4"]
    finalized = features["finalized"]
    if type(cluster).__name__ == "KafkaCluster":
        assert versions == expected["api_keys"]
    else:
        missing = {str(key) for key in MISSING}
        assert not missing & versions.keys(), "embedded clusters have these APIs: take them from MISSING"
        assert versions == {key: value for key, value in expected["api_keys"].items() if key not in missing}
    assert {
        supported_feature.name: [supported_feature.min_version, supported_feature.max_version]
        for supported_feature in response.supported_features
    } == features["supported"]
    assert {
        finalized_feature.name: finalized_feature.max_version_level for finalized_feature in response.finalized_features
    } == finalized


def test_brokers_report_the_versions_and_features_of_their_release(kafka_cluster: Cluster) -> None:
    check_versions(kafka_cluster)
