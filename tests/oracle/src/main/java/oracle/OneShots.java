package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import java.util.HashMap;
import java.util.Map;
import java.util.function.Function;

/** The ops without a shard. */
final class OneShots {
    private OneShots() { }

    static Map<String, Function<JsonNode, ObjectNode>> table(Shard shard) {
        Map<String, Function<JsonNode, ObjectNode>> ops = new HashMap<>(NewestOps.table());
        ops.putAll(Map.ofEntries(
            Map.entry("encode", Codecs::encode),
            Map.entry("decode", Codecs::decodeOp),
            Map.entry("encodeApi", Apis::encode),
            Map.entry("decodeApi", Apis::decode),
            Map.entry("consoleFormat", Printing::consoleFormat),
            Map.entry("dumpRecord", Printing::dumpRecord),
            Map.entry("readSegment", Batches::read),
            Map.entry("writeBatch", Batches::write),
            Map.entry("subscription", in -> Codecs.protocol(in, true)),
            Map.entry("assignmentBytes", in -> Codecs.protocol(in, false)),
            Map.entry("stickyUserData", Codecs::stickyUserData),
            Map.entry("topicHash", in -> Codecs.topicHash(in, shard.image())),
            Map.entry("groupHash", Codecs::groupHash),
            Map.entry("clientAssign", Assignors::clientAssign),
            Map.entry("serverAssign", Assignors::serverAssign),
            Map.entry("shareAssign", Assignors::shareAssign),
            Map.entry("javaOrder", JavaOrder::javaOrder),
            Map.entry("regexMatch", Regexes::match),
            Map.entry("authorize", Authorizing::authorize),
            Map.entry("member", new Members()::run),
            Map.entry("versions", in -> Main.versions()),
            Map.entry("quit", in -> Json.obj())));
        return ops;
    }

    /** For the driver's option "decode". */
    static ObjectNode decodeGroupRecord(byte[] key, byte[] value) {
        return Codecs.decode(RecordTopic.GROUP, key, value, false);
    }
}
