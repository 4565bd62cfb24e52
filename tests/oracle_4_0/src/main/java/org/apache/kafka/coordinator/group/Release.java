package org.apache.kafka.coordinator.group;

import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.ImplicitLinkedHashCollection;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.SecurityUtils;

/** Classes that have other packages in other releases. */
public final class Release {
    public static final BufferSupplier NO_CACHING = BufferSupplier.NO_CACHING;

    private Release() { }

    public static String version() {
        return AppInfoParser.getVersion();
    }

    public static KafkaPrincipal principal(String text) {
        return SecurityUtils.parseKafkaPrincipal(text);
    }

    /** Returns whether a class of a message's field is one of Kafka's collections of elements with keys. */
    public static boolean isLinkedCollection(Class<?> type) {
        return ImplicitLinkedHashCollection.class.isAssignableFrom(type);
    }

    public static LogContext logContext() {
        return new LogContext("[oracle] ");
    }
}
