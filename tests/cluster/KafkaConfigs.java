import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import kafka.server.KafkaConfig;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * What Kafka's own classes say of configs: a line of JSON in, one with `error` out: why they are refused, or null.
 * In: `broker`, the configs that a broker starts with; besides them `topic` or `group`, the configs that one of these is given then.
 */
public class KafkaConfigs {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) {
            JsonNode asked = JSON.readTree(line);
            ObjectNode answer = JSON.createObjectNode().putNull("error");
            try {
                KafkaConfig broker = new KafkaConfig(configs(asked.get("broker")), false);
                if (asked.has("topic"))
                    LogConfig.validate(Map.of(), configs(asked.get("topic")), broker.extractLogConfigMap(), false);
                if (asked.has("group"))
                    GroupConfig.validate(configs(asked.get("group")), broker.groupCoordinatorConfig(), broker.shareGroupConfig());
            } catch (RuntimeException e) {
                answer.put("error", e.getMessage() == null ? e.toString() : e.getMessage());
            }
            System.out.println(JSON.writeValueAsString(answer));
        }
    }

    private static Map<String, String> configs(JsonNode given) {
        Map<String, String> result = new HashMap<>();
        given.fieldNames().forEachRemaining(name -> result.put(name, given.get(name).asText()));
        return result;
    }
}
