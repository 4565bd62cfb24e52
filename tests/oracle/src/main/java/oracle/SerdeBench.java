package oracle;

import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecordSerde;
import org.apache.kafka.coordinator.common.runtime.Deserializer;
import org.apache.kafka.coordinator.group.Release;

import com.fasterxml.jackson.databind.node.ObjectNode;

import java.io.DataInputStream;
import java.io.File;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * Measures Kafka's own serde on one thread after JIT warm-up, for comparison with quorate's codecs in the same run.
 *
 * decode, encode: FILE holds pairs of int32 key length, key, int32 value length or -1, value (big-endian), all loaded before the first round.
 * segment: FILE is a log segment; a round reads it through FileRecords into a buffer, as the coordinator's loader does, checks each batch and
 * deserialises each record. Usage: SerdeBench FILE decode|encode|segment [TOPIC]. One JSON object on stdout.
 */
public final class SerdeBench {
    /** -Dserde.warmUpMs, -Dserde.roundMs: shorter ones are for tests of this program only, their figures are invalid. */
    private static final long WARM_UP_NS = Long.getLong("serde.warmUpMs", 7_000) * 1_000_000;
    private static final long ROUND_NS = Long.getLong("serde.roundMs", 400) * 1_000_000;
    private static final int MAX_ROUNDS = 60;
    /** The default of offsets.load.buffer.size. */
    private static final int LOAD_BUFFER = 5 * 1024 * 1024;

    /**
     * The latest results, so that the JIT cannot remove a round as dead code. Each pass has a new ring: an old one would cost the
     * collector's write barrier for every record.
     */
    private static Object[] kept = new Object[64];
    private static long skipped = 0;

    /** Processes all data once and returns the number of records. */
    private interface Pass {
        long run() throws IOException;
    }

    public static void main(String[] args) throws IOException {
        PrintStream stdout = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        if (args.length < 2 || args.length > 3) {
            System.err.println("usage: SerdeBench FILE decode|encode|segment [TOPIC]");
            System.exit(2);
        }
        File file = new File(args[0]);
        ObjectNode in = Json.obj();
        if (args.length == 3) in.put("topic", args[2]);
        CoordinatorRecordSerde serde = RecordTopic.of(in).serde();
        Pass pass = switch (args[1]) {
            case "decode" -> decode(serde, pairs(file.toPath()));
            case "encode" -> encode(serde, pairs(file.toPath()));
            case "segment" -> segment(serde, file);
            default -> throw new IllegalArgumentException("no mode " + args[1]);
        };
        ObjectNode out = Json.obj().put("mode", args[1]).put("kafka", Release.version()).put("java", Runtime.version().toString());
        measure(pass, out);
        out.put("bytes", file.length());
        stdout.println(out);
        // Read the ring, so that the JIT cannot remove the writes to it.
        int live = 0;
        for (Object o : kept) if (o != null) live += o.hashCode();
        System.exit(live == Integer.MIN_VALUE ? 3 : 0);
    }

    /** Warms up, then measures rounds of whole passes until three in a row lie within 5 %. */
    private static void measure(Pass pass, ObjectNode out) throws IOException {
        long start = System.nanoTime();
        long records = pass.run();
        long first = System.nanoTime() - start;
        out.put("records", records).put("skipped", skipped);
        if (records == 0) throw new IllegalArgumentException("no records");
        out.put("first_round_records_per_s", records * 1e9 / first);
        while (System.nanoTime() - start < WARM_UP_NS) pass.run();

        List<Double> rounds = new ArrayList<>();
        boolean steady = false;
        while (!steady && rounds.size() < MAX_ROUNDS) {
            long n = 0;
            long from = System.nanoTime();
            long now;
            do {
                n += pass.run();
                now = System.nanoTime();
            } while (now - from < ROUND_NS);
            rounds.add((double) (now - from) / n);
            steady = rounds.size() >= 3 && spread(rounds.subList(rounds.size() - 3, rounds.size())) <= 1.05;
        }
        List<Double> last = rounds.subList(Math.max(0, rounds.size() - 3), rounds.size());
        double ns = last.stream().sorted().skip(last.size() / 2).findFirst().orElseThrow();
        out.put("ns_per_record", ns).put("records_per_s", 1e9 / ns);
        out.put("rounds", rounds.size()).put("steady", steady);
    }

    private static double spread(List<Double> rounds) {
        return rounds.stream().mapToDouble(d -> d).max().orElseThrow() / rounds.stream().mapToDouble(d -> d).min().orElseThrow();
    }

    private static Pass decode(CoordinatorRecordSerde serde, List<ByteBuffer[]> pairs) {
        return () -> {
            Object[] ring = kept = new Object[64];
            for (int i = 0; i < pairs.size(); i++) {
                ByteBuffer[] pair = pairs.get(i);
                ring[i & 63] = serde.deserialize(pair[0].duplicate(), pair[1] == null ? null : pair[1].duplicate());
            }
            return pairs.size();
        };
    }

    private static Pass encode(CoordinatorRecordSerde serde, List<ByteBuffer[]> pairs) {
        List<CoordinatorRecord> records = new ArrayList<>();
        for (ByteBuffer[] pair : pairs) {
            records.add(serde.deserialize(pair[0].duplicate(), pair[1] == null ? null : pair[1].duplicate()));
        }
        return () -> {
            Object[] ring = kept = new Object[64];
            for (int i = 0; i < records.size(); i++) {
                ring[2 * i & 63] = serde.serializeKey(records.get(i));
                ring[2 * i + 1 & 63] = serde.serializeValue(records.get(i));
            }
            return records.size();
        };
    }

    private static Pass segment(CoordinatorRecordSerde serde, File file) {
        ByteBuffer[] reused = {ByteBuffer.allocate(LOAD_BUFFER)};
        return () -> {
            Object[] ring = kept = new Object[64];
            skipped = 0;
            long n = 0;
            ByteBuffer buffer = reused[0];
            try (FileRecords records = FileRecords.open(file, false)) {
                int position = 0;
                while (position < records.sizeInBytes()) {
                    buffer.clear();
                    records.slice(position, buffer.capacity()).readInto(buffer, 0);
                    MemoryRecords chunk = MemoryRecords.readableRecords(buffer);
                    int read = 0;
                    for (MutableRecordBatch batch : chunk.batches()) {
                        batch.ensureValid();
                        read += batch.sizeInBytes();
                        if (batch.isControlBatch()) continue;
                        for (Record r : batch) {
                            try {
                                ring[(int) n & 63] = serde.deserialize(r.key(), r.value());
                            } catch (Deserializer.UnknownRecordTypeException e) {
                                skipped++;
                            }
                            n++;
                        }
                    }
                    if (read > 0) {
                        position += read;
                    } else {
                        Integer need = chunk.firstBatchSize();
                        // A torn tail ends the file, as in the loader's log.
                        if (need == null || need > records.sizeInBytes() - position) break;
                        buffer = reused[0] = ByteBuffer.allocate(need);
                    }
                }
            }
            return n;
        };
    }

    private static List<ByteBuffer[]> pairs(Path path) throws IOException {
        List<ByteBuffer[]> out = new ArrayList<>();
        try (DataInputStream in = new DataInputStream(new java.io.BufferedInputStream(Files.newInputStream(path), 1 << 20))) {
            while (true) {
                in.mark(1);
                if (in.read() < 0) return out;
                in.reset();
                out.add(new ByteBuffer[] {read(in), read(in)});
            }
        }
    }

    private static ByteBuffer read(DataInputStream in) throws IOException {
        int n = in.readInt();
        if (n < 0) return null;
        byte[] bytes = new byte[n];
        in.readFully(bytes);
        return ByteBuffer.wrap(bytes);
    }
}
