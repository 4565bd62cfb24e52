package oracle;

import org.apache.kafka.clients.consumer.internals.MemberHost;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

/** The consumer's side of the consumer protocol: one member at a time. */
final class Members {
    private MemberHost member;

    /** Starts a new member with `do: "new"`, or runs a step of the latest one. */
    ObjectNode run(JsonNode in) {
        if (!Json.need(in, "do").asText().equals("new")) {
            if (member == null) throw new Json.BadInput("no member: start with \"do\":\"new\"");
            return member.step(in);
        }
        if (member != null) member.close();
        member = new MemberHost(in);
        return Json.obj().put("memberId", member.memberId());
    }
}
