package oracle;

import org.apache.kafka.common.message.TxnOffsetCommitRequestData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.requests.TxnOffsetCommitRequest;
import org.apache.kafka.common.requests.TxnOffsetCommitResponse;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.coordinator.group.Release;
import org.apache.kafka.image.MetadataImage;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/** TxnOffsetCommit before 4.4, by topic names only. */
final class TransactionalOffsets {
    private TransactionalOffsets() { }

    /** Returns a request's body with the names of this release. */
    static JsonNode named(JsonNode body) {
        if (!body.has("generationIdOrMemberEpoch")) return body;
        ObjectNode renamed = body.deepCopy();
        renamed.set("generationId", renamed.remove("generationIdOrMemberEpoch"));
        return renamed;
    }

    static CompletableFuture<? extends ApiMessage> commit(
        GroupCoordinator g, MetadataImage image, TxnOffsetCommitRequest r, RequestContext ctx, boolean strict
    ) {
        var builder = new TxnOffsetCommitResponse.Builder();
        if (strict) {
            List<TxnOffsetCommitRequestData.TxnOffsetCommitRequestTopic> known = new ArrayList<>();
            for (var t : r.data().topics()) {
                var ok = new TxnOffsetCommitRequestData.TxnOffsetCommitRequestTopic().setName(t.name());
                for (var p : t.partitions()) {
                    if (Requests.exists(image, t.name(), p.partitionIndex())) ok.partitions().add(p);
                    else builder.addPartition(t.name(), p.partitionIndex(), Errors.UNKNOWN_TOPIC_OR_PARTITION);
                }
                if (!ok.partitions().isEmpty()) known.add(ok);
            }
            if (known.isEmpty()) return CompletableFuture.completedFuture(builder.build().data());
            r.data().setTopics(known);
        }
        return g.commitTransactionalOffsets(ctx, r.data(), Release.NO_CACHING)
            .thenApply(d -> builder.merge(d).build().data());
    }
}
