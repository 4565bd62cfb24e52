package oracle;

import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.TransactionResult;
import org.apache.kafka.coordinator.common.runtime.DirectEventProcessor;
import org.apache.kafka.coordinator.group.OracleHost;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.server.util.timer.TimerTask;
import org.apache.kafka.server.util.timer.TimerTaskEntry;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.RejectedExecutionException;

/** The ops on the coordinator shard: its configuration, image, clock, log and requests. */
final class Shard {
    private static final long START_MS = 1_700_000_000_000L;

    private final Map<String, String> configs = new LinkedHashMap<>();
    private final Map<String, String> logConfigs = new LinkedHashMap<>();
    private long startMs = START_MS;
    private boolean decode;
    private boolean hex;
    boolean verbose;
    private boolean manualTasks;
    private boolean strict;
    private boolean holdCommits;

    private OracleHost host;
    private MetadataImage image = MetadataImage.EMPTY;
    private int mark = 0;
    private long fired = 0;
    private final List<ObjectNode> completed = new ArrayList<>();

    MetadataImage image() {
        return image;
    }

    void run(String op, JsonNode in, ObjectNode out) {
        if (op.equals("config")) {
            config(in);
            finish(out);
            return;
        }
        if (host == null) open(startMs, List.of());
        switch (op) {
            case "new" -> {
                if (!in.path("keepImage").asBoolean(false)) image = MetadataImage.EMPTY;
                if (in.has("startMs")) startMs = in.get("startMs").asLong();
                open(startMs, List.of());
            }
            case "image" -> {
                // KafkaApis and the coordinator receive the new image together. Topic deletion waits for its write.
                Images.Step step = Images.step(image, in, host.clock.milliseconds());
                boolean hold = host.holdCommits;
                host.holdCommits = false;
                host.log.commit();
                host.update(step.delta(), step.image());
                host.holdCommits = hold;
                image = step.image();
                ObjectNode delta = out.putObject("delta");
                if (step.delta().topicsDelta() != null) {
                    ArrayNode changed = delta.putArray("changedTopics");
                    step.delta().topicsDelta().changedTopics().values().forEach(t -> changed.add(t.name()));
                    delta.put("deletedTopics", step.delta().topicsDelta().deletedTopicIds().size());
                }
                delta.put("brokersChanged", step.delta().clusterDelta() != null);
            }
            case "advance" -> {
                advance(Json.need(in, "ms").asLong());
                finish(out);
                out.put("fired", fired);
                return;
            }
            case "request" -> {
                request(in, out);
                return;
            }
            case "load" -> {
                load(in, entries(Json.need(in, "records")), out);
                return;
            }
            case "reload" -> {
                load(in, new ArrayList<>(host.log.entries), out);
                return;
            }
            case "cleanup" -> host.cleanup();
            case "groupConfig" -> {
                Properties p = new Properties();
                Json.need(in, "configs").fields().forEachRemaining(e -> p.put(e.getKey(), e.getValue().asText()));
                host.service.updateGroupConfig(Json.need(in, "group").asText(), p);
            }
            case "endTxn" -> host.endTransaction(
                Json.need(in, "producerId").asLong(), (short) Json.need(in, "producerEpoch").asInt(),
                in.path("coordinatorEpoch").asInt(0), TransactionResult.valueOf(Json.need(in, "result").asText()),
                (short) in.path("transactionVersion").asInt(1));
            case "commit" -> host.log.commit();
            case "runTasks" -> {
                int max = in.path("max").asInt(Integer.MAX_VALUE);
                int n = 0;
                while (n < max && host.tasks.runOne()) n++;
                out.put("ran", n);
            }
            case "failNextAppend" -> host.log.failNext = Errors.valueOf(Json.need(in, "error").asText()).exception();
            case "timers" -> {
                ArrayNode list = out.putArray("timers");
                for (TimerTaskEntry e : host.timer.pending()) {
                    list.addObject().put("atMs", e.expirationMs).put("key", key(e.timerTask));
                }
                out.put("tasks", host.tasks.size());
                out.put("now", host.clock.milliseconds());
                return;
            }
            case "log" -> {
                log(in, out);
                return;
            }
            default -> throw new Json.BadInput("no op " + op);
        }
        settle();
        finish(out);
    }

    // ---- configuration and life cycle

    /** Configures a new shard. A rejected configuration leaves the old shard unchanged. */
    private void config(JsonNode in) {
        Map<String, String> oldConfigs = new LinkedHashMap<>(configs);
        Map<String, String> oldLogConfigs = new LinkedHashMap<>(logConfigs);
        MetadataImage oldImage = image;
        try {
            configure(in);
            image = MetadataImage.EMPTY;
            open(startMs, List.of());
        } catch (RuntimeException e) {
            configs.clear();
            configs.putAll(oldConfigs);
            logConfigs.clear();
            logConfigs.putAll(oldLogConfigs);
            image = oldImage;
            throw e;
        }
    }

    private void configure(JsonNode in) {
        configs.clear();
        logConfigs.clear();
        startMs = in.path("startMs").asLong(START_MS);
        decode = in.path("decode").asBoolean(false);
        hex = in.path("hex").asBoolean(false);
        verbose = in.path("verbose").asBoolean(false);
        manualTasks = in.path("executor").asText("auto").equals("manual");
        strict = in.path("kafkaApis").asBoolean(false);
        holdCommits = in.path("holdCommits").asBoolean(false);
        List<String> own = List.of("id", "op", "startMs", "decode", "hex", "verbose", "executor", "kafkaApis", "holdCommits", "configs", "denied");
        DeniedTopics.configure(in.path("denied"));
        for (var it = in.fields(); it.hasNext(); ) {
            var e = it.next();
            if (!own.contains(e.getKey())) config(e.getKey(), e.getValue());
        }
        in.path("configs").fields().forEachRemaining(e -> config(e.getKey(), e.getValue()));
    }

    private void config(String name, JsonNode value) {
        String text = value.isArray() ? String.join(",", Json.texts(value)) : value.asText();
        if (name.equals("max.message.bytes")) {
            logConfigs.put(name, text);
        } else if (OracleHost.configNames().contains(name)) {
            configs.put(name, text);
        } else {
            throw new Json.BadInput("no config " + name);
        }
    }

    private void open(long nowMs, List<MemoryLog.Entry> entries) {
        OracleHost next = new OracleHost(configs, logConfigs, nowMs, image, entries);
        if (host != null) host.close();
        completed.clear();
        host = next;
        host.holdCommits = holdCommits;
        mark = entries.size();
        settle();
    }

    private void load(JsonNode in, List<MemoryLog.Entry> entries, ObjectNode out) {
        open(in.has("nowMs") ? in.get("nowMs").asLong() : host.clock.milliseconds(), entries);
        out.put("state", host.state());
        if (host.log.loadError != null) out.set("error", Main.error(host.log.loadError));
        if (!host.log.unknownTypes.isEmpty()) {
            ArrayNode unknown = out.putArray("skipped");
            host.log.unknownTypes.forEach(unknown::add);
        }
        finish(out);
    }

    private List<MemoryLog.Entry> entries(JsonNode records) {
        List<MemoryLog.Entry> out = new ArrayList<>();
        for (JsonNode r : records) {
            out.add(new MemoryLog.Entry(Json.unhex(r.get("key")), Json.unhex(r.get("value")),
                r.path("producerId").asLong(-1), (short) r.path("producerEpoch").asInt(-1),
                Json.text(r, "control", null), out.size()));
        }
        return out;
    }

    private void log(JsonNode in, ObjectNode out) {
        ArrayNode records = out.putArray("records");
        if (in.path("compact").asBoolean(false)) {
            // The last value per key, in the order of the remaining records, without tombstones and markers.
            Map<String, Integer> last = new LinkedHashMap<>();
            for (int i = 0; i < host.log.entries.size(); i++) {
                MemoryLog.Entry e = host.log.entries.get(i);
                if (e.key() != null) last.put(Json.hex(e.key()), i);
            }
            last.values().stream().sorted().map(host.log.entries::get).filter(e -> e.value() != null)
                .forEach(e -> records.add(record(e)));
        } else {
            host.log.entries.forEach(e -> records.add(record(e)));
        }
    }

    // ---- time

    private void fire(TimerTaskEntry e) {
        fired++;
        e.timerTask.cancel();
        e.timerTask.run();
    }

    /** Runs what is due without advancing the clock: background tasks, then timers. */
    private void settle() {
        for (int i = 0; i < 100_000; i++) {
            if (!manualTasks && host.tasks.runOne()) continue;
            TimerTaskEntry e = host.timer.pollDue(host.clock.milliseconds());
            if (e == null) return;
            fire(e);
        }
        throw new IllegalStateException("the shard never becomes idle");
    }

    private void advance(long ms) {
        long target = host.clock.milliseconds() + ms;
        fired = 0;
        settle();
        TimerTaskEntry e;
        while ((e = host.timer.pollDue(target)) != null) {
            if (e.expirationMs > host.clock.milliseconds()) host.clock.set(e.expirationMs);
            fire(e);
            settle();
        }
        host.clock.set(target);
    }

    private static String key(TimerTask task) {
        for (Field f : task.getClass().getDeclaredFields()) {
            if (f.getName().equals("val$key")) {
                try {
                    f.setAccessible(true);
                    return (String) f.get(task);
                } catch (ReflectiveOperationException e) {
                    break;
                }
            }
        }
        return task.getClass().getSimpleName();
    }

    // ---- requests

    private void request(JsonNode in, ObjectNode out) {
        ApiKeys api = Requests.api(Json.need(in, "api").asText());
        short version = (short) in.path("version").asInt(api.latestVersion(true));
        if (version < api.messageType.lowestSupportedVersion() || version > api.messageType.highestSupportedVersion(true)) {
            throw new Json.BadInput(api.name + " has no version " + version);
        }
        AbstractRequest request = Requests.parse(api, version, in.get("body"));
        var ctx = Requests.context(api, version, Json.text(in, "clientId", "client"), Json.text(in, "clientHost", "/127.0.0.1"),
            Json.text(in, "principal", "User:ANONYMOUS"));
        boolean asBroker = in.has("kafkaApis") ? in.get("kafkaApis").asBoolean() : strict;
        JsonNode id = out.get("id");
        CompletableFuture<ApiMessage> future = Requests.send(host.service, image, request, ctx, asBroker);
        out.put("api", api.name);
        out.put("version", version);
        future.whenComplete((data, ex) -> {
            ObjectNode done = Json.obj();
            done.set("id", id);
            done.put("api", api.name);
            respond(done, data, ex, version);
            completed.add(done);
        });
        settle();
        if (future.isDone()) {
            for (var it = completed.iterator(); it.hasNext(); ) {
                ObjectNode done = it.next();
                if (done.get("id") == id) {
                    it.remove();
                    done.fields().forEachRemaining(e -> out.set(e.getKey(), e.getValue()));
                    break;
                }
            }
        } else {
            out.putNull("response");
            out.put("pending", true);
        }
        finish(out);
    }

    private void respond(ObjectNode out, ApiMessage data, Throwable ex, short version) {
        if (ex != null) {
            out.putNull("response");
            out.set("error", Main.error(ex));
            return;
        }
        JsonNode json;
        short v = version;
        try {
            json = Json.write(data, v);
        } catch (UnsupportedVersionException e) {
            // The coordinator set a field that this version of the response does not have.
            v = data.highestSupportedVersion();
            json = Json.write(data, v);
            out.put("responseVersion", v);
        }
        out.set("response", json);
        if (hex) out.put("responseHex", Json.hex(Wire.bytes(data, v)));
        int code = json.path("errorCode").asInt(0);
        if (code != 0) {
            Errors e = Errors.forCode((short) code);
            out.putObject("error").put("code", code).put("name", e.name())
                .put("class", e.exception() == null ? null : e.exception().getClass().getSimpleName())
                .put("message", Json.text(json, "errorMessage", null));
        }
    }

    // ---- output

    private ObjectNode record(MemoryLog.Entry e) {
        ObjectNode r = Json.obj();
        if (e.control() != null) {
            r.put("control", e.control());
        } else {
            r.put("key", Json.hex(e.key()));
            r.put("value", Json.hex(e.value()));
            if (decode) r.setAll(OneShots.decodeGroupRecord(e.key(), e.value()));
        }
        if (e.producerId() >= 0) r.put("producerId", e.producerId()).put("producerEpoch", e.producerEpoch());
        if (verbose) r.put("batch", e.batch());
        return r;
    }

    /** Adds all that the shard did since the last response. */
    private void finish(ObjectNode out) {
        out.put("now", host.clock.milliseconds());
        ArrayNode records = out.putArray("records");
        for (int i = mark; i < host.log.entries.size(); i++) records.add(record(host.log.entries.get(i)));
        mark = host.log.entries.size();

        ArrayNode events = out.putArray("events");
        for (DirectEventProcessor.Done d : host.processor.trace) {
            ObjectNode e = Json.obj();
            e.put("name", d.name()).put("n", d.records()).put("atMs", d.atMs());
            boolean failed = false;
            if (d.future() != null && d.future().isCompletedExceptionally()) {
                Throwable t;
                try {
                    d.future().getNow(null);
                    t = null;
                } catch (CompletionException x) {
                    t = x.getCause();
                } catch (RuntimeException x) {
                    t = x;
                }
                failed = t != null && (verbose || !(t instanceof RejectedExecutionException));
                if (failed) e.set("error", Main.error(t));
            } else if (d.future() != null && !d.future().isDone()) {
                e.put("uncommitted", true);
            }
            boolean timer = d.name().startsWith("Timeout(");
            if (verbose || !timer || d.records() > 0 || failed) events.add(e);
        }
        host.processor.trace = new ArrayList<>();

        ArrayNode done = out.putArray("completed");
        completed.forEach(done::add);
        completed.clear();
    }
}
