package org.apache.kafka.tools;

import org.apache.kafka.common.record.internal.Record;

import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;

/** DumpLogSegments' record decoders. They are package-private, hence this package. */
public final class DumpParsers {
    public record Text(Optional<String> key, Optional<String> payload) { }

    private static final Map<String, Supplier<DumpLogSegments.CoordinatorRecordMessageParser>> PARSERS = Map.of(
        "__consumer_offsets", DumpLogSegments.OffsetsMessageParser::new,
        "__share_group_state", DumpLogSegments.ShareGroupStateMessageParser::new,
        "__transaction_state", DumpLogSegments.TransactionLogMessageParser::new);

    private DumpParsers() { }

    public static Text parse(String topic, Record record) {
        DumpLogSegments.ParseResult<String, String> result = PARSERS.get(topic).get().parse(record);
        return new Text(result.key(), result.value());
    }
}
