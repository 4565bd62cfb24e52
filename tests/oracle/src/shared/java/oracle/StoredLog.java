package oracle;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.requests.TransactionResult;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.coordinator.common.runtime.CoordinatorLoader;
import org.apache.kafka.coordinator.common.runtime.CoordinatorPlayback;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.Deserializer;
import org.apache.kafka.coordinator.common.runtime.PartitionWriter;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.storage.internals.log.LogConfig;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/** A partition of __consumer_offsets in memory: writer and loader, except for what differs between releases ({@code MemoryLog}). */
public abstract class StoredLog implements PartitionWriter, CoordinatorLoader<CoordinatorRecord> {
    /** A written record. {@code control} is COMMIT or ABORT for a transaction marker, otherwise null. */
    public record Entry(byte[] key, byte[] value, long producerId, short producerEpoch, String control, int batch) { }

    private final LogConfig config;
    private final GroupCoordinatorRecordSerde serde = new GroupCoordinatorRecordSerde();
    public final List<Entry> entries = new ArrayList<>();
    public final List<String> unknownTypes = new ArrayList<>();
    public RuntimeException failNext;
    /** For benchmarks: counts the records without storing them. */
    public boolean discard;
    private int end = 0;
    public Throwable loadError;
    private int batches = 0;
    private long highWatermark = 0;
    private TopicPartition tp;
    private Listener listener;

    protected StoredLog(Map<String, ?> logConfig) {
        this.config = new LogConfig(logConfig);
    }

    @Override
    public void registerListener(TopicPartition tp, Listener listener) {
        this.tp = tp;
        this.listener = listener;
    }

    @Override
    public void deregisterListener(TopicPartition tp, Listener listener) {
        if (this.listener == listener) this.listener = null;
    }

    @Override
    public LogConfig config(TopicPartition tp) {
        return config;
    }

    /** The first steps of {@code append} in every release. */
    final void check(int sizeInBytes) {
        if (failNext != null) {
            RuntimeException e = failNext;
            failNext = null;
            throw e;
        }
        // The check that the broker's log does on the serialized batch.
        if (sizeInBytes > config.maxMessageSize()) {
            throw new org.apache.kafka.common.errors.RecordTooLargeException("The batch size is " + sizeInBytes
                + " bytes, which exceeds the maximum configured value of " + config.maxMessageSize() + ".");
        }
    }

    final int nextBatch() {
        return batches++;
    }

    final void skip(int records) {
        end += records;
    }

    /** A record of a batch. {@code control} as in {@link Entry}. */
    final void add(ByteBuffer key, ByteBuffer value, long producerId, short producerEpoch, String control, int batch) {
        end++;
        entries.add(new Entry(control == null ? Utils.toNullableArray(key) : null, control == null ? Utils.toNullableArray(value) : null,
            producerId, producerEpoch, control, batch));
    }

    public int end() {
        return end;
    }

    /** Moves the high watermark to the end. Returns true if it moved and the listener was notified. */
    public boolean commit() {
        if (listener == null || highWatermark == end) return false;
        highWatermark = end;
        listener.onHighWatermarkUpdated(tp, highWatermark);
        return true;
    }

    @Override
    public CompletableFuture<Void> deleteRecords(TopicPartition tp, long deleteBeforeOffset) {
        return CompletableFuture.completedFuture(null);
    }

    /** Replays the log like the broker's loader. */
    @Override
    public CompletableFuture<LoadSummary> load(TopicPartition tp, CoordinatorPlayback<CoordinatorRecord> playback) {
        try {
            for (int offset = 0; offset < entries.size(); offset++) {
                Entry e = entries.get(offset);
                if (e.control != null) {
                    playback.replayEndTransactionMarker(e.producerId, e.producerEpoch, TransactionResult.valueOf(e.control));
                    continue;
                }
                CoordinatorRecord record;
                try {
                    record = serde.deserialize(
                        e.key == null ? null : ByteBuffer.wrap(e.key),
                        e.value == null ? null : ByteBuffer.wrap(e.value));
                } catch (Deserializer.UnknownRecordTypeException ex) {
                    unknownTypes.add(offset + ":" + ex.unknownType());
                    continue;
                }
                playback.replay(offset, e.producerId, e.producerEpoch, record);
            }
            if (!entries.isEmpty()) {
                playback.updateLastWrittenOffset((long) entries.size());
                playback.updateLastCommittedOffset((long) entries.size());
            }
            end = entries.size();
            highWatermark = end;
            batches = entries.isEmpty() ? 0 : entries.get(entries.size() - 1).batch + 1;
            return CompletableFuture.completedFuture(new LoadSummary(0, 0, 0, entries.size(), 0));
        } catch (Throwable t) {
            loadError = t;
            return CompletableFuture.failedFuture(t);
        }
    }

    @Override
    public void close() { }
}
