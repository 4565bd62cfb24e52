package oracle;

import org.apache.kafka.coordinator.group.streams.assignor.AssignmentConfigsImpl;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberMetadataAndStateImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;

import com.fasterxml.jackson.databind.node.ObjectNode;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * Measures Kafka's task assignor of streams groups, as Bench does other assignors. Each argument is a group:
 * members/members per process/subtopologies/partitions of each/standby replicas/full|incremental.
 */
public final class StreamsBench {
    private StreamsBench() { }

    public static void main(String[] args) throws Exception {
        System.setOut(System.err);
        Bench.prewarm(Bench.PREWARM_MS, op("50/2/5/40/1/full"), op("50/2/5/40/1/incremental"));
        for (String group : args) {
            Bench.measure(Json.obj().put("bench", "streams-sticky").put("group", group), 1, 250, op(group));
        }
        System.exit(0);
    }

    private static Bench.Op op(String group) {
        String[] parts = group.split("/");
        boolean incremental = parts[5].equals("incremental");
        int count = Integer.parseInt(parts[0]) - (incremental ? 1 : 0);
        int perProcess = Integer.parseInt(parts[1]);
        var configs = new AssignmentConfigsImpl(Integer.parseInt(parts[4]), List.of());
        ObjectNode topology = Json.obj();
        var subtopologies = topology.putArray("subtopologies");
        for (int i = 0; i < Integer.parseInt(parts[2]); i++) {
            subtopologies.addObject().put("id", String.valueOf(i)).put("partitions", Integer.parseInt(parts[3])).put("stateful", true);
        }
        var describer = Streams.describer(topology);
        var assignor = new StickyTaskAssignor();
        Map<String, MemberMetadataAndStateImpl> members = new HashMap<>();
        for (int i = 0; i < count; i++) members.put("member" + i, member("process" + i / perProcess, Map.of(), Map.of()));
        if (incremental) {
            var first = assignor.assign(new GroupSpecImpl(members, configs), describer).members();
            members.replaceAll((id, one) -> member(one.processId(), first.get(id).activeTasks(), first.get(id).standbyTasks()));
            members.put("newMember", member("newProcess", Map.of(), Map.of()));
        }
        var spec = new GroupSpecImpl(members, configs);
        return () -> assignor.assign(spec, describer);
    }

    private static MemberMetadataAndStateImpl member(
        String process, Map<String, Set<Integer>> active, Map<String, Set<Integer>> standby
    ) {
        return new MemberMetadataAndStateImpl(
            Optional.empty(), Optional.empty(), process, Map.of(), active, standby, Map.of(), Map.of(), Map.of());
    }
}
