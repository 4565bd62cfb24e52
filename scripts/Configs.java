// Prints the configs of brokers, topics, groups and client metrics that Kafka's own classes define, a line each: resource, name, type, update mode, default, validator, synonyms, whether internal.
// Run by scripts/make_configs.py on the jars of one release after the other; the classes have moved between releases.
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.kafka.common.config.ConfigDef;

public class Configs {
    private static final String[] DYNAMIC = {"org.apache.kafka.server.config.DynamicBrokerConfig", "kafka.server.DynamicBrokerConfig", "kafka.server.DynamicBrokerConfig$"};
    private static final String GROUP = "org.apache.kafka.coordinator.group.GroupConfig";

    public static void main(String[] arguments) throws Exception {
        printBrokers();
        print("topic", definitions("org.apache.kafka.storage.internals.log.LogConfig", "configDefCopy"), name -> "", topicSynonyms());
        if (exists(GROUP)) // since 4.0
            print("group", definitions(GROUP, "configDef", "CONFIG_DEF"), name -> "", groupSynonyms());
        print("client-metrics", definitions("org.apache.kafka.server.metrics.ClientMetricsConfigs", "configDef"), name -> "", Map.of());
    }

    private static void printBrokers() throws Exception {
        Set<String> dynamic = names("AllDynamicConfigs", "allDynamicConfigs", "ALL_DYNAMIC_CONFIGS");
        Set<String> ofOne = names("PerBrokerConfigs", "perBrokerConfigs", "PER_BROKER_CONFIGS");
        Set<String> ofListeners = names("DynamicSecurityConfigs", "dynamicSecurityConfigs", "DYNAMIC_SECURITY_CONFIGS");
        ConfigDef definitions = definitions("kafka.server.KafkaConfig", "configDef");
        print("broker", definitions, name -> !dynamic.contains(name) ? "read-only" : ofListeners.contains(name) ? "listener" : ofOne.contains(name) ? "per-broker" : "cluster-wide", brokerSynonyms());
        dynamic.removeAll(definitions.names());
        for (String name : dynamic) // the throttles of replication (KIP-73), which no ConfigDef of brokers has
            System.out.println(String.join("\t", "broker", name, "LONG", "cluster-wide", "\\N", "[0,...]", "", "internal"));
    }

    private static void print(String resource, ConfigDef definitions, Function<String, String> mode, Map<String, String> synonyms) throws Exception {
        for (ConfigDef.ConfigKey key : new TreeMap<>(definitions.configKeys()).values()) {
            String value = !key.hasDefault() || key.defaultValue == null ? "\\N" : ConfigDef.convertToString(key.defaultValue, key.type);
            String internal = key.internalConfig ? "internal" : "";
            System.out.println(String.join("\t", resource, key.name, key.type.name(), mode.apply(key.name), value, check(key.validator), synonyms.getOrDefault(key.name, ""), internal));
        }
    }

    /** Lists have since 4.2 (KIP-1161) a rule whether they may be empty, which their text does not have: + and *. Validators without a text have the name of their class. */
    private static String check(ConfigDef.Validator validator) throws Exception {
        if (validator instanceof ConfigDef.ValidList)
            for (Field field : ConfigDef.ValidList.class.getDeclaredFields()) {
                field.setAccessible(true);
                if (field.getName().equals("isEmptyAllowed"))
                    return (field.getBoolean(validator) ? "*" : "+") + (validator.toString().isEmpty() ? "[]" : validator);
            }
        return String.valueOf(validator).replaceAll("@[0-9a-f]+$", "");
    }

    /** The configs of brokers behind a topic's, the first that counts first: `log.roll.ms log.roll.hours*3600000`. */
    private static Map<String, String> topicSynonyms() throws Exception {
        Map<?, ?> all = (Map<?, ?>) Class.forName("org.apache.kafka.server.config.ServerTopicConfigSynonyms").getField("ALL_TOPIC_CONFIG_SYNONYMS").get(null);
        Map<String, String> found = new TreeMap<>();
        for (Map.Entry<?, ?> entry : all.entrySet()) {
            StringBuilder texts = new StringBuilder();
            for (Object synonym : (List<?>) entry.getValue()) {
                String times = converted(synonym, "1");
                texts.append(texts.isEmpty() ? "" : " ").append(call(synonym, "name")).append(times.equals("1") ? "" : "*" + times);
            }
            found.put((String) entry.getKey(), texts.toString());
        }
        return found;
    }

    /** Configs of brokers that mean the same as the first one of a topic's synonyms. */
    private static Map<String, String> brokerSynonyms() throws Exception {
        return topicSynonyms().values().stream().filter(all -> all.contains(" ")).collect(Collectors.toMap(all -> all.substring(0, all.indexOf(' ')), all -> all.substring(all.indexOf(' ') + 1)));
    }

    /** Since 4.3 groups' configs have one as topics' have. */
    private static Map<String, String> groupSynonyms() throws Exception {
        Object all = found(GROUP, "ALL_GROUP_CONFIG_SYNONYMS");
        Map<String, String> found = new TreeMap<>();
        if (all != null)
            ((Map<?, ?>) all).forEach((name, synonym) -> found.put((String) name, (String) ((Optional<?>) synonym).map(Object.class::cast).orElse("")));
        return found;
    }

    @SuppressWarnings("unchecked")
    private static String converted(Object synonym, String value) throws Exception {
        return ((Function<String, String>) call(synonym, "converter")).apply(value);
    }

    private static Object call(Object owner, String method) throws Exception {
        return owner.getClass().getMethod(method).invoke(owner);
    }

    private static ConfigDef definitions(String type, String... called) throws Exception {
        for (String name : called)
            if (found(type, name) instanceof ConfigDef definitions)
                return definitions;
        throw new IllegalStateException(type + " has none of these: " + String.join(", ", called));
    }

    private static Set<String> names(String... called) throws Exception {
        for (String type : DYNAMIC)
            for (String name : called) {
                Object found = found(type, name);
                if (found != null)
                    return asSet(found);
            }
        throw new IllegalStateException("none of these is there: " + String.join(", ", called));
    }

    private static boolean exists(String type) {
        try {
            Class.forName(type);
            return true;
        } catch (ClassNotFoundException error) {
            return false;
        }
    }

    /** A static field or method without parameters, in Java or Scala. */
    private static Object found(String type, String name) throws Exception {
        if (!exists(type))
            return null;
        Class<?> owner = Class.forName(type);
        for (Field field : owner.getDeclaredFields())
            if (field.getName().equals(name) && Modifier.isStatic(field.getModifiers())) {
                field.setAccessible(true);
                return field.get(null);
            }
        for (Method method : owner.getDeclaredMethods())
            if (method.getName().equals(name) && method.getParameterCount() == 0) {
                method.setAccessible(true);
                boolean ofClass = Modifier.isStatic(method.getModifiers());
                return method.invoke(ofClass ? null : owner.getField("MODULE$").get(null));
            }
        return null;
    }

    private static Set<String> asSet(Object names) throws Exception {
        if (names instanceof Collection<?> collection)
            return new TreeSet<>(collection.stream().map(String::valueOf).toList());
        Object iterator = names.getClass().getMethod("iterator").invoke(names); // Scala's
        Set<String> found = new TreeSet<>();
        while ((Boolean) scala(iterator, "hasNext"))
            found.add((String) scala(iterator, "next"));
        return found;
    }

    private static Object scala(Object iterator, String method) throws Exception {
        return Class.forName("scala.collection.Iterator").getMethod(method).invoke(iterator);
    }
}
