package oracle;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignorException;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.modern.MemberAssignmentImpl;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** The assignor of tests/coordinator/plug_in.py. */
public final class PlugIn implements ConsumerGroupPartitionAssignor {
    @Override
    public String name() {
        return "plug-in";
    }

    @Override
    public GroupAssignment assign(GroupSpec group, SubscribedTopicDescriber describer) {
        Set<String> racks = new HashSet<>();
        Set<Uuid> subscribed = new HashSet<>();
        for (String member : group.memberIds()) {
            group.memberSubscription(member).rackId().ifPresent(racks::add);
            subscribed.addAll(group.memberSubscription(member).subscribedTopicIds());
        }
        if (racks.contains("refuses")) throw new PartitionAssignorException("refuses");
        if (racks.contains("raises")) throw new IllegalStateException("raises");
        if (racks.contains("returns null")) return null;
        Comparator<Uuid> order = Comparator.comparing(Uuid::toString);
        List<Uuid> topics = new ArrayList<>(subscribed);
        topics.sort(group.subscriptionType() == SubscriptionType.HETEROGENEOUS ? order.reversed() : order);
        Map<String, Map<Uuid, Set<Integer>>> target = new HashMap<>();
        Map<String, Integer> counts = new HashMap<>();
        for (String member : group.memberIds()) target.put(member, new LinkedHashMap<>());
        for (Uuid topic : topics) {
            for (int number = 0; number < describer.numPartitions(topic); number++) {
                int partition = number;
                Set<String> local = describer.racksForPartition(topic, partition);
                List<String> ranked = new ArrayList<>(group.memberIds());
                ranked.removeIf(member -> !group.memberSubscription(member).subscribedTopicIds().contains(topic));
                ranked.sort(Comparator
                    .comparing((String member) -> group.memberSubscription(member).rackId().filter(local::contains).isEmpty())
                    .thenComparing(member -> !group.memberAssignment(member).partitions()
                        .getOrDefault(topic, Set.of()).contains(partition))
                    .thenComparing(member -> counts.getOrDefault(member, 0))
                    .thenComparing(member -> group.memberSubscription(member).instanceId().isEmpty())
                    .thenComparing(Comparator.naturalOrder()));
                // Partitions without an owner go to the second member.
                String chosen = ranked.get(ranked.size() > 1 && !group.isPartitionAssigned(topic, partition) ? 1 : 0);
                counts.merge(chosen, 1, Integer::sum);
                target.get(chosen).computeIfAbsent(topic, none -> new LinkedHashSet<>()).add(partition);
            }
        }
        Map<String, MemberAssignment> result = new HashMap<>();
        target.forEach((member, partitions) -> result.put(member, new MemberAssignmentImpl(partitions)));
        return new GroupAssignment(result);
    }
}
