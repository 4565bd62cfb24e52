package org.apache.kafka.clients.consumer;

import oracle.Json;

import com.fasterxml.jackson.databind.node.ObjectNode;

import java.nio.ByteBuffer;
import java.util.List;

/** What the sticky assignors make of a member's user data; in this package because they keep that to it. */
public final class StickyUserData {
    private StickyUserData() { }

    /** bytes may be null. The subscription around them is empty, so that everything found comes from the user data. */
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
