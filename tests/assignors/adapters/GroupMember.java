import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A member of a group, by Kafka's own consumer: bootstrap group topics assignor|- rack|- instance|-
 *
 * With an assignor it is a member of a classic group, and without one it uses the consumer protocol and commits its offsets. Prints a
 * line of JSON for each rebalance and each poll with records, and, as the leader, one with the subscriptions that it was shown. Ends
 * when stdin does.
 */
public final class GroupMember {
    public static void main(String[] a) {
        Properties p = new Properties();
        p.put("bootstrap.servers", a[0]);
        p.put("group.id", a[1]);
        p.put("auto.offset.reset", "earliest");
        p.put("metadata.max.age.ms", "1000");
        p.put("key.deserializer", ByteArrayDeserializer.class.getName());
        p.put("value.deserializer", ByteArrayDeserializer.class.getName());
        if (a[3].equals("-")) {
            p.put("group.protocol", "consumer");
            p.put("auto.commit.interval.ms", "500");
        } else {
            p.put("group.protocol", "classic");
            p.put("enable.auto.commit", "false");
            p.put("heartbeat.interval.ms", "200");
            p.put("session.timeout.ms", "6000");
            p.put("partition.assignment.strategy", "GroupMember$" + a[3]);
        }
        if (!a[4].equals("-")) p.put("client.rack", a[4]);
        if (!a[5].equals("-")) p.put("group.instance.id", a[5]);

        AtomicBoolean ended = new AtomicBoolean();
        Thread stdin = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (java.io.IOException ignored) { }
            ended.set(true);
        });
        stdin.setDaemon(true);
        stdin.start();

        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(p)) {
            consumer.subscribe(List.of(a[2].split(",")), new ConsumerRebalanceListener() {
                public void onPartitionsRevoked(Collection<TopicPartition> those) {
                    Set<TopicPartition> left = new HashSet<>(consumer.assignment());
                    left.removeAll(those);
                    tell("revoked", those, left);
                }

                public void onPartitionsLost(Collection<TopicPartition> those) {
                    tell("lost", those, Set.of());
                }

                public void onPartitionsAssigned(Collection<TopicPartition> those) {
                    tell("assigned", those, consumer.assignment());
                }
            });
            while (!ended.get()) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
                if (a[3].equals("-") && !records.isEmpty()) {
                    line("{\"event\":\"records\",\"of\":" + records.partitions().stream()
                        .map(at -> "\"" + at + "\":" + records.records(at).stream().map(ConsumerRecord::offset).toList())
                        .collect(Collectors.joining(",", "{", "}")) + "}");
                }
            }
        }
    }

    static void tell(String event, Collection<TopicPartition> those, Collection<TopicPartition> all) {
        line("{\"event\":\"" + event + "\",\"partitions\":" + list(those) + ",\"all\":" + list(all) + "}");
    }

    static synchronized void line(String text) {
        System.out.println(text);
        System.out.flush();
    }

    static String list(Collection<?> values) {
        return values.stream().map(v -> "\"" + v + "\"").sorted().collect(Collectors.joining(",", "[", "]"));
    }

    /** What the leader sees of each member. */
    static void show(ConsumerPartitionAssignor.GroupSubscription group) {
        StringBuilder out = new StringBuilder("{\"event\":\"leads\",\"members\":{");
        String separator = "";
        for (Map.Entry<String, ConsumerPartitionAssignor.Subscription> e : group.groupSubscription().entrySet()) {
            ConsumerPartitionAssignor.Subscription s = e.getValue();
            String data = s.userData() == null ? "null" : "\"" + HexFormat.of().formatHex(bytes(s.userData().duplicate())) + "\"";
            out.append(separator).append("\"").append(e.getKey()).append("\":{\"topics\":").append(list(s.topics()))
                .append(",\"owned\":").append(list(s.ownedPartitions()))
                .append(",\"generation\":").append(s.generationId().orElse(-1))
                .append(",\"rack\":").append(s.rackId().map(r -> "\"" + r + "\"").orElse("null"))
                .append(",\"instance\":").append(s.groupInstanceId().map(r -> "\"" + r + "\"").orElse("null"))
                .append(",\"userData\":").append(data).append("}");
            separator = ",";
        }
        line(out.append("}}").toString());
    }

    static byte[] bytes(java.nio.ByteBuffer buffer) {
        byte[] found = new byte[buffer.remaining()];
        buffer.get(found);
        return found;
    }

    public static final class Range extends RangeAssignor {
        @Override
        public GroupAssignment assign(Cluster metadata, GroupSubscription group) {
            show(group);
            return super.assign(metadata, group);
        }
    }

    public static final class Sticky extends StickyAssignor {
        @Override
        public GroupAssignment assign(Cluster metadata, GroupSubscription group) {
            show(group);
            return super.assign(metadata, group);
        }
    }

    public static final class CooperativeSticky extends CooperativeStickyAssignor {
        @Override
        public GroupAssignment assign(Cluster metadata, GroupSubscription group) {
            show(group);
            return super.assign(metadata, group);
        }
    }
}
