"""The APIs of share coordinators (KIP-932), all versions.

InitializeShareGroupState, ReadShareGroupState, WriteShareGroupState, DeleteShareGroupState and
ReadShareGroupStateSummary. `quorate.cluster.share_state` handles them.
"""

from typing import TYPE_CHECKING

from quorate.cluster.apis import Context
from quorate.cluster.turns import Work
from quorate.codecs.message import Message

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker


def share_state(broker: "Broker", request: Message, context: Context) -> Work[Message]:
    """Hand each partition of a request to its share coordinator."""
    return broker.cluster.share_state.request(broker.id, request)
