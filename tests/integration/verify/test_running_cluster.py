"""Checks of `quorate verify` on the cluster of the scenarios: three brokers, real or embedded."""

from quorate.cluster import Cluster
from quorate.codecs.releases import KafkaVersion
from quorate.integration.verify import CheckOutcome, verify


def test_a_cluster_with_three_brokers_passes(kafka_cluster: Cluster) -> None:
    release = KafkaVersion.parse(kafka_cluster.version)
    report = verify(kafka_cluster.bootstrap_servers, release=release, suites=["groups", "offsets", "fetch"])
    assert not [
        (result.check.name, result.detail) for result in report.results if result.outcome is not CheckOutcome.PASSED
    ]
    assert report.count(CheckOutcome.PASSED) > 60
    assert not report.left
