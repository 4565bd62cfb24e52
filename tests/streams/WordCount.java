import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * An instance of an application that counts words: bootstrap application input output [name=value]...
 *
 * The words go through a repartition topic, and the counts are in a store with a changelog, in memory. Each change of a count is
 * written to the output, as text. The remaining arguments are configs. Prints a line of JSON for each state and each exception. Ends
 * when stdin does.
 */
public final class WordCount {
    public static void main(String[] a) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", a[0]);
        p.put("application.id", a[1]);
        p.put("auto.offset.reset", "earliest");
        p.put("metadata.max.age.ms", "1000");
        p.put("commit.interval.ms", "100");
        p.put("statestore.cache.max.bytes", "0");
        for (String one : Arrays.asList(a).subList(4, a.length)) {
            int at = one.indexOf('=');
            p.put(one.substring(0, at), one.substring(at + 1));
        }
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(a[2], Consumed.with(Serdes.String(), Serdes.String()))
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with("words", Serdes.String(), Serdes.String()))
            .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts")).withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream()
            .mapValues(String::valueOf)
            .to(a[3], Produced.with(Serdes.String(), Serdes.String()));

        try (KafkaStreams streams = new KafkaStreams(builder.build(), p)) {
            streams.setStateListener((now, before) -> line("state", now.toString()));
            streams.setUncaughtExceptionHandler(e -> {
                line("exception", String.valueOf(e));
                e.printStackTrace();
                return StreamThreadExceptionResponse.REPLACE_THREAD;
            });
            streams.start();
            while (System.in.read() >= 0) { }
            streams.close(Duration.ofMinutes(2));
        }
    }

    private static void line(String event, String detail) {
        System.out.println("{\"event\":\"" + event + "\",\"detail\":\"" + detail.replaceAll("[\"\\\\\\p{Cntrl}]", " ") + "\"}");
        System.out.flush();
    }
}
