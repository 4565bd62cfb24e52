"""A fixture with both clients."""

import pytest

from quorate.assignors.adapters import aiokafka, kafka_python
from tests.assignors.adapters.coordinators import Client
from tests.assignors.adapters.offline import OfflineAio, OfflineKafkaPython


@pytest.fixture(
    params=[Client(OfflineKafkaPython, kafka_python), Client(OfflineAio, aiokafka)], ids=["kafka-python", "aiokafka"]
)
def client(request):
    return request.param
