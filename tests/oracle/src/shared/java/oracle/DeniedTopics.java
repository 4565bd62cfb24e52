package oracle;

import org.apache.kafka.common.Endpoint;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.server.authorizer.AclCreateResult;
import org.apache.kafka.server.authorizer.AclDeleteResult;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.authorizer.AuthorizerServerInfo;

import com.fasterxml.jackson.databind.JsonNode;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletionStage;

/** Denies to describe the topics in {@code denied}, by principal ("User:bob"). Everything else is allowed. */
public final class DeniedTopics implements Authorizer {
    /** Of the shard whose ops run in a thread. */
    private static final ThreadLocal<Map<String, Set<String>>> CONFIGURED = ThreadLocal.withInitial(Map::of);

    private final Map<String, Set<String>> denied;

    private DeniedTopics(Map<String, Set<String>> denied) {
        this.denied = denied;
    }

    /** Sets what coordinators deny that are created after this call. */
    static void configure(JsonNode denied) {
        Map<String, Set<String>> names = new HashMap<>();
        denied.fields().forEachRemaining(e -> names.put(e.getKey(), Set.copyOf(Json.texts(e.getValue()))));
        CONFIGURED.set(names);
    }

    /** Returns the authorizer, or empty if nothing is denied, as in a broker without an authorizer. */
    public static Optional<Authorizer> configured() {
        Map<String, Set<String>> configured = CONFIGURED.get();
        return configured.isEmpty() ? Optional.empty() : Optional.of(new DeniedTopics(configured));
    }

    @Override
    public List<AuthorizationResult> authorize(AuthorizableRequestContext context, List<Action> actions) {
        Set<String> names = denied.getOrDefault(context.principal().toString(), Set.of());
        return actions.stream().map(action -> {
            if (action.operation() != AclOperation.DESCRIBE || action.resourcePattern().resourceType() != ResourceType.TOPIC) {
                throw new IllegalStateException("unexpected action " + action);
            }
            return names.contains(action.resourcePattern().name()) ? AuthorizationResult.DENIED : AuthorizationResult.ALLOWED;
        }).toList();
    }

    @Override
    public Map<Endpoint, ? extends CompletionStage<Void>> start(AuthorizerServerInfo info) {
        return Map.of();
    }

    @Override
    public List<? extends CompletionStage<AclCreateResult>> createAcls(AuthorizableRequestContext context, List<AclBinding> bindings) {
        throw new UnsupportedOperationException();
    }

    @Override
    public List<? extends CompletionStage<AclDeleteResult>> deleteAcls(AuthorizableRequestContext context, List<AclBindingFilter> filters) {
        throw new UnsupportedOperationException();
    }

    @Override
    public Iterable<AclBinding> acls(AclBindingFilter filter) {
        return List.of();
    }

    @Override
    public void configure(Map<String, ?> configs) {
    }

    @Override
    public void close() {
    }
}
