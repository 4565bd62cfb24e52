package oracle;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.DescribeShareGroupOffsetsResponseData;
import org.apache.kafka.common.message.OffsetCommitRequestData;
import org.apache.kafka.common.message.OffsetFetchRequestData;
import org.apache.kafka.common.message.OffsetFetchResponseData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AlterShareGroupOffsetsRequest;
import org.apache.kafka.common.requests.DeleteShareGroupOffsetsRequest;
import org.apache.kafka.common.requests.DescribeShareGroupOffsetsRequest;
import org.apache.kafka.common.requests.OffsetCommitRequest;
import org.apache.kafka.common.requests.OffsetCommitResponse;
import org.apache.kafka.common.requests.OffsetFetchRequest;
import org.apache.kafka.common.requests.OffsetFetchResponse;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.requests.StreamsGroupHeartbeatRequest;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.coordinator.group.Release;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.TopicImage;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/** Requests that Kafka 4.0 does not have, or that it handles in another way. */
final class ReleaseRequests {
    private ReleaseRequests() { }

    /** Returns null for a request that this release does not have. */
    static CompletableFuture<? extends ApiMessage> send(
        GroupCoordinator g, MetadataImage image, AbstractRequest request, RequestContext ctx, boolean strict
    ) {
        if (request instanceof OffsetCommitRequest r) return offsetCommit(g, image, r, ctx, strict);
        if (request instanceof OffsetFetchRequest r) return offsetFetch(g, image, r, ctx);
        if (request instanceof StreamsGroupHeartbeatRequest r) {
            return g.streamsGroupHeartbeat(ctx, r.data()).thenApply(result -> result.data());
        }
        if (request instanceof DescribeShareGroupOffsetsRequest r) return describeShareGroupOffsets(g, r, ctx);
        if (request instanceof AlterShareGroupOffsetsRequest r) return g.alterShareGroupOffsets(ctx, r.data().groupId(), r.data());
        if (request instanceof DeleteShareGroupOffsetsRequest r) return g.deleteShareGroupOffsets(ctx, r.data());
        return Release.send(g, request, ctx);
    }

    private static CompletableFuture<? extends ApiMessage> describeShareGroupOffsets(
        GroupCoordinator g, DescribeShareGroupOffsetsRequest r, RequestContext ctx
    ) {
        List<DescribeShareGroupOffsetsResponseData.DescribeShareGroupOffsetsResponseGroup> groups = new ArrayList<>();
        for (var group : r.groups()) {
            var future = group.topics() == null ? g.describeShareGroupAllOffsets(ctx, group) : g.describeShareGroupOffsets(ctx, group);
            groups.add(future.join());
        }
        return CompletableFuture.completedFuture(new DescribeShareGroupOffsetsResponseData().setGroups(groups));
    }

    private static CompletableFuture<? extends ApiMessage> offsetCommit(
        GroupCoordinator g, MetadataImage image, OffsetCommitRequest r, RequestContext ctx, boolean strict
    ) {
        boolean byId = OffsetCommitResponse.useTopicIds(r.version());
        var builder = OffsetCommitResponse.newBuilder(byId);
        List<OffsetCommitRequestData.OffsetCommitRequestTopic> known = new ArrayList<>();
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
            if (t.topicId().equals(Uuid.ZERO_UUID)) {
                builder.addPartitions(Uuid.ZERO_UUID, t.name(), t.partitions(), p -> p.partitionIndex(), Errors.UNKNOWN_TOPIC_OR_PARTITION);
                continue;
            }
            var ok = new OffsetCommitRequestData.OffsetCommitRequestTopic().setTopicId(t.topicId()).setName(t.name());
            for (var p : t.partitions()) {
                if (Requests.exists(image, t.name(), p.partitionIndex())) ok.partitions().add(p);
                else builder.addPartition(t.topicId(), t.name(), p.partitionIndex(), Errors.UNKNOWN_TOPIC_OR_PARTITION);
            }
            if (!ok.partitions().isEmpty()) known.add(ok);
        }
        if (known.isEmpty() && !r.data().topics().isEmpty()) return CompletableFuture.completedFuture(builder.build().data());
        if (known.isEmpty() && strict) return CompletableFuture.completedFuture(builder.build().data());
        r.data().setTopics(known);
        return g.commitOffsets(ctx, r.data(), Release.NO_CACHING).thenApply(d -> builder.merge(d).build().data());
    }

    private static CompletableFuture<? extends ApiMessage> offsetFetch(
        GroupCoordinator g, MetadataImage image, OffsetFetchRequest r, RequestContext ctx
    ) {
        short version = r.version();
        boolean byId = OffsetFetchRequest.useTopicIds(version);
        List<CompletableFuture<OffsetFetchResponseData.OffsetFetchResponseGroup>> futures = new ArrayList<>();
        for (var group : r.groups()) {
            var errors = new ArrayList<OffsetFetchResponseData.OffsetFetchResponseTopics>();
            boolean all = OffsetFetchRequest.requestAllOffsets(group);
            var ask = group;
            if (!all) {
                var topics = new ArrayList<OffsetFetchRequestData.OffsetFetchRequestTopics>();
                for (var t : group.topics()) {
                    if (byId && !t.topicId().equals(Uuid.ZERO_UUID)) {
                        TopicImage ti = image.topics().getTopic(t.topicId());
                        if (ti != null) t.setName(ti.name());
                    }
                    if (byId && t.name().isEmpty()) {
                        var e = new OffsetFetchResponseData.OffsetFetchResponseTopics().setTopicId(t.topicId()).setName(t.name());
                        t.partitionIndexes().forEach(p -> e.partitions().add(
                            new OffsetFetchResponseData.OffsetFetchResponsePartitions().setPartitionIndex(p)
                                .setCommittedOffset(-1).setErrorCode(Errors.UNKNOWN_TOPIC_ID.code())));
                        errors.add(e);
                    } else {
                        topics.add(t);
                    }
                }
                ask = new OffsetFetchRequestData.OffsetFetchRequestGroup().setGroupId(group.groupId())
                    .setMemberId(group.memberId()).setMemberEpoch(group.memberEpoch()).setTopics(topics);
            }
            futures.add(g.fetchOffsets(ctx, ask, r.requireStable()).handle((d, ex) -> {
                if (ex != null) return OffsetFetchResponse.groupError(group, Errors.forException(ex), version);
                if (d.errorCode() != 0) return d;
                var topics = new ArrayList<OffsetFetchResponseData.OffsetFetchResponseTopics>();
                for (var t : d.topics()) {
                    if (all && byId && t.topicId().equals(Uuid.ZERO_UUID)) {
                        TopicImage ti = image.topics().getTopic(t.name());
                        if (ti == null) continue;
                        t.setTopicId(ti.id());
                    }
                    topics.add(t);
                }
                topics.addAll(errors);
                return d.setTopics(topics);
            }));
        }
        return CompletableFuture.allOf(futures.toArray(new CompletableFuture<?>[0])).thenApply(v -> {
            List<OffsetFetchResponseData.OffsetFetchResponseGroup> groups = new ArrayList<>();
            futures.forEach(f -> groups.add(f.join()));
            return new OffsetFetchResponse.Builder(groups).build(version).data();
        });
    }
}
