package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import java.util.Map;
import java.util.function.Function;

/** The ops without a shard. Only the newest release's oracle has codecs and assignors. */
final class OneShots {
    private OneShots() { }

    static Map<String, Function<JsonNode, ObjectNode>> table(Shard shard) {
        return Map.ofEntries(
            Map.entry("versions", in -> Main.versions()),
            Map.entry("quit", in -> Json.obj()));
    }

    /** For the driver's option "decode". */
    static ObjectNode decodeGroupRecord(byte[] key, byte[] value) {
        throw new Json.BadInput("this release's oracle does not decode; use the newest release's");
    }
}
