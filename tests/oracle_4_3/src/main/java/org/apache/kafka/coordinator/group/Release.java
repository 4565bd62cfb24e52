package org.apache.kafka.coordinator.group;

import org.apache.kafka.common.message.StreamsGroupDescribeResponseData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.requests.StreamsGroupDescribeRequest;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.ByteBufferOutputStream;
import org.apache.kafka.common.utils.ImplicitLinkedHashCollection;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetrics;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfig;
import org.apache.kafka.server.share.persister.Persister;
import org.apache.kafka.server.util.PartitionMetadataClient;
import org.apache.kafka.server.util.timer.Timer;

import java.util.Map;
import java.util.concurrent.CompletableFuture;

/** Classes that have other packages in other releases, and calls with other parameters. */
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

    public static ByteBufferOutputStream stream(int capacity) {
        return new ByteBufferOutputStream(capacity);
    }

    public static GroupConfigManager configManager(GroupCoordinatorConfig config, ShareGroupConfig shareConfig) {
        return new GroupConfigManager(Map.of(), config, shareConfig);
    }

    static GroupCoordinatorService service(
        LogContext logContext, GroupCoordinatorConfig config, CoordinatorRuntime<GroupCoordinatorShard, CoordinatorRecord> runtime,
        GroupCoordinatorMetrics metrics, GroupConfigManager configManager, Persister persister, Timer timer, PartitionMetadataClient client, Time time
    ) {
        return new GroupCoordinatorService(logContext, config, runtime, metrics, configManager, persister, timer, client);
    }

    /** Returns null for a request that this release does not have. */
    public static CompletableFuture<? extends ApiMessage> send(GroupCoordinator g, AbstractRequest request, RequestContext ctx) {
        if (request instanceof StreamsGroupDescribeRequest r) {
            return g.streamsGroupDescribe(ctx, r.data().groupIds()).thenApply(l -> new StreamsGroupDescribeResponseData().setGroups(l));
        }
        return null;
    }
}
