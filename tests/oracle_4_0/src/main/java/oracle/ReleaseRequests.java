package oracle;

import org.apache.kafka.common.message.OffsetCommitRequestData;
import org.apache.kafka.common.message.OffsetFetchRequestData;
import org.apache.kafka.common.message.OffsetFetchResponseData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.OffsetCommitRequest;
import org.apache.kafka.common.requests.OffsetCommitResponse;
import org.apache.kafka.common.requests.OffsetFetchRequest;
import org.apache.kafka.common.requests.OffsetFetchResponse;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.coordinator.group.Release;
import org.apache.kafka.image.MetadataImage;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/** Requests that this release handles in its own way: topics have no ids in offset requests. */
final class ReleaseRequests {
    private ReleaseRequests() { }

    /** Returns null for a request that this release does not have. */
    static CompletableFuture<? extends ApiMessage> send(
        GroupCoordinator g, MetadataImage image, AbstractRequest request, RequestContext ctx, boolean strict
    ) {
        if (request instanceof OffsetCommitRequest r) return commit(g, image, r, ctx, strict);
        if (request instanceof OffsetFetchRequest r) return fetch(g, r, ctx);
        return null;
    }

    private static CompletableFuture<? extends ApiMessage> commit(
        GroupCoordinator g, MetadataImage image, OffsetCommitRequest r, RequestContext ctx, boolean strict
    ) {
        var builder = new OffsetCommitResponse.Builder();
        if (strict) {
            List<OffsetCommitRequestData.OffsetCommitRequestTopic> known = new ArrayList<>();
            for (var t : r.data().topics()) {
                var ok = new OffsetCommitRequestData.OffsetCommitRequestTopic().setName(t.name());
                for (var p : t.partitions()) {
                    if (Requests.exists(image, t.name(), p.partitionIndex())) ok.partitions().add(p);
                    else builder.addPartition(t.name(), p.partitionIndex(), Errors.UNKNOWN_TOPIC_OR_PARTITION);
                }
                if (!ok.partitions().isEmpty()) known.add(ok);
            }
            if (known.isEmpty()) return CompletableFuture.completedFuture(builder.build().data());
            r.data().setTopics(known);
        }
        return g.commitOffsets(ctx, r.data(), Release.NO_CACHING).thenApply(d -> builder.merge(d).build().data());
    }

    private static CompletableFuture<? extends ApiMessage> fetch(GroupCoordinator g, OffsetFetchRequest r, RequestContext ctx) {
        short version = r.version();
        List<CompletableFuture<OffsetFetchResponseData.OffsetFetchResponseGroup>> futures = new ArrayList<>();
        for (OffsetFetchRequestData.OffsetFetchRequestGroup group : r.groups()) {
            var future = group.topics() == null
                ? g.fetchAllOffsets(ctx, group, r.requireStable())
                : g.fetchOffsets(ctx, group, r.requireStable());
            futures.add(future.exceptionally(ex ->
                new OffsetFetchResponseData.OffsetFetchResponseGroup().setGroupId(group.groupId()).setErrorCode(Errors.forException(ex).code())));
        }
        return CompletableFuture.allOf(futures.toArray(new CompletableFuture<?>[0])).thenApply(v -> {
            List<OffsetFetchResponseData.OffsetFetchResponseGroup> groups = new ArrayList<>();
            futures.forEach(f -> groups.add(f.join()));
            return new OffsetFetchResponse(groups, version).data();
        });
    }
}
