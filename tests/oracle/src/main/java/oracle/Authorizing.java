package oracle;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.network.ClientInformation;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.coordinator.group.Release;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.List;
import java.util.Map;

/** Kafka's StandardAuthorizer with ACLs of the caller. Enums are codes. */
final class Authorizing {
    private Authorizing() { }

    static ObjectNode authorize(JsonNode in) {
        StandardAuthorizer authorizer = new StandardAuthorizer();
        authorizer.configure(Map.of(
            StandardAuthorizer.SUPER_USERS_CONFIG, in.path("superUsers").asText(""),
            StandardAuthorizer.ALLOW_EVERYONE_IF_NO_ACL_IS_FOUND_CONFIG, in.path("allowEveryone").asText("false")));
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        authorizer.completeInitialLoad();
        long id = 1;
        for (JsonNode acl : in.path("acls")) authorizer.addAcl(new Uuid(0, id++), acl(acl));
        ArrayNode results = Json.arr();
        for (JsonNode action : in.path("actions")) results.add(result(authorizer, action));
        ArrayNode found = Json.arr();
        for (JsonNode filter : in.path("filters")) {
            ArrayNode one = found.addArray();
            for (AclBinding binding : authorizer.acls(filter(filter))) {
                one.addArray()
                    .add(binding.pattern().resourceType().code()).add(binding.pattern().name())
                    .add(binding.pattern().patternType().code()).add(binding.entry().principal())
                    .add(binding.entry().host()).add(binding.entry().operation().code())
                    .add(binding.entry().permissionType().code());
            }
        }
        ObjectNode out = Json.obj();
        out.set("results", results);
        out.set("found", found);
        return out;
    }

    /** Returns ALLOWED, DENIED, or the class of Kafka's exception. */
    private static String result(StandardAuthorizer authorizer, JsonNode action) {
        AclOperation operation = AclOperation.fromCode((byte) action.get("operation").asInt());
        ResourceType type = ResourceType.fromCode((byte) action.get("resourceType").asInt());
        RequestContext context = context(action);
        try {
            if (!action.has("name")) return authorizer.authorizeByResourceType(context, operation, type).name();
            ResourcePattern resource = new ResourcePattern(type, action.get("name").asText(), PatternType.LITERAL);
            return authorizer.authorize(context, List.of(new Action(operation, resource, 1, true, true))).get(0).name();
        } catch (RuntimeException e) {
            return e.getClass().getSimpleName();
        }
    }

    private static RequestContext context(JsonNode action) {
        try {
            return new RequestContext(
                new RequestHeader(ApiKeys.METADATA, (short) 12, "client", 1), "connection",
                InetAddress.getByName(action.get("host").asText()),
                Release.principal(action.get("principal").asText()),
                new ListenerName("CLIENT"), SecurityProtocol.SASL_PLAINTEXT, ClientInformation.EMPTY, false);
        } catch (UnknownHostException e) {
            throw new Json.BadInput(e.getMessage());
        }
    }

    private static StandardAcl acl(JsonNode acl) {
        return new StandardAcl(
            ResourceType.fromCode((byte) acl.get("resourceType").asInt()), acl.get("name").asText(),
            PatternType.fromCode((byte) acl.get("patternType").asInt()), acl.get("principal").asText(),
            acl.get("host").asText(), AclOperation.fromCode((byte) acl.get("operation").asInt()),
            AclPermissionType.fromCode((byte) acl.get("permission").asInt()));
    }

    private static AclBindingFilter filter(JsonNode filter) {
        return new AclBindingFilter(
            new ResourcePatternFilter(
                ResourceType.fromCode((byte) filter.get("resourceType").asInt()), text(filter, "name"),
                PatternType.fromCode((byte) filter.get("patternType").asInt())),
            new AccessControlEntryFilter(
                text(filter, "principal"), text(filter, "host"),
                AclOperation.fromCode((byte) filter.get("operation").asInt()),
                AclPermissionType.fromCode((byte) filter.get("permission").asInt())));
    }

    private static String text(JsonNode node, String field) {
        return node.path(field).isTextual() ? node.get(field).asText() : null;
    }
}
