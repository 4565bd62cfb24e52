package oracle;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.TxnOffsetCommitRequestData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.requests.TxnOffsetCommitRequest;
import org.apache.kafka.common.requests.TxnOffsetCommitResponse;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.coordinator.group.Release;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.TopicImage;

import com.fasterxml.jackson.databind.JsonNode;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/** TxnOffsetCommit, with topic ids since version 6 (KIP-1319). */
final class TransactionalOffsets {
    private TransactionalOffsets() { }

    /** Returns a request's body with the names of this release. */
    static JsonNode named(JsonNode body) {
        return body;
    }

    static CompletableFuture<? extends ApiMessage> commit(
        GroupCoordinator g, MetadataImage image, TxnOffsetCommitRequest r, RequestContext ctx, boolean strict
    ) {
        boolean byId = TxnOffsetCommitResponse.useTopicIds(r.version());
        var builder = TxnOffsetCommitResponse.newBuilder(byId);
        List<TxnOffsetCommitRequestData.TxnOffsetCommitRequestTopic> known = new ArrayList<>();
        for (var t : r.data().topics()) {
            if (byId) {
                TopicImage ti = image.topics().getTopic(t.topicId());
                if (ti != null) t.setName(ti.name());
                if (t.name().isEmpty()) {
                    builder.addPartitions(t.topicId(), t.name(), t.partitions(), p -> p.partitionIndex(), Errors.UNKNOWN_TOPIC_ID);
                    continue;
                }
            } else {
                TopicImage ti = image.topics().getTopic(t.name());
                t.setTopicId(ti == null ? Uuid.ZERO_UUID : ti.id());
            }
            if (!strict) {
                known.add(t);
                continue;
            }
            var ok = new TxnOffsetCommitRequestData.TxnOffsetCommitRequestTopic().setTopicId(t.topicId()).setName(t.name());
            for (var p : t.partitions()) {
                if (Requests.exists(image, t.name(), p.partitionIndex())) ok.partitions().add(p);
                else builder.addPartition(t.topicId(), t.name(), p.partitionIndex(), Errors.UNKNOWN_TOPIC_OR_PARTITION);
            }
            if (!ok.partitions().isEmpty()) known.add(ok);
        }
        if (known.isEmpty() && (strict || !r.data().topics().isEmpty())) return CompletableFuture.completedFuture(builder.build().data());
        r.data().setTopics(known);
        return g.commitTransactionalOffsets(ctx, r.data(), Release.NO_CACHING).thenApply(d -> builder.merge(d).build().data());
    }
}
