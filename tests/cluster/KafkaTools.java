import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.utils.Exit;

/** Runs Kafka's command-line tools one after the other in one JVM: a line of JSON with the class and its arguments in, one with what it printed and its exit status out. */
public class KafkaTools {
    private static Integer status;

    private static class Ended extends RuntimeException {
        Ended() {
            super("the tool has ended", null, false, false);
        }
    }

    public static void main(String[] args) throws Exception {
        // Tools end by Exit; what they make of being interrupted by it, such as ending once more, does not count.
        Exit.setExitProcedure((code, message) -> {
            status = status == null ? code : status;
            throw new Ended();
        });
        ObjectMapper json = new ObjectMapper();
        PrintStream out = System.out;
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) {
            JsonNode asked = json.readTree(line);
            ByteArrayOutputStream said = new ByteArrayOutputStream();
            ByteArrayOutputStream wrong = new ByteArrayOutputStream();
            System.setOut(new PrintStream(said, true));
            System.setErr(new PrintStream(wrong, true));
            status = null;
            try {
                Class<?> tool = Class.forName(asked.get("tool").asText());
                tool.getMethod("main", String[].class).invoke(null, (Object) json.convertValue(asked.get("arguments"), String[].class));
            } catch (InvocationTargetException e) {
                if (!(e.getCause() instanceof Ended)) {
                    e.getCause().printStackTrace();
                    status = 1;
                }
            }
            ObjectNode answer = json.createObjectNode().put("status", status == null ? 0 : status);
            out.println(json.writeValueAsString(answer.put("out", said.toString()).put("err", wrong.toString())));
            out.flush();
        }
    }
}
