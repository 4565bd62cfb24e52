package oracle;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.Release;
import org.apache.kafka.server.common.TopicIdPartition;
import org.apache.kafka.timeline.SnapshotRegistry;
import org.apache.kafka.timeline.TimelineHashMap;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;

/** The iteration order of Java's own hash collections after some steps. */
final class JavaOrder {
    private JavaOrder() { }

    static ObjectNode javaOrder(JsonNode in) {
        String type = Json.need(in, "keys").asText();
        // Keys are returned as the JSON that was given.
        Map<Object, JsonNode> written = new LinkedHashMap<>();
        JsonNode of = in.path("of");
        Collection<Object> given = new java.util.ArrayList<>();
        of.forEach(k -> given.add(key(type, k, written)));
        JsonNode steps = in.path("steps");
        ObjectNode out = Json.obj();
        out.put("java", Runtime.version().feature());
        ArrayNode order = out.putArray("order");
        Consumer<Object> list = k -> order.add(written.get(k));
        int capacity = in.path("capacity").asInt(-1);
        switch (Json.need(in, "container").asText()) {
            case "HashSet" -> {
                Set<Object> set = in.has("of") ? new HashSet<>(given) : capacity < 0 ? new HashSet<>() : new HashSet<>(capacity);
                for (JsonNode s : steps) {
                    if (s.has("put")) set.add(key(type, s.get("put"), written));
                    else if (s.has("remove")) set.remove(key(type, s.get("remove"), written));
                    else if (s.has("iteratorRemove")) removeWalking(set, s.get("iteratorRemove"), type, written);
                    else if (s.has("copy")) set = new HashSet<>(set);
                    else throw new Json.BadInput("no step " + s);
                }
                set.forEach(list);
            }
            case "HashMap" -> {
                Map<Object, Object> map = capacity < 0 ? new HashMap<>() : new HashMap<>(capacity);
                given.forEach(k -> map.put(k, 1));
                steps(in.has("copy") ? new HashMap<>(map) : map, steps, type, written).keySet().forEach(list);
            }
            case "TimelineHashMap" -> {
                Map<Object, Object> map = new TimelineHashMap<>(new SnapshotRegistry(Release.logContext()), Math.max(capacity, 0));
                given.forEach(k -> map.put(k, 1));
                steps(map, steps, type, written).keySet().forEach(list);
            }
            default -> throw new Json.BadInput("no container " + in.get("container"));
        }
        return out;
    }

    private static Map<Object, Object> steps(Map<Object, Object> map, JsonNode steps, String type, Map<Object, JsonNode> written) {
        for (JsonNode s : steps) {
            if (s.has("put")) map.put(key(type, s.get("put"), written), 1);
            else if (s.has("putIfAbsent")) map.putIfAbsent(key(type, s.get("putIfAbsent"), written), 1);
            else if (s.has("computeIfAbsent")) map.computeIfAbsent(key(type, s.get("computeIfAbsent"), written), k -> 1);
            else if (s.has("compute")) map.compute(key(type, s.get("compute"), written), (k, v) -> 1);
            else if (s.has("merge")) map.merge(key(type, s.get("merge"), written), 1, (a, b) -> 1);
            else if (s.has("remove")) map.remove(key(type, s.get("remove"), written));
            else if (s.has("iteratorRemove")) removeWalking(map.keySet(), s.get("iteratorRemove"), type, written);
            else if (s.has("copy")) map = new HashMap<>(map);
            else throw new Json.BadInput("no step " + s);
        }
        return map;
    }

    private static void removeWalking(Set<Object> keys, JsonNode gone, String type, Map<Object, JsonNode> written) {
        Set<Object> set = new HashSet<>();
        gone.forEach(k -> set.add(key(type, k, written)));
        keys.removeIf(set::contains);
    }

    private static Object key(String type, JsonNode node, Map<Object, JsonNode> written) {
        Object key = switch (type) {
            case "string" -> node.asText();
            case "int" -> node.asInt();
            case "uuid" -> Uuid.fromString(node.asText());
            case "topicPartition" -> new TopicPartition(node.get(0).asText(), node.get(1).asInt());
            case "topicIdPartition" -> new TopicIdPartition(Uuid.fromString(node.get(0).asText()), node.get(1).asInt());
            default -> throw new Json.BadInput("no type of keys " + type);
        };
        written.putIfAbsent(key, node);
        return key;
    }
}
