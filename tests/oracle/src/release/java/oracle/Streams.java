package oracle;

import org.apache.kafka.common.message.CreateTopicsRequestDataJsonConverter;
import org.apache.kafka.common.message.StreamsGroupDescribeResponseDataJsonConverter;
import org.apache.kafka.common.message.StreamsGroupHeartbeatRequestData;
import org.apache.kafka.common.message.StreamsGroupHeartbeatResponseData;
import org.apache.kafka.common.message.StreamsGroupHeartbeatResponseDataJsonConverter;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.Release;
import org.apache.kafka.coordinator.group.api.streams.assignor.TopologyDescriber;
import org.apache.kafka.coordinator.group.generated.StreamsGroupTopologyValueJsonConverter;
import org.apache.kafka.coordinator.group.streams.StreamsCoordinatorRecordHelpers;
import org.apache.kafka.coordinator.group.streams.StreamsGroup;
import org.apache.kafka.coordinator.group.streams.StreamsGroupMember;
import org.apache.kafka.coordinator.group.streams.StreamsTopology;
import org.apache.kafka.coordinator.group.streams.TasksTupleWithEpochs;
import org.apache.kafka.coordinator.group.streams.TopologyMetadata;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentConfigsImpl;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberMetadataAndStateImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredTopology;
import org.apache.kafka.coordinator.group.streams.topics.EndpointToPartitionsManager;
import org.apache.kafka.coordinator.group.streams.topics.InternalTopicManager;
import org.apache.kafka.timeline.SnapshotRegistry;
import org.apache.kafka.timeline.TimelineHashMap;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.slf4j.helpers.NOPLogger;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;

/** The parts of streams groups (KIP-1071) without state: the task assignor, and the topics of a topology. */
final class Streams {
    private Streams() { }

    // ---- the task assignor

    static ObjectNode assign(JsonNode in) {
        // The broker copies its TimelineHashMap of members to the HashMap of the assignor.
        Map<String, MemberMetadataAndStateImpl> listed =
            new TimelineHashMap<>(new SnapshotRegistry(Release.logContext()), 0);
        Json.need(in, "members").fields().forEachRemaining(e -> listed.put(e.getKey(), member(e.getValue())));
        Map<String, MemberMetadataAndStateImpl> members = new HashMap<>();
        listed.forEach(members::put);
        var configs = new AssignmentConfigsImpl(in.path("numStandbyReplicas").asInt(0), List.of());
        var assignment = new StickyTaskAssignor().assign(new GroupSpecImpl(members, configs), describer(in)).members();
        ObjectNode out = Json.obj();
        ObjectNode written = out.putObject("assignment");
        members.keySet().forEach(id -> {
            ObjectNode one = written.putObject(id);
            one.set("active", tasks(assignment.get(id).activeTasks()));
            one.set("standby", tasks(assignment.get(id).standbyTasks()));
        });
        return out;
    }

    static MemberMetadataAndStateImpl member(JsonNode m) {
        return new MemberMetadataAndStateImpl(
            Optional.ofNullable(Json.text(m, "instanceId", null)),
            Optional.ofNullable(Json.text(m, "rackId", null)),
            Json.need(m, "processId").asText(),
            Map.of(),
            tasks(m.get("activeTasks")), tasks(m.get("standbyTasks")), tasks(m.get("warmupTasks")),
            offsets(m.get("taskOffsets")), Map.of());
    }

    static TopologyDescriber describer(JsonNode in) {
        Map<String, JsonNode> byId = new HashMap<>();
        Json.need(in, "subtopologies").forEach(s -> byId.put(Json.need(s, "id").asText(), s));
        List<String> ids = new ArrayList<>(new TreeSet<>(byId.keySet()));
        return new TopologyDescriber() {
            @Override
            public List<String> subtopologies() {
                return ids;
            }

            @Override
            public int maxNumInputPartitions(String id) {
                return byId.get(id).get("partitions").asInt();
            }

            @Override
            public boolean isStateful(String id) {
                return byId.get(id).path("stateful").asBoolean();
            }
        };
    }

    private static Map<String, Set<Integer>> tasks(JsonNode node) {
        Map<String, Set<Integer>> out = new HashMap<>();
        if (node == null) return out;
        node.fields().forEachRemaining(e -> {
            Set<Integer> partitions = new HashSet<>();
            e.getValue().forEach(p -> partitions.add(p.asInt()));
            out.put(e.getKey(), partitions);
        });
        return out;
    }

    private static Map<String, Map<Integer, Long>> offsets(JsonNode node) {
        Map<String, Map<Integer, Long>> out = new HashMap<>();
        if (node == null) return out;
        node.fields().forEachRemaining(e -> {
            Map<Integer, Long> partitions = new HashMap<>();
            e.getValue().fields().forEachRemaining(p -> partitions.put(Integer.parseInt(p.getKey()), p.getValue().asLong()));
            out.put(e.getKey(), partitions);
        });
        return out;
    }

    /** Writes tasks in the order of the map. */
    private static ObjectNode tasks(Map<String, Set<Integer>> tasks) {
        ObjectNode out = Json.obj();
        tasks.forEach((id, assigned) -> {
            ArrayNode partitions = out.putArray(id);
            assigned.stream().sorted().forEach(partitions::add);
        });
        return out;
    }

    // ---- the topics of a topology

    /** Configures the topics of a heartbeat's topology, and describes it; with tasks, also the partitions of a member's endpoint. */
    static ObjectNode topology(JsonNode in) {
        var image = new KRaftCoordinatorMetadataImage(Images.of(in));
        var sent = Json.read(StreamsGroupHeartbeatRequestData.class, Json.obj().set("topology", Json.need(in, "topology")), (short) 1).topology();
        ObjectNode out = Json.obj();
        try {
            configure(in, sent, image, out);
        } catch (RuntimeException e) {
            out.set("thrown", Main.error(e));
        }
        return out;
    }

    private static void configure(JsonNode in, StreamsGroupHeartbeatRequestData.Topology sent, CoordinatorMetadataImage image, ObjectNode out) {
        var topology = StreamsTopology.fromHeartbeatRequest(sent);
        out.set("record", StreamsGroupTopologyValueJsonConverter.write(
            StreamsCoordinatorRecordHelpers.convertToStreamsGroupTopologyRecord(sent), (short) 0));
        ArrayNode required = out.putArray("requiredTopics");
        new TreeSet<>(topology.requiredTopics()).forEach(required::add);
        out.set("describedStored", StreamsGroupDescribeResponseDataJsonConverter.TopologyJsonConverter.write(
            topology.asStreamsGroupDescribeTopology(), (short) 0, false));
        ConfiguredTopology configured = InternalTopicManager.configureTopics(
            NOPLogger.NOP_LOGGER, "g", "m", 7, topology, image, new Clock(0));
        out.put("ready", configured.isReady());
        configured.topicConfigurationException().ifPresent(e ->
            out.putObject("status").put("code", e.status().code()).put("detail", e.getMessage()));
        ArrayNode creatable = out.putArray("internalTopicsToBeCreated");
        configured.internalTopicsToBeCreated().values().forEach(topic ->
            creatable.add(CreateTopicsRequestDataJsonConverter.CreatableTopicJsonConverter.write(topic, (short) 7, true)));
        out.set("described", StreamsGroupDescribeResponseDataJsonConverter.TopologyJsonConverter.write(
            configured.asStreamsGroupDescribeTopology(), (short) 0, false));
        if (configured.subtopologies().isEmpty()) return;
        ArrayNode describer = out.putArray("describer");
        var metadata = new TopologyMetadata(image, configured.subtopologies().get());
        metadata.subtopologies().forEach(id -> describer.addObject()
            .put("id", id).put("partitions", metadata.maxNumInputPartitions(id)).put("stateful", metadata.isStateful(id)));
        if (in.has("assignedTasks")) out.set("endpoint", endpoint(in.get("assignedTasks"), configured, image));
    }

    private static JsonNode endpoint(JsonNode assigned, ConfiguredTopology configured, CoordinatorMetadataImage image) {
        Map<String, Map<Integer, Integer>> active = new HashMap<>();
        tasks(assigned.get("active")).forEach((id, partitions) -> {
            Map<Integer, Integer> epochs = active.computeIfAbsent(id, k -> new HashMap<>());
            partitions.forEach(p -> epochs.put(p, 1));
        });
        var member = StreamsGroupMember.Builder.withDefaults("m")
            .setAssignedTasks(new TasksTupleWithEpochs(active, tasks(assigned.get("standby")), tasks(assigned.get("warmup"))))
            .build();
        var group = new StreamsGroup(Release.logContext(), new SnapshotRegistry(Release.logContext()), "g");
        group.setConfiguredTopology(configured);
        try {
            return StreamsGroupHeartbeatResponseDataJsonConverter.EndpointToPartitionsJsonConverter.write(
                EndpointToPartitionsManager.endpointToPartitions(
                    member, new StreamsGroupHeartbeatResponseData.Endpoint().setHost("h").setPort(1), group, image), (short) 1, true);
        } catch (RuntimeException e) {
            return Json.obj().set("thrown", Main.error(e));
        }
    }
}
