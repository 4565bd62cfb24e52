package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import java.util.Map;
import java.util.function.Function;

/** The ops without a shard: those of the newest release that this one has, too. */
final class NewestOps {
    private NewestOps() { }

    static Map<String, Function<JsonNode, ObjectNode>> table() {
        return Map.of("shareState", ShareState::run);
    }
}
