package oracle;

import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.utils.Utils;

import java.nio.ByteBuffer;

/** Encodes and decodes messages with this release's classes. */
final class Wire {
    private Wire() { }

    static byte[] bytes(ApiMessage data, short version) {
        return Utils.toArray(MessageUtil.toByteBuffer(data, version));
    }

    static AbstractRequest parse(ApiKeys api, short version, byte[] bytes) {
        return AbstractRequest.parseRequest(api, version, ByteBuffer.wrap(bytes)).request;
    }
}
