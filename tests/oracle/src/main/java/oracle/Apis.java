package oracle;

import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.types.RawTaggedField;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import java.nio.ByteBuffer;

/** Bodies of requests and responses without headers, with Kafka's generated classes. */
final class Apis {
    private Apis() { }

    /** An API, one of its messages, and a version, as named by the caller. */
    private record Message(ApiKeys api, boolean response, short version) {
        static Message of(JsonNode in) {
            ApiKeys api = Requests.api(Json.need(in, "api").asText());
            String kind = Json.text(in, "kind", "request");
            if (!kind.equals("request") && !kind.equals("response")) throw new Json.BadInput("kind is request or response");
            short version = in.has("version") ? (short) in.get("version").asInt() : api.messageType.highestSupportedVersion(true);
            Codecs.known(version, api.messageType.lowestSupportedVersion(), api.messageType.highestSupportedVersion(true));
            return new Message(api, kind.equals("response"), version);
        }

        ApiMessage empty() {
            return response ? api.messageType.newResponse() : api.messageType.newRequest();
        }

        ObjectNode output() {
            ObjectNode out = Json.obj();
            out.put("headerVersion", response ? api.responseHeaderVersion(version) : api.requestHeaderVersion(version));
            return out;
        }
    }

    /** Encodes a body. "bodyVersion" is the version of its JSON, which can have fields that "version" does not have. */
    static ObjectNode encode(JsonNode in) {
        Message message = Message.of(in);
        ObjectNode out = message.output();
        short readAs = in.has("bodyVersion") ? (short) in.get("bodyVersion").asInt() : message.version;
        ApiMessage data = Json.read(message.empty().getClass().asSubclass(ApiMessage.class), in.get("body"), readAs);
        for (JsonNode t : in.path("unknownTags")) {
            data.unknownTaggedFields().add(new RawTaggedField(Json.need(t, "tag").asInt(), Json.unhex(Json.need(t, "hex"))));
        }
        try {
            out.put("hex", hex(data, message.version));
            out.set("body", Json.write(data, message.version));
        } catch (RuntimeException e) {
            out.set("error", Main.error(e));
        }
        return out;
    }

    static ObjectNode decode(JsonNode in) {
        Message message = Message.of(in);
        ObjectNode out = message.output();
        ApiMessage data = message.empty();
        ByteBuffer bytes = ByteBuffer.wrap(Json.unhex(Json.need(in, "hex")));
        try {
            data.read(new ByteBufferAccessor(bytes), message.version);
        } catch (RuntimeException e) {
            out.set("error", Main.error(e));
            return out;
        }
        out.put("remaining", bytes.remaining());
        Codecs.unknown(data, out);
        out.set("body", Json.write(data, message.version));
        try {
            out.put("rewritten", hex(data, message.version));
        } catch (RuntimeException e) {
            // Kafka decodes some bytes that it cannot encode, such as unknown tags out of order.
            out.set("rewriteError", Main.error(e));
        }
        return out;
    }

    private static String hex(ApiMessage data, short version) {
        ByteBuffer bytes = MessageUtil.toByteBufferAccessor(data, version).buffer();
        byte[] out = new byte[bytes.remaining()];
        bytes.get(out);
        return Json.hex(out);
    }
}
