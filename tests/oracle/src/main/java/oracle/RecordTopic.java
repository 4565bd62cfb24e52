package oracle;

import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.share.ShareCoordinatorRecordSerde;
import org.apache.kafka.coordinator.transaction.TransactionCoordinatorRecordSerde;

import com.fasterxml.jackson.databind.JsonNode;

import java.util.Arrays;
import java.util.List;
import java.util.function.Function;

/** An internal topic of the coordinators, with Kafka's own serde, record types and JSON converters. */
record RecordTopic(
    String name, CoordinatorRecordSerde serde, List<Type> types, Function<ApiMessage, JsonNode> keyJson, ValueJson valueJson
) {
    /** A record type. The name is that of its schemas without Key or Value. */
    record Type(short id, String name, Class<? extends ApiMessage> key, Class<? extends ApiMessage> value, short lowest, short highest) {
        static Type of(short id, ApiMessage key, ApiMessage value) {
            return new Type(id, nameOf(key), key.getClass(), value.getClass(),
                value.lowestSupportedVersion(), value.highestSupportedVersion());
        }
    }

    interface ValueJson {
        JsonNode write(ApiMessage value, short version);
    }

    static final RecordTopic GROUP = new RecordTopic(
        "__consumer_offsets", new GroupCoordinatorRecordSerde(),
        Arrays.stream(org.apache.kafka.coordinator.group.generated.CoordinatorRecordType.values())
            .map(t -> Type.of(t.id(), t.newRecordKey(), t.newRecordValue())).toList(),
        org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters::writeRecordKeyAsJson,
        org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters::writeRecordValueAsJson);

    static final RecordTopic SHARE = new RecordTopic(
        "__share_group_state", new ShareCoordinatorRecordSerde(),
        Arrays.stream(org.apache.kafka.coordinator.share.generated.CoordinatorRecordType.values())
            .map(t -> Type.of(t.id(), t.newRecordKey(), t.newRecordValue())).toList(),
        org.apache.kafka.coordinator.share.generated.CoordinatorRecordJsonConverters::writeRecordKeyAsJson,
        org.apache.kafka.coordinator.share.generated.CoordinatorRecordJsonConverters::writeRecordValueAsJson);

    static final RecordTopic TRANSACTION = new RecordTopic(
        "__transaction_state", new TransactionCoordinatorRecordSerde(),
        Arrays.stream(org.apache.kafka.coordinator.transaction.generated.CoordinatorRecordType.values())
            .map(t -> Type.of(t.id(), t.newRecordKey(), t.newRecordValue())).toList(),
        org.apache.kafka.coordinator.transaction.generated.CoordinatorRecordJsonConverters::writeRecordKeyAsJson,
        org.apache.kafka.coordinator.transaction.generated.CoordinatorRecordJsonConverters::writeRecordValueAsJson);

    private static final List<RecordTopic> ALL = List.of(GROUP, SHARE, TRANSACTION);

    /** Returns the op's "topic", by default that of the group coordinator. */
    static RecordTopic of(JsonNode in) {
        String name = Json.text(in, "topic", GROUP.name);
        return ALL.stream().filter(t -> t.name.equals(name)).findFirst()
            .orElseThrow(() -> new Json.BadInput("no coordinator topic " + name));
    }

    /** Finds a record type by id or name. */
    Type type(JsonNode wanted) {
        return types.stream()
            .filter(t -> wanted.isInt() ? t.id == wanted.asInt() : t.name.equals(wanted.asText())).findFirst()
            .orElseThrow(() -> new Json.BadInput("no record type " + wanted.asText() + " in " + name));
    }

    static String nameOf(ApiMessage key) {
        String n = key.getClass().getSimpleName();
        return n.substring(0, n.length() - "Key".length());
    }
}
