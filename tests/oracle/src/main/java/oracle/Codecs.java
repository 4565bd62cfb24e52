package oracle;

import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.StickyUserData;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.message.ConsumerProtocolAssignment;
import org.apache.kafka.common.message.ConsumerProtocolSubscription;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.Deserializer;
import org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataImage;
import org.apache.kafka.server.common.ApiMessageAndVersion;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;

/** Codecs and hashes without a shard. */
final class Codecs {
    private Codecs() { }

    static ObjectNode encode(JsonNode in) {
        RecordTopic topic = RecordTopic.of(in);
        RecordTopic.Type type = topic.type(Json.need(in, "type"));
        ApiMessage key = Json.read(type.key(), in.get("key"), (short) 0);
        JsonNode value = in.get("value");
        CoordinatorRecord record;
        if (value == null || value.isNull()) {
            record = CoordinatorRecord.tombstone(key);
        } else {
            short version = in.has("version") ? (short) in.get("version").asInt() : type.highest();
            known(version, type.lowest(), type.highest());
            ApiMessage v = Json.read(type.value(), value, version);
            for (JsonNode t : in.path("unknownTags")) {
                v.unknownTaggedFields().add(new RawTaggedField(Json.need(t, "tag").asInt(), Json.unhex(Json.need(t, "hex"))));
            }
            record = CoordinatorRecord.record(key, new ApiMessageAndVersion(v, version));
        }
        ObjectNode out = Json.obj();
        out.put("key", Json.hex(topic.serde().serializeKey(record)));
        out.put("value", Json.hex(topic.serde().serializeValue(record)));
        return out;
    }

    /** Decodes a record, and adds the bytes that Kafka would encode for it. */
    static ObjectNode decodeOp(JsonNode in) {
        return decode(RecordTopic.of(in), Json.unhex(in.get("key")), Json.unhex(in.get("value")), true);
    }

    static ObjectNode decode(RecordTopic topic, byte[] key, byte[] value, boolean rewrite) {
        ObjectNode out = Json.obj();
        CoordinatorRecord record;
        try {
            record = topic.serde().deserialize(buffer(key), buffer(value));
        } catch (Deserializer.UnknownRecordTypeException e) {
            out.set("error", Main.error(e));
            out.put("typeId", e.unknownType());
            return out;
        } catch (RuntimeException e) {
            out.set("error", Main.error(e));
            return out;
        }
        out.put("type", RecordTopic.nameOf(record.key()));
        out.put("typeId", record.key().apiKey());
        out.set("k", topic.keyJson().apply(record.key()));
        if (record.value() == null) {
            out.putNull("v");
        } else {
            out.put("version", record.value().version());
            unknown(record.value().message(), out);
            out.set("v", topic.valueJson().write(record.value().message(), record.value().version()));
        }
        if (rewrite) {
            try {
                out.put("rewrittenKey", Json.hex(topic.serde().serializeKey(record)));
                out.put("rewritten", Json.hex(topic.serde().serializeValue(record)));
            } catch (RuntimeException e) {
                // Kafka decodes some bytes that it cannot encode, such as unknown tags out of order.
                out.set("rewriteError", Main.error(e));
            }
        }
        return out;
    }

    /** Checks the version, as the generated classes also encode unknown ones. */
    static void known(short version, short lowest, short highest) {
        if (version < lowest || version > highest) throw new Json.BadInput("no version " + version + ", only " + lowest + " to " + highest);
    }

    private static ByteBuffer buffer(byte[] bytes) {
        return bytes == null ? null : ByteBuffer.wrap(bytes);
    }

    /** Adds the message's unknown tagged fields, which the JSON form cannot represent. */
    static void unknown(ApiMessage message, ObjectNode out) {
        if (message.unknownTaggedFields().isEmpty()) return;
        var list = out.putArray("unknownTags");
        message.unknownTaggedFields().forEach(f -> list.addObject().put("tag", f.tag()).put("hex", Json.hex(f.data())));
    }

    /** ConsumerProtocol messages begin with their version (int16). Clients decode newer ones as the highest known version. */
    static ObjectNode protocol(JsonNode in, boolean subscription) {
        ObjectNode out = Json.obj();
        short highest = subscription
            ? ConsumerProtocolSubscription.HIGHEST_SUPPORTED_VERSION : ConsumerProtocolAssignment.HIGHEST_SUPPORTED_VERSION;
        if (in.has("hex")) {
            ByteBuffer buf = ByteBuffer.wrap(Json.unhex(in.get("hex")));
            try {
                ApiMessage m = subscription
                    ? ConsumerProtocol.deserializeConsumerProtocolSubscription(buf)
                    : ConsumerProtocol.deserializeConsumerProtocolAssignment(buf);
                short version = buf.getShort(0);
                out.put("version", version);
                out.put("remaining", buf.remaining());
                out.set("value", Json.write(m, (short) Math.min(version, highest)));
            } catch (RuntimeException e) {
                out.set("error", Main.error(e));
            }
            return out;
        }
        short version = in.has("version") ? (short) in.get("version").asInt() : highest;
        known(version, (short) 0, highest);
        ApiMessage m = subscription
            ? Json.read(ConsumerProtocolSubscription.class, in.get("value"), version)
            : Json.read(ConsumerProtocolAssignment.class, in.get("value"), version);
        byte[] bytes = Utils.toArray(MessageUtil.toVersionPrefixedByteBuffer(version, m));
        out.put("hex", Json.hex(bytes));
        out.put("base64", java.util.Base64.getEncoder().encodeToString(bytes));
        return out;
    }

    /** Encodes user data like the sticky assignors after an assignment, or decodes it ("hex") like them. */
    static ObjectNode stickyUserData(JsonNode in) {
        boolean cooperative = "cooperative-sticky".equals(Json.text(in, "assignor", "sticky"));
        if (in.has("hex")) return StickyUserData.read(cooperative, Json.unhex(in.get("hex")));
        ConsumerPartitionAssignor a = cooperative ? new CooperativeStickyAssignor() : new StickyAssignor();
        JsonNode partitions = in.get("partitions");
        if (partitions != null && !partitions.isNull()) {
            a.onAssignment(new ConsumerPartitionAssignor.Assignment(Assignors.topicPartitions(partitions)),
                new ConsumerGroupMetadata("g", in.path("generation").asInt(-1), "", Optional.empty()));
        }
        ByteBuffer data = a.subscriptionUserData(new HashSet<>());
        ObjectNode out = Json.obj();
        out.put("hex", data == null ? null : Json.hex(Utils.toArray(data)));
        return out;
    }

    /** Hashes {"topic":"t","image":{...}} or {"name","topicId","partitionRacks":[[rack,...],...]} (racks may repeat; null = no rack). */
    static ObjectNode topicHash(JsonNode in, org.apache.kafka.image.MetadataImage current) {
        org.apache.kafka.image.MetadataImage image;
        String topic;
        if (in.has("partitionRacks")) {
            topic = Json.need(in, "name").asText();
            Map<String, Integer> brokers = new HashMap<>();
            Map<String, Integer> seen = new HashMap<>();
            ObjectNode wanted = Json.obj();
            var bs = wanted.putArray("brokers");
            var ps = Json.arr();
            for (JsonNode racks : in.get("partitionRacks")) {
                var replicas = ps.addArray();
                seen.clear();
                for (JsonNode r : racks) {
                    String rack = r.isNull() ? null : r.asText();
                    // The n-th broker in this rack. The name of a rack can be "null".
                    int n = seen.merge(rack, 1, Integer::sum);
                    String name = rack == null ? "" + n : n + ":" + rack;
                    Integer id = brokers.get(name);
                    if (id == null) {
                        id = brokers.size();
                        brokers.put(name, id);
                        bs.addObject().put("id", id).put("rack", rack);
                    }
                    replicas.add(id);
                }
            }
            var t = wanted.putArray("topics").addObject();
            t.put("name", topic).put("id", Json.need(in, "topicId").asText());
            t.set("partitions", ps);
            image = Images.of(wanted);
        } else {
            topic = Json.need(in, "topic").asText();
            image = in.has("image") ? Images.of(in.get("image")) : current;
        }
        return hash(org.apache.kafka.coordinator.group.Utils.computeTopicHash(topic, new KRaftCoordinatorMetadataImage(image)));
    }

    static ObjectNode groupHash(JsonNode in) {
        Map<String, Long> hashes = new HashMap<>();
        for (var it = Json.need(in, "topics").fields(); it.hasNext(); ) {
            var e = it.next();
            hashes.put(e.getKey(), e.getValue().isTextual() ? Long.parseLong(e.getValue().asText()) : e.getValue().asLong());
        }
        return hash(org.apache.kafka.coordinator.group.Utils.computeGroupHash(hashes));
    }

    private static ObjectNode hash(long h) {
        return Json.obj().put("hash", h).put("hex", String.format("%016x", h));
    }
}
