"""Both clients, for tests of their own coordinators without a broker."""

from quorate.assignors.adapters.protocol import subscription_bytes
from quorate.codecs.consumer_protocol import decode_subscription

RACKS = {1: "a", 2: "b", 3: "c"}
SIX = {"t": {number: [number % 3 + 1] for number in range(6)}}
"""Six partitions with one replica each, on the brokers 1, 2, 3, 1, 2, 3."""


class Client:
    def __init__(self, consumer, adapters):
        self.consumer, self.adapters = consumer, adapters

    def __getattr__(self, name):
        return getattr(self.adapters, name)


def decoded(data):
    embedded = decode_subscription(data)
    assert embedded.version == 3
    assert embedded.trailing == b""
    return embedded.message


def member(rack=None, topics=("t",), **more):
    return subscription_bytes(topics, rack=rack, **more)


def as_leader(consumer, name="range"):
    consumer.metadata(RACKS, SIX)
    mine = consumer.lead(name, {"m": member("a")})["m"]
    consumer.complete(name, mine, 1)
    assert not consumer.rejoins()
