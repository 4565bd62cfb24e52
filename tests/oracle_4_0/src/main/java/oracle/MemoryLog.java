package oracle;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.storage.internals.log.VerificationGuard;

import java.util.Map;
import java.util.concurrent.CompletableFuture;

/** The log, with the interface of this release's coordinator. */
public final class MemoryLog extends StoredLog {
    public MemoryLog(Map<String, ?> logConfig) {
        super(logConfig);
    }

    @Override
    public long append(TopicPartition tp, VerificationGuard guard, MemoryRecords records) {
        check(records.sizeInBytes());
        for (MutableRecordBatch batch : records.batches()) {
            int n = nextBatch();
            if (discard) {
                skip(batch.countOrNull());
                continue;
            }
            for (Record r : batch) {
                String control = batch.isControlBatch() ? ControlRecordType.parse(r.key()).name() : null;
                add(r.key(), r.value(), batch.producerId(), batch.producerEpoch(), control, n);
            }
        }
        return end();
    }

    @Override
    public CompletableFuture<VerificationGuard> maybeStartTransactionVerification(
        TopicPartition tp, String transactionalId, long producerId, short producerEpoch, short apiVersion
    ) {
        return CompletableFuture.completedFuture(VerificationGuard.SENTINEL);
    }
}
