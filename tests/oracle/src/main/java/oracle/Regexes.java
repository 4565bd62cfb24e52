package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;

/** RE2/J as in Kafka's GroupMetadataManager (subscribed topics) and TransactionStateManager (transactional ids). */
final class Regexes {
    private Regexes() { }

    /** Returns the names that a regex matches as a whole, or an error for an invalid pattern or another exception of RE2/J. */
    static ObjectNode match(JsonNode in) {
        ObjectNode out = Json.obj();
        Pattern pattern;
        try {
            pattern = Pattern.compile(in.get("pattern").asText());
        } catch (PatternSyntaxException e) {
            return out.put("invalid", e.getDescription());
        } catch (RuntimeException | StackOverflowError e) {
            return out.put("thrown", e.getClass().getSimpleName());
        }
        ArrayNode matched = out.putArray("matched");
        for (JsonNode name : in.get("names")) {
            if (pattern.matcher(name.asText()).matches()) {
                matched.add(name.asText());
            }
        }
        return out;
    }
}
