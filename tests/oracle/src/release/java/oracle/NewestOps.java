package oracle;

import kafka.server.share.SharePartitionScript;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import java.util.Map;
import java.util.function.Function;

/** The ops without a shard that only the newest release has. */
final class NewestOps {
    private NewestOps() { }

    static Map<String, Function<JsonNode, ObjectNode>> table() {
        return Map.of(
            "sharePartition", SharePartitionScript::run,
            "shareState", ShareState::run,
            "streamsAssign", Streams::assign,
            "streamsTopology", Streams::topology);
    }
}
