package oracle;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.message.DeleteShareGroupStateRequestData;
import org.apache.kafka.common.message.InitializeShareGroupStateRequestData;
import org.apache.kafka.common.message.ReadShareGroupStateRequestData;
import org.apache.kafka.common.message.ReadShareGroupStateSummaryRequestData;
import org.apache.kafka.common.message.WriteShareGroupStateRequestData;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorResult;
import org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.Release;
import org.apache.kafka.coordinator.share.ShareCoordinatorConfig;
import org.apache.kafka.coordinator.share.ShareCoordinatorRecordSerde;
import org.apache.kafka.coordinator.share.ShareCoordinatorShard;
import org.apache.kafka.coordinator.share.metrics.ShareCoordinatorMetrics;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.timeline.SnapshotRegistry;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** A script for Kafka's share coordinator: its real shard and serde, with a list as the log. */
final class ShareState {
    private record Stored(long offset, byte[] key, byte[] value) { }

    private final Clock clock;
    private final ShareCoordinatorConfig config;
    private final ShareCoordinatorRecordSerde serde = new ShareCoordinatorRecordSerde();
    private final List<Stored> log = new ArrayList<>();
    private MetadataImage image = MetadataImage.EMPTY;
    private ShareCoordinatorShard shard;
    private SnapshotRegistry registry;
    private long next = 0;

    private ShareState(JsonNode in) {
        clock = new Clock(Json.need(in, "startMs").asLong());
        Map<String, String> props = new HashMap<>();
        in.path("configs").fields().forEachRemaining(e -> props.put(e.getKey(), e.getValue().asText()));
        config = new ShareCoordinatorConfig(new AbstractConfig(ShareCoordinatorConfig.CONFIG_DEF, props, false));
        open();
    }

    /** Runs the steps of a script; each has one answer. */
    static ObjectNode run(JsonNode in) {
        ShareState state = new ShareState(in);
        ObjectNode out = Json.obj();
        ArrayNode answers = out.putArray("steps");
        for (JsonNode step : Json.need(in, "steps")) {
            ObjectNode answer = answers.addObject();
            try {
                state.step(step, answer);
            } catch (Json.BadInput e) {
                throw e;
            } catch (RuntimeException e) {
                answer.set("error", Main.error(e));
            }
            Long redundant = state.shard.lastRedundantOffset().response().orElse(null);
            answer.put("redundant", redundant);
        }
        return out;
    }

    private void open() {
        ShareCoordinatorShard.Builder builder = new ShareCoordinatorShard.Builder(config);
        registry = new SnapshotRegistry(Release.logContext());
        builder.withSnapshotRegistry(registry);
        builder.withCoordinatorMetrics(new ShareCoordinatorMetrics(new Metrics(clock)));
        builder.withTopicPartition(new TopicPartition("__share_group_state", 0));
        builder.withTime(clock);
        shard = builder.build();
        for (Stored stored : log) {
            shard.replay(stored.offset, -1, (short) -1, serde.deserialize(buffer(stored.key), buffer(stored.value)));
        }
        shard.onLoaded(new KRaftCoordinatorMetadataImage(image));
    }

    private void step(JsonNode in, ObjectNode out) {
        switch (Json.need(in, "op").asText()) {
            case "request" -> request(Json.need(in, "api").asText(), Json.need(in, "body"), out);
            case "advance" -> clock.set(clock.milliseconds() + Json.need(in, "ms").asLong());
            case "snapshotCold" -> write(shard.snapshotColdPartitions().records(), out);
            case "reload" -> open();
            case "prune" -> shard.lastRedundantOffset().response().ifPresent(offset -> log.removeIf(one -> one.offset < offset));
            case "image" -> {
                Images.Step step = Images.step(image, in, clock.milliseconds());
                image = step.image();
                shard.onMetadataUpdate(new KRaftCoordinatorMetadataDelta(step.delta()), new KRaftCoordinatorMetadataImage(image));
                if (step.delta().topicsDelta() != null) {
                    write(shard.maybeCleanupShareState(step.delta().topicsDelta().deletedTopicIds()).records(), out);
                }
            }
            default -> throw new Json.BadInput("no step " + in);
        }
    }

    private void request(String api, JsonNode body, ObjectNode out) {
        CoordinatorResult<? extends ApiMessage, CoordinatorRecord> result = switch (api) {
            case "InitializeShareGroupState" -> shard.initializeState(read(InitializeShareGroupStateRequestData.class, body));
            case "ReadShareGroupState" -> shard.readStateAndMaybeUpdateLeaderEpoch(read(ReadShareGroupStateRequestData.class, body));
            case "WriteShareGroupState" -> shard.writeState(read(WriteShareGroupStateRequestData.class, body));
            case "DeleteShareGroupState" -> shard.deleteState(read(DeleteShareGroupStateRequestData.class, body));
            case "ReadShareGroupStateSummary" -> shard.readStateSummary(read(ReadShareGroupStateSummaryRequestData.class, body));
            default -> throw new Json.BadInput("no API " + api);
        };
        write(result.records(), out);
        ApiMessage response = result.response();
        out.set("response", Json.write(response, response.highestSupportedVersion()));
    }

    private static <T extends ApiMessage> T read(Class<T> type, JsonNode body) {
        try {
            return Json.read(type, body, type.getDeclaredConstructor().newInstance().highestSupportedVersion());
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Replays and then stores records, as the runtime does, which reverts the state if the replay fails. */
    private void write(List<CoordinatorRecord> records, ObjectNode out) {
        ArrayNode written = Json.arr();
        registry.idempotentCreateSnapshot(next);
        for (CoordinatorRecord record : records) {
            Stored stored = new Stored(next + written.size(), serde.serializeKey(record), serde.serializeValue(record));
            try {
                shard.replay(stored.offset, -1, (short) -1, record);
            } catch (RuntimeException e) {
                registry.revertToSnapshot(next);
                log.removeIf(one -> one.offset >= next);
                throw e;
            }
            log.add(stored);
            ObjectNode one = written.addObject();
            one.put("key", Json.hex(stored.key));
            one.put("value", Json.hex(stored.value));
        }
        next += written.size();
        registry.deleteSnapshotsUpTo(next);
        out.set("records", written);
    }

    private static java.nio.ByteBuffer buffer(byte[] bytes) {
        return bytes == null ? null : java.nio.ByteBuffer.wrap(bytes);
    }
}
