package oracle;

import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.coordinator.group.Release;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.CompletionException;
import java.util.function.Function;

/** Reads JSON lines, runs their ops and writes JSON lines. {@code OneShots} has the ops without a shard, {@link Shard} the others. */
public final class Main {
    private final Shard shard = new Shard();
    private long lines = 0;

    private final Map<String, Function<JsonNode, ObjectNode>> oneShot = OneShots.table(shard);

    /** Serves stdin and stdout; with the argument "serve", connections, each with a shard of its own. */
    public static void main(String[] args) throws Exception {
        // Kafka must not write to the protocol's stream.
        OutputStream stdout = new FileOutputStream(FileDescriptor.out);
        System.setOut(System.err);
        if (args.length > 0 && args[0].equals("serve")) {
            new Connections().serve(stdout);
        } else {
            new Main().exchange(System.in, stdout);
        }
        System.exit(0);
    }

    /** Runs the ops of all lines of a stream. */
    void exchange(InputStream from, OutputStream to) throws IOException {
        PrintStream out = new PrintStream(new BufferedOutputStream(to, 1 << 16), false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(from, StandardCharsets.UTF_8));
        while (true) {
            // Flush responses only when no further line is waiting.
            if (!in.ready()) out.flush();
            String line = in.readLine();
            if (line == null) break;
            if (line.isBlank()) continue;
            JsonNode response = handle(line);
            out.println(Json.MAPPER.writeValueAsString(response));
            if (response.path("op").asText().equals("quit")) break;
        }
        out.flush();
    }

    static ObjectNode error(Throwable t) {
        if (t instanceof CompletionException && t.getCause() != null) t = t.getCause();
        ObjectNode e = Json.obj();
        Errors known = Errors.forException(t);
        e.put("code", known.code());
        e.put("name", known.name());
        e.put("class", t.getClass().getSimpleName());
        e.put("message", t.getMessage());
        if (t.getCause() != null && t.getCause() != t) {
            e.put("cause", t.getCause().getClass().getSimpleName() + ": " + t.getCause().getMessage());
        }
        return e;
    }

    private ObjectNode handle(String line) {
        lines++;
        ObjectNode out = Json.obj();
        out.put("id", lines);
        try {
            respond(Json.MAPPER.readTree(line), out);
        } catch (Throwable t) {
            driverError(t, out);
        }
        return out;
    }

    private void driverError(Throwable t, ObjectNode out) {
        ObjectNode e = error(t);
        e.put("driver", true);
        out.set("error", e);
        if (shard.verbose) t.printStackTrace();
    }

    private void respond(JsonNode in, ObjectNode out) {
        if (in.has("id")) out.set("id", in.get("id"));
        String op = Json.need(in, "op").asText();
        out.put("op", op);
        if (op.equals("many")) {
            many(in, out);
        } else if (oneShot.containsKey(op)) {
            out.setAll(oneShot.get(op).apply(in));
        } else {
            shard.run(op, in, out);
        }
    }

    /** Runs the ops of one line in order, also after a failed one. An op without an id has the id "line.index". */
    private void many(JsonNode in, ObjectNode out) {
        ArrayNode responses = out.putArray("answers");
        for (JsonNode op : Json.need(in, "ops")) {
            ObjectNode one = responses.addObject().put("id", lines + "." + (responses.size() - 1));
            try {
                respond(op, one);
            } catch (Throwable t) {
                driverError(t, one);
            }
        }
    }

    static ObjectNode versions() {
        ObjectNode out = Json.obj();
        out.put("kafka", Release.version());
        out.put("java", Runtime.version().toString());
        ObjectNode apis = out.putObject("apis");
        for (ApiKeys k : ApiKeys.values()) {
            if (k.name.matches(".*(Group|Offset(Commit|Fetch|Delete)).*") && !k.name.startsWith("AlterShare")) {
                apis.putArray(k.name).add(k.messageType.lowestSupportedVersion()).add(k.messageType.highestSupportedVersion(true));
            }
        }
        return out;
    }
}
