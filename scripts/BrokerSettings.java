// Prints what Kafka's own classes say of brokers' settings, a line each: name, type, who may change it while brokers run, default, check, whether Kafka keeps it to itself.
// Run by scripts/make_broker_settings.py on the jars of one release after the other; the classes have moved between releases.
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.Collection;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.config.ConfigDef;

public class BrokerSettings {
    private static final String[] DYNAMIC = {"org.apache.kafka.server.config.DynamicBrokerConfig", "kafka.server.DynamicBrokerConfig", "kafka.server.DynamicBrokerConfig$"};

    public static void main(String[] arguments) throws Exception {
        ConfigDef definitions = definitions();
        Set<String> dynamic = names("AllDynamicConfigs", "allDynamicConfigs", "ALL_DYNAMIC_CONFIGS");
        Set<String> ofOne = names("PerBrokerConfigs", "perBrokerConfigs", "PER_BROKER_CONFIGS");
        Set<String> ofListeners = names("DynamicSecurityConfigs", "dynamicSecurityConfigs", "DYNAMIC_SECURITY_CONFIGS");
        for (ConfigDef.ConfigKey key : new TreeMap<>(definitions.configKeys()).values()) {
            String change = !dynamic.contains(key.name) ? "" : ofListeners.contains(key.name) ? "listener" : ofOne.contains(key.name) ? "broker" : "all";
            String value = !key.hasDefault() || key.defaultValue == null ? "\\N" : ConfigDef.convertToString(key.defaultValue, key.type);
            String hidden = key.internalConfig ? "hidden" : "";
            System.out.println(String.join("\t", key.name, key.type.name(), change, value, check(key.validator), hidden));
            dynamic.remove(key.name);
        }
        for (String name : dynamic)
            System.out.println(String.join("\t", name, "LONG", "all", "\\N", "[0,...]", "no default"));
    }

    /** Lists say since 4.2 (KIP-1161) whether they may be empty, which their text does not: + and *. */
    private static String check(ConfigDef.Validator validator) throws Exception {
        if (validator instanceof ConfigDef.ValidList)
            for (Field field : ConfigDef.ValidList.class.getDeclaredFields()) {
                field.setAccessible(true);
                if (field.getName().equals("isEmptyAllowed"))
                    return (field.getBoolean(validator) ? "*" : "+") + (validator.toString().isEmpty() ? "[]" : validator);
            }
        return String.valueOf(validator);
    }

    private static ConfigDef definitions() throws Exception {
        Class<?> config = Class.forName("kafka.server.KafkaConfig");
        return (ConfigDef) config.getMethod("configDef").invoke(null);
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

    private static Object found(String type, String name) throws Exception {
        Class<?> owner;
        try {
            owner = Class.forName(type);
        } catch (ClassNotFoundException error) {
            return null;
        }
        for (Field field : owner.getDeclaredFields())
            if (field.getName().equals(name) && java.lang.reflect.Modifier.isStatic(field.getModifiers())) {
                field.setAccessible(true);
                return field.get(null);
            }
        for (Method method : owner.getDeclaredMethods())
            if (method.getName().equals(name) && method.getParameterCount() == 0) {
                method.setAccessible(true);
                boolean ofClass = java.lang.reflect.Modifier.isStatic(method.getModifiers());
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
