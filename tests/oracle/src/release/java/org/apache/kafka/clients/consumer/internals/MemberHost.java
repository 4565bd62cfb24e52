package org.apache.kafka.clients.consumer.internals;

import oracle.Clock;
import oracle.Json;

import org.apache.kafka.clients.ClientResponse;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.consumer.internals.events.BackgroundEvent;
import org.apache.kafka.clients.consumer.internals.events.BackgroundEventHandler;
import org.apache.kafka.clients.consumer.internals.events.ConsumerRebalanceListenerCallbackCompletedEvent;
import org.apache.kafka.clients.consumer.internals.events.ErrorEvent;
import org.apache.kafka.clients.consumer.internals.events.PartitionsAssignedEvent;
import org.apache.kafka.clients.consumer.internals.events.PartitionsRemovedEvent;
import org.apache.kafka.clients.consumer.internals.metrics.AsyncConsumerMetrics;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.DisconnectException;
import org.apache.kafka.common.errors.SaslAuthenticationException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.internals.ClusterResourceListeners;
import org.apache.kafka.common.message.ConsumerGroupHeartbeatRequestData;
import org.apache.kafka.common.message.ConsumerGroupHeartbeatResponseData;
import org.apache.kafka.common.message.FindCoordinatorResponseData;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.ConsumerGroupHeartbeatResponse;
import org.apache.kafka.common.requests.FindCoordinatorResponse;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.utils.internals.LogContext;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.Set;
import java.util.SortedSet;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;

/**
 * One consumer's membership: Kafka's own membership, heartbeat and coordinator managers and subscription, without threads,
 * network or real time. The steps that a consumer's two threads make are ops; the backoff has no jitter.
 *
 * <p>Replaced are what asks for other requests: the commit before a rebalance is a future that a script completes, and metadata
 * is a map of names.
 */
public final class MemberHost {
    private static final short VERSION = ApiKeys.CONSUMER_GROUP_HEARTBEAT.latestVersion();
    private static final LogContext LOG = new LogContext();
    private static final ConsumerRebalanceListener LISTENER = new ConsumerRebalanceListener() {
        @Override public void onPartitionsRevoked(Collection<TopicPartition> partitions) { }
        @Override public void onPartitionsAssigned(Collection<TopicPartition> partitions) { }
    };

    private final Clock clock;
    private final Metrics metrics = new Metrics();
    private final ArrayNode log = Json.arr();
    private final Map<Uuid, String> names = new HashMap<>();
    private final List<NetworkClientDelegate.UnsentRequest> requests = new ArrayList<>();
    private final List<Callback> callbacks = new ArrayList<>();
    private final Set<CompletableFuture<Void>> leaves = new HashSet<>();
    private final SubscriptionState subscriptions;
    private final CoordinatorRequestManager coordinator;
    private final ConsumerMembershipManager membership;
    private final HeartbeatRequestState schedule;
    private final ConsumerHeartbeatRequestManager heartbeats;

    /** What the application or the client has to do; `event` is null for a commit. */
    private record Callback(BackgroundEvent event, CompletableFuture<Void> future) { }

    public MemberHost(JsonNode in) {
        clock = new Clock(in.path("startMs").asLong(1_700_000_000_000L));
        int rebalanceTimeoutMs = in.path("maxPollIntervalMs").asInt(300_000);
        long retryBackoffMs = in.path("retryBackoffMs").asLong(100);
        long retryBackoffMaxMs = in.path("retryBackoffMaxMs").asLong(1000);
        boolean autoCommit = in.path("autoCommit").asBoolean(true);
        Optional<String> instanceId = Optional.ofNullable(Json.text(in, "instanceId", null));
        Map<String, Object> configs = new HashMap<>();
        configs.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, "localhost:1");
        configs.put(ConsumerConfig.GROUP_ID_CONFIG, "g");
        configs.put(ConsumerConfig.GROUP_PROTOCOL_CONFIG, "consumer");
        configs.put(ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class);
        configs.put(ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class);
        configs.put(ConsumerConfig.MAX_POLL_INTERVAL_MS_CONFIG, rebalanceTimeoutMs);
        configs.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, autoCommit);
        ConsumerConfig config = new ConsumerConfig(configs);

        BackgroundEventHandler events =
            new BackgroundEventHandler(new LinkedBlockingQueue<>(), clock, new AsyncConsumerMetrics(metrics, "consumer-metrics")) {
                @Override
                public void add(BackgroundEvent event) {
                    onEvent(event);
                }
            };
        subscriptions = new SubscriptionState(LOG, AutoOffsetResetStrategy.EARLIEST) {
            @Override
            public synchronized void markPendingRevocation(Set<TopicPartition> partitions) {
                if (!partitions.isEmpty()) note("pause").add(sorted(partitions));
                super.markPendingRevocation(partitions);
            }

            @Override
            public synchronized void unsubscribe() {
                note("unsubscribe");
                super.unsubscribe();
            }
        };
        ConsumerMetadata metadata = new ConsumerMetadata(100, 1000, 300_000, false, false, subscriptions, LOG, new ClusterResourceListeners()) {
            @Override
            public Map<Uuid, String> topicNames() {
                return names;
            }

            @Override
            public synchronized int requestUpdate(boolean resetEquivalentResponseBackoff) {
                note("metadata");
                return super.requestUpdate(resetEquivalentResponseBackoff);
            }
        };
        coordinator = new CoordinatorRequestManager(LOG, 100, 1000, "g") {
            @Override
            public void markCoordinatorUnknown(String cause, long nowMs) {
                note("coordinatorUnknown");
                super.markCoordinatorUnknown(cause, nowMs);
            }
        };
        CommitRequestManager commits = new CommitRequestManager(
            clock, LOG, subscriptions, config, coordinator, new OffsetCommitCallbackInvoker(null), "g", instanceId, 100, 1000,
            OptionalDouble.of(0), metrics, metadata) {
            @Override
            public CompletableFuture<Void> maybeAutoCommitSyncBeforeRebalance(long deadlineMs) {
                if (!autoCommitEnabled()) return CompletableFuture.completedFuture(null);
                CompletableFuture<Void> future = new CompletableFuture<>();
                note("commit").add(callback(null, future)).add(deadlineMs);
                return future;
            }
        };
        membership = new ConsumerMembershipManager(
            "g", instanceId, Optional.ofNullable(Json.text(in, "rackId", null)), rebalanceTimeoutMs,
            Optional.ofNullable(Json.text(in, "serverAssignor", null)), subscriptions, commits, metadata, LOG, events, clock, metrics,
            autoCommit) {
            @Override
            protected void transitionTo(MemberState next) {
                try {
                    super.transitionTo(next);
                } catch (IllegalStateException e) {
                    // The future of a response or callback keeps it, without a trace.
                    note("invalidTransition").add(next.name());
                    throw e;
                }
            }
        };
        membership.registerStateListener(commits);
        membership.registerStateListener(new MemberStateListener() {
            @Override
            public void onMemberEpochUpdated(Optional<Integer> epoch, String memberId) {
                note("epoch").add(epoch.orElse(null));
            }

            @Override
            public void onGroupAssignmentUpdated(Set<TopicPartition> partitions) {
                note("assignment").add(sorted(partitions));
            }

            @Override
            public void onMemberStateChange(MemberState state) {
                note("state").add(state.name());
            }
        });
        schedule = new HeartbeatRequestState(LOG, clock, 0, retryBackoffMs, retryBackoffMaxMs, 0);
        heartbeats = new ConsumerHeartbeatRequestManager(
            LOG, clock.timer(rebalanceTimeoutMs), config, coordinator, membership,
            new ConsumerHeartbeatRequestManager.HeartbeatState(subscriptions, membership, rebalanceTimeoutMs), schedule, events, metrics);
    }

    public String memberId() {
        return membership.memberId();
    }

    public void close() {
        metrics.close();
    }

    /** Runs one step, and returns what it led to, and the state after it. */
    public ObjectNode step(JsonNode in) {
        log.removeAll();
        ObjectNode out = Json.obj();
        ArrayNode sent = out.putArray("requests");
        try {
            run(in, out, sent);
        } catch (IllegalStateException | IllegalArgumentException | NoSuchElementException e) {
            out.put("thrown", e.getClass().getSimpleName());
        }
        out.set("log", log.deepCopy());
        out.put("nowMs", clock.milliseconds());
        out.put("state", membership.state().name());
        out.put("epoch", membership.memberEpoch());
        out.set("current", assignment(membership.currentAssignment()));
        out.set("target", assignment(field(membership, "currentTargetAssignment")));
        out.set("owned", sorted(subscriptions.assignedPartitions()));
        out.put("reconciling", membership.reconciliationInProgress());
        out.put("coordinatorKnown", coordinator.coordinator().isPresent());
        out.put("intervalMs", schedule.heartbeatIntervalMs());
        return out;
    }

    private void run(JsonNode in, ObjectNode out, ArrayNode sent) {
        long nowMs = clock.milliseconds();
        switch (Json.need(in, "do").asText()) {
            case "advance" -> clock.set(nowMs + Json.need(in, "ms").asLong());
            case "subscribe" -> subscribe(in);
            case "names" -> {
                names.clear();
                Json.need(in, "names").fields().forEachRemaining(e -> names.put(Uuid.fromString(e.getKey()), e.getValue().asText()));
            }
            // As in ApplicationEventProcessor.
            case "poll" -> {
                membership.maybeReconcile(true);
                membership.onConsumerPoll();
                heartbeats.resetPollTimer(nowMs);
            }
            case "leave" -> leaving(membership.leaveGroup());
            case "close" -> leaving(membership.leaveGroupOnClose(
                CloseOptions.GroupMembershipOperation.valueOf(Json.need(in, "operation").asText())));
            case "apply" -> out.put("applied", apply((PartitionsAssignedEvent) at(in).event()));
            case "complete" -> complete(at(in), in.path("error").asBoolean());
            // As in ConsumerNetworkThread.
            case "run" -> {
                send(heartbeats.poll(nowMs), sent);
                membership.poll(nowMs);
                out.put("waitMs", heartbeats.maximumTimeToWait(nowMs));
            }
            case "heartbeat" -> send(heartbeats.poll(nowMs), sent);
            case "reconcile" -> membership.maybeReconcile(false);
            case "wait" -> out.put("waitMs", heartbeats.maximumTimeToWait(nowMs));
            case "heartbeatOnClose" -> send(heartbeats.pollOnClose(nowMs), sent);
            case "respond" -> respond(requests.get(Json.need(in, "request").asInt()), Json.need(in, "body"));
            case "fail" -> requests.get(Json.need(in, "request").asInt()).handler().onFailure(nowMs, failure(in));
            case "findCoordinator" -> findCoordinator();
            case "loseCoordinator" -> coordinator.markCoordinatorUnknown("script", nowMs);
            default -> throw new Json.BadInput("unknown step " + in.get("do"));
        }
    }

    private void subscribe(JsonNode in) {
        Optional<ConsumerRebalanceListener> listener = in.path("listener").asBoolean() ? Optional.of(LISTENER) : Optional.empty();
        if (in.hasNonNull("regex")) {
            subscriptions.subscribe(new SubscriptionPattern(in.get("regex").asText()), listener);
        } else {
            subscriptions.subscribe(new LinkedHashSet<>(Json.texts(in.get("topics"))), listener);
        }
        membership.onSubscriptionUpdated();
    }

    /** Notes the end of a leave, once for each. */
    private void leaving(CompletableFuture<Void> leave) {
        if (leaves.add(leave)) leave.whenComplete((result, error) -> note("left"));
    }

    /**
     * Adopts an assignment as the consumer does, unless the member has lost it in the meantime.
     *
     * <p>The consumer adopts it in that case, too, and then owns partitions that the coordinator has given to others.
     */
    private boolean apply(PartitionsAssignedEvent event) {
        boolean interrupted = membership.state() != MemberState.RECONCILING
            || !membership.reconciliationInProgress()
            || this.<Boolean>field(membership, "rejoinedWhileReconciliationInProgress")
            || event != latestAssigned();
        if (!interrupted) membership.applyAssignment(event.assignedPartitions(), event.addedPartitions());
        return !interrupted;
    }

    private BackgroundEvent latestAssigned() {
        for (int i = callbacks.size() - 1; i >= 0; i--) {
            if (callbacks.get(i).event() instanceof PartitionsAssignedEvent e) return e;
        }
        return null;
    }

    private void complete(Callback callback, boolean failed) {
        if (callback.future().isDone()) throw new Json.BadInput("completed before");
        Optional<KafkaException> error = failed ? Optional.of(new KafkaException("callback")) : Optional.empty();
        if (callback.event() == null) {
            if (failed) callback.future().completeExceptionally(error.get());
            else callback.future().complete(null);
            return;
        }
        ConsumerRebalanceListenerMethodName name = callback.event() instanceof PartitionsRemovedEvent removed
            ? removed.methodName() : ConsumerRebalanceListenerMethodName.ON_PARTITIONS_ASSIGNED;
        membership.consumerRebalanceListenerCallbackCompleted(
            new ConsumerRebalanceListenerCallbackCompletedEvent(name, callback.future(), error));
    }

    private void send(NetworkClientDelegate.PollResult result, ArrayNode sent) {
        for (NetworkClientDelegate.UnsentRequest request : result.unsentRequests) {
            requests.add(request);
            ConsumerGroupHeartbeatRequestData data =
                ((ConsumerGroupHeartbeatRequestData) request.requestBuilder().build(VERSION).data()).duplicate();
            // Their order is that of a HashMap and of the user's HashSet.
            if (data.topicPartitions() != null) data.topicPartitions().sort((a, b) -> a.topicId().compareTo(b.topicId()));
            if (data.subscribedTopicNames() != null) data.subscribedTopicNames().sort(null);
            sent.add(Json.write(data, VERSION));
        }
    }

    private void respond(NetworkClientDelegate.UnsentRequest request, JsonNode body) {
        respond(request, new ConsumerGroupHeartbeatResponse(Json.read(ConsumerGroupHeartbeatResponseData.class, body, VERSION)));
    }

    private void respond(NetworkClientDelegate.UnsentRequest request, AbstractResponse response) {
        if (request.future().isDone()) throw new Json.BadInput("answered before");
        long nowMs = clock.milliseconds();
        request.handler().onComplete(new ClientResponse(null, null, "0", nowMs, nowMs, false, null, null, response));
    }

    private static RuntimeException failure(JsonNode in) {
        return switch (Json.need(in, "failure").asText()) {
            case "disconnected" -> DisconnectException.INSTANCE;
            case "timedOut" -> new TimeoutException("timed out");
            case "unsupported" -> new UnsupportedVersionException("unsupported");
            case "authentication" -> new SaslAuthenticationException("not authenticated");
            default -> throw new Json.BadInput("unknown failure " + in.get("failure"));
        };
    }

    private void findCoordinator() {
        FindCoordinatorResponseData.Coordinator node =
            new FindCoordinatorResponseData.Coordinator().setKey("g").setNodeId(0).setHost("localhost").setPort(1);
        respond(coordinator.makeFindCoordinatorRequest(clock.milliseconds()),
            new FindCoordinatorResponse(new FindCoordinatorResponseData().setCoordinators(List.of(node))));
    }

    private void onEvent(BackgroundEvent event) {
        if (event instanceof PartitionsRemovedEvent removed) {
            boolean lost = removed.methodName() == ConsumerRebalanceListenerMethodName.ON_PARTITIONS_LOST;
            note(lost ? "lost" : "revoked").add(callback(event, removed.future())).add(sorted(removed.partitions()));
        } else if (event instanceof PartitionsAssignedEvent assigned) {
            note("assigned").add(callback(event, assigned.future()))
                .add(sorted(assigned.assignedPartitions())).add(sorted(assigned.addedPartitions()));
        } else {
            RuntimeException error = ((ErrorEvent) event).error();
            note("error").add(Errors.forException(error).name()).add(error.getMessage());
        }
    }

    private int callback(BackgroundEvent event, CompletableFuture<Void> future) {
        callbacks.add(new Callback(event, future));
        return callbacks.size() - 1;
    }

    private Callback at(JsonNode in) {
        return callbacks.get(Json.need(in, "callback").asInt());
    }

    private ArrayNode note(String what) {
        return log.addArray().add(what);
    }

    private static ArrayNode sorted(Collection<TopicPartition> partitions) {
        TreeSet<TopicPartition> ordered = new TreeSet<>(AbstractMembershipManager.TOPIC_PARTITION_COMPARATOR);
        ordered.addAll(partitions);
        ArrayNode out = Json.arr();
        ordered.forEach(p -> out.add(p.toString()));
        return out;
    }

    private static ObjectNode assignment(AbstractMembershipManager.LocalAssignment assignment) {
        ObjectNode out = Json.obj().put("localEpoch", assignment.localEpoch);
        ObjectNode partitions = out.putObject("partitions");
        for (Map.Entry<Uuid, SortedSet<Integer>> e : new TreeMap<>(assignment.partitions).entrySet()) {
            e.getValue().forEach(partitions.putArray(e.getKey().toString())::add);
        }
        return out;
    }

    @SuppressWarnings("unchecked")
    private <T> T field(Object of, String name) {
        try {
            Field field = AbstractMembershipManager.class.getDeclaredField(name);
            field.setAccessible(true);
            return (T) field.get(of);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }
}
