package oracle;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.FileLogInputStream;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.coordinator.group.Release;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Iterator;

/** Reads and writes record batches of every message format with Kafka's own classes. */
final class Batches {
    private Batches() { }

    /** Reads {"path"} with FileRecords or {"hex"} with MemoryRecords. With "records":false, only batch headers. */
    static ObjectNode read(JsonNode in) {
        boolean records = in.path("records").asBoolean(true);
        ObjectNode out = Json.obj();
        if (in.has("hex")) {
            MemoryRecords memory = MemoryRecords.readableRecords(ByteBuffer.wrap(Json.unhex(in.get("hex"))));
            batches(memory.batches().iterator(), memory.sizeInBytes(), records, out);
            return out;
        }
        // Opened like by DumpLogSegments: not mutable, with the size of the file.
        try (FileRecords file = FileRecords.open(new File(Json.need(in, "path").asText()), false)) {
            batches(file.batches().iterator(), file.sizeInBytes(), records, out);
        } catch (IOException e) {
            throw new Json.BadInput(e.getMessage());
        }
        return out;
    }

    private static void batches(Iterator<? extends RecordBatch> it, int size, boolean records, ObjectNode out) {
        ArrayNode list = out.putArray("batches");
        int position = 0;
        try {
            while (it.hasNext()) {
                RecordBatch batch = it.next();
                if (batch instanceof FileLogInputStream.FileChannelRecordBatch b) position = b.position();
                ObjectNode one = list.addObject().put("position", position);
                header(batch, one);
                if (records) records(batch, one);
                position += batch.sizeInBytes();
            }
        } catch (RuntimeException e) {
            // The iterator cannot continue: invalid size or unknown message format.
            out.set("error", Main.error(e));
        }
        out.put("validBytes", position);
        out.put("size", size);
    }

    private static void header(RecordBatch b, ObjectNode out) {
        out.put("sizeInBytes", b.sizeInBytes()).put("magic", b.magic()).put("baseOffset", b.baseOffset());
        out.put("lastOffset", b.lastOffset()).put("crc", b.checksum()).put("valid", b.isValid());
        out.put("compression", b.compressionType().name).put("timestampType", b.timestampType().name);
        out.put("maxTimestamp", b.maxTimestamp());
        if (b.countOrNull() != null) out.put("count", b.countOrNull());
        out.put("partitionLeaderEpoch", b.partitionLeaderEpoch());
        out.put("transactional", b.isTransactional()).put("control", b.isControlBatch());
        out.put("producerId", b.producerId()).put("producerEpoch", b.producerEpoch()).put("baseSequence", b.baseSequence());
        b.deleteHorizonMs().ifPresent(ms -> out.put("deleteHorizonMs", ms));
    }

    private static void records(RecordBatch batch, ObjectNode out) {
        ArrayNode list = out.putArray("records");
        try {
            for (Record r : batch) {
                ObjectNode one = list.addObject().put("offset", r.offset()).put("timestamp", r.timestamp());
                one.put("sequence", r.sequence());
                one.put("key", Json.hex(Utils.toNullableArray(r.key()))).put("value", Json.hex(Utils.toNullableArray(r.value())));
                ArrayNode headers = one.putArray("headers");
                for (Header h : r.headers()) headers.addObject().put("key", h.key()).put("value", Json.hex(h.value()));
                if (batch.isControlBatch()) {
                    ControlRecordType type = ControlRecordType.parse(r.key());
                    one.put("control", type.name());
                    if (type == ControlRecordType.COMMIT || type == ControlRecordType.ABORT) {
                        one.put("coordinatorEpoch", EndTransactionMarker.deserialize(r).coordinatorEpoch());
                    }
                }
            }
        } catch (RuntimeException e) {
            out.set("error", Main.error(e));
        }
    }

    /**
     * Writes a batch with MemoryRecordsBuilder: magic (2), compression ("none"), records [{"timestamp", "key", "value", "offset"?, "headers"?}]
     * or control "COMMIT"|"ABORT" with coordinatorEpoch, baseOffset (0), logAppendTime (sets the timestamp type), producerId, producerEpoch,
     * baseSequence, transactional, controlBatch, partitionLeaderEpoch, deleteHorizonMs, lastOffset.
     */
    static ObjectNode write(JsonNode in) {
        byte magic = (byte) in.path("magic").asInt(RecordBatch.CURRENT_MAGIC_VALUE);
        long baseOffset = in.path("baseOffset").asLong(0);
        String marker = Json.text(in, "control", null);
        boolean control = marker != null || in.path("controlBatch").asBoolean(false);
        boolean appendTime = in.hasNonNull("logAppendTime");
        TimestampType type = magic == RecordBatch.MAGIC_VALUE_V0 ? TimestampType.NO_TIMESTAMP_TYPE
            : appendTime ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME;
        Compression compression = Compression.of(CompressionType.forName(Json.text(in, "compression", "none"))).build();
        var stream = Release.stream(1 << 12);
        MemoryRecords built;
        try (MemoryRecordsBuilder builder = new MemoryRecordsBuilder(stream, magic, compression, type, baseOffset,
            in.path("logAppendTime").asLong(RecordBatch.NO_TIMESTAMP),
            in.path("producerId").asLong(RecordBatch.NO_PRODUCER_ID),
            (short) in.path("producerEpoch").asInt(RecordBatch.NO_PRODUCER_EPOCH),
            in.path("baseSequence").asInt(RecordBatch.NO_SEQUENCE),
            in.path("transactional").asBoolean(false), control,
            in.path("partitionLeaderEpoch").asInt(RecordBatch.NO_PARTITION_LEADER_EPOCH),
            Integer.MAX_VALUE, in.path("deleteHorizonMs").asLong(RecordBatch.NO_TIMESTAMP))) {
            if (marker != null) {
                builder.appendEndTxnMarker(in.path("timestamp").asLong(0),
                    new EndTransactionMarker(ControlRecordType.valueOf(marker), in.path("coordinatorEpoch").asInt(0)));
            }
            long offset = baseOffset;
            for (JsonNode r : in.path("records")) {
                offset = r.path("offset").asLong(offset);
                SimpleRecord record = new SimpleRecord(
                    r.path("timestamp").asLong(magic == RecordBatch.MAGIC_VALUE_V0 ? RecordBatch.NO_TIMESTAMP : 0),
                    Json.unhex(r.get("key")), Json.unhex(r.get("value")), headers(r.path("headers")));
                if (control) builder.appendControlRecordWithOffset(offset, record);
                else builder.appendWithOffset(offset, record);
                offset++;
            }
            if (in.has("lastOffset")) builder.overrideLastOffset(in.get("lastOffset").asLong());
            built = builder.build();
        }
        ByteBuffer bytes = built.buffer().duplicate();
        return Json.obj().put("hex", Json.hex(Utils.toArray(bytes)));
    }

    private static Header[] headers(JsonNode list) {
        Header[] out = new Header[list.size()];
        for (int i = 0; i < out.length; i++) {
            out[i] = new RecordHeader(Json.need(list.get(i), "key").asText(), Json.unhex(list.get(i).get("value")));
        }
        return out;
    }
}
