package org.apache.kafka.clients.consumer;

import oracle.Json;

import com.fasterxml.jackson.databind.node.ObjectNode;

import java.nio.ByteBuffer;
import java.util.List;

/** Reads user data with the sticky assignors. Their methods are package-private, hence this package. */
public final class StickyUserData {
    private StickyUserData() { }

    /** Reads user data, which may be null, in an empty subscription, so that all results are from the user data. */
    public static ObjectNode read(boolean cooperative, byte[] bytes) {
        var subscription = new ConsumerPartitionAssignor.Subscription(List.of(), bytes == null ? null : ByteBuffer.wrap(bytes));
        var data = cooperative ? new CooperativeStickyAssignor().memberData(subscription) : new StickyAssignor().memberData(subscription);
        ObjectNode out = Json.obj();
        var partitions = out.putArray("partitions");
        data.partitions.forEach(tp -> partitions.addObject().put("topic", tp.topic()).put("partition", tp.partition()));
        out.put("generation", data.generation.orElse(null));
        return out;
    }
}
