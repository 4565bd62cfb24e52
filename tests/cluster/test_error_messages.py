"""Error messages are for users of clients: none contains the repr of a Python object (issue 14)."""

import re
from random import Random

from quorate.cluster import EmbeddedCluster
from quorate.codecs.api.broker import ApiVersionsRequest
from tests.cluster.helpers.batch_cases import CASES, Player
from tests.cluster.helpers.pair import parts
from tests.cluster.helpers.pair_play import SETTINGS
from tests.cluster.helpers.pair_requests import Requests
from tests.cluster.helpers.wire import Wire

_REPR = re.compile(
    r"\b(?!(?:RecordError|ClientQuotaEntity)\b)[A-Z]\w+\(\w*=?"
    r"|<\w+[.:]|<[\w.]+ object|(?<![\w-])b['\"]|\b[A-Z][a-z]\w*\.[A-Z_]{2,}\b| at 0x"
)
"""A class name with fields, an enum, bytes, an address. Real brokers send
`RecordError(batchIndex=0…` and `ClientQuotaEntity(entries={…`.
"""

_OLDEST = {0: 3}


def test_no_error_message_contains_the_repr_of_an_object() -> None:
    messages = set()
    with EmbeddedCluster(brokers=1, properties=SETTINGS, seed=1) as cluster:
        with Wire(cluster.core.brokers[1].port) as wire:
            reported = wire.request(ApiVersionsRequest(client_software_name="w", client_software_version="1"), 4)
        versions = {
            api_key.api_key: range(max(api_key.min_version, _OLDEST.get(api_key.api_key, 0)), api_key.max_version + 1)
            for api_key in reported.api_keys
        }
        for seed in range(12):
            requests = Requests(Random(seed), cluster.core, versions, prefix=f"s{seed}-")
            wire = Wire(cluster.core.brokers[1].port)
            for _ in range(60):
                request, version = requests.next()
                if getattr(request, "acks", 1) == 0:
                    continue
                try:
                    response = wire.request(request, version)
                except ConnectionError:
                    wire.socket.close()
                    wire = Wire(cluster.core.brokers[1].port)
                    continue
                requests.observe(request, response)
                for part in parts(response):
                    found = (getattr(part, name, None) for name in ("error_message", "batch_index_error_message"))
                    messages.update(one for one in found if one)
            wire.socket.close()
    assert len(messages) > 30
    assert [message for message in messages if _REPR.search(message)] == []


def test_no_error_message_of_produce_contains_the_repr_of_an_object() -> None:
    """For batches with each fault of a producer."""
    messages = set()
    with EmbeddedCluster(brokers=1) as cluster:
        player = Player(cluster.core.brokers[1].port)
        for case in CASES:
            for outcome in player.play(case.data(case.only[-1]), case.version).values():
                messages.update(one for one in (outcome.message, *(text for _, text in outcome.record_errors)) if one)
        player.close()
    assert messages
    assert [message for message in messages if _REPR.search(message)] == []
