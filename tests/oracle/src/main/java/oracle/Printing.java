package oracle;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.MessageFormatter;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.tools.DumpParsers;
import org.apache.kafka.tools.consumer.GroupMetadataMessageFormatter;
import org.apache.kafka.tools.consumer.OffsetsMessageFormatter;
import org.apache.kafka.tools.consumer.ShareGroupMessageFormatter;
import org.apache.kafka.tools.consumer.TransactionLogMessageFormatter;
import org.apache.kafka.tools.consumer.group.share.ShareGroupStateMessageFormatter;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.function.Supplier;

/** The text that Kafka's command-line tools print for a record. */
final class Printing {
    private static final Map<String, Supplier<MessageFormatter>> FORMATTERS = Map.of(
        "OffsetsMessageFormatter", OffsetsMessageFormatter::new,
        "GroupMetadataMessageFormatter", GroupMetadataMessageFormatter::new,
        "ShareGroupMessageFormatter", ShareGroupMessageFormatter::new,
        "ShareGroupStateMessageFormatter", ShareGroupStateMessageFormatter::new,
        "TransactionLogMessageFormatter", TransactionLogMessageFormatter::new);

    private Printing() { }

    /** Returns {"text"}, the formatter's exact output, empty if it skips the record; or {"error"} if it throws. */
    static ObjectNode consoleFormat(JsonNode in) {
        String name = Json.need(in, "formatter").asText();
        if (!FORMATTERS.containsKey(name)) throw new Json.BadInput("no formatter " + name);
        byte[] key = Json.unhex(in.get("key"));
        byte[] value = Json.unhex(in.get("value"));
        ObjectNode out = Json.obj();
        ByteArrayOutputStream text = new ByteArrayOutputStream();
        try (PrintStream stream = new PrintStream(text, true, StandardCharsets.UTF_8)) {
            FORMATTERS.get(name).get().writeTo(new ConsumerRecord<>(RecordTopic.of(in).name(), 0, 0, key, value), stream);
        } catch (RuntimeException e) {
            out.set("error", Main.error(e));
        }
        return out.put("text", text.toString(StandardCharsets.UTF_8));
    }

    /** Returns {"key", "payload"} as DumpLogSegments prints them with the topic's decoder; null if it prints nothing. */
    static ObjectNode dumpRecord(JsonNode in) {
        byte[] key = Json.unhex(in.get("key"));
        byte[] value = Json.unhex(in.get("value"));
        var record = MemoryRecords.withRecords(Compression.NONE, new SimpleRecord(0L, key, value)).records().iterator().next();
        ObjectNode out = Json.obj();
        try {
            DumpParsers.Text text = DumpParsers.parse(RecordTopic.of(in).name(), record);
            out.put("key", text.key().orElse(null));
            out.put("payload", text.payload().orElse(null));
        } catch (RuntimeException e) {
            out.set("error", Main.error(e));
        }
        return out;
    }
}
