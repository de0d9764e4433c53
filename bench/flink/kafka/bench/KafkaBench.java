package bench;

import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.time.Duration;
import java.util.*;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.*;
import org.apache.flink.api.common.typeinfo.*;
import org.apache.flink.api.java.tuple.*;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.*;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.streaming.api.datastream.*;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** Kafka to Kafka, exactly once: the workloads of crates/kafka-bench. Records are bytes as described in its workload.rs. */
public final class KafkaBench {
    static final TypeInformation<Tuple2<byte[], byte[]>> MESSAGE =
            Types.TUPLE(PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO, PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO);
    static final TypeInformation<Tuple3<Long, Long, Long>> PAYMENT = Types.TUPLE(Types.LONG, Types.LONG, Types.LONG);

    /** Key and value as they are. */
    static final class Raw implements KafkaRecordDeserializationSchema<Tuple2<byte[], byte[]>> {
        @Override public void deserialize(ConsumerRecord<byte[], byte[]> r, Collector<Tuple2<byte[], byte[]>> out) { out.collect(Tuple2.of(r.key(), r.value())); }
        @Override public TypeInformation<Tuple2<byte[], byte[]>> getProducedType() { return MESSAGE; }
    }

    /** Account, time, amount. */
    static final class Payments implements KafkaRecordDeserializationSchema<Tuple3<Long, Long, Long>> {
        @Override public void deserialize(ConsumerRecord<byte[], byte[]> r, Collector<Tuple3<Long, Long, Long>> out) {
            ByteBuffer value = ByteBuffer.wrap(r.value());
            out.collect(Tuple3.of(ByteBuffer.wrap(r.key()).getLong(), value.getLong(8), value.getLong(16)));
        }
        @Override public TypeInformation<Tuple3<Long, Long, Long>> getProducedType() { return PAYMENT; }
    }

    static final class ToTopic implements KafkaRecordSerializationSchema<Tuple2<byte[], byte[]>> {
        final String topic;
        ToTopic(String topic) { this.topic = topic; }
        @Override public ProducerRecord<byte[], byte[]> serialize(Tuple2<byte[], byte[]> m, KafkaSinkContext c, Long time) {
            return new ProducerRecord<>(topic, m.f0, m.f1);
        }
    }

    /** Writes down what the TaskManager's process cost while its operator was open. */
    static final class Cost {
        final String directory;
        final long began = System.nanoTime(), processor = processor();
        Cost(String directory) { this.directory = directory; }
        static long processor() { return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime(); }
        void close() throws Exception {
            String line = String.format(Locale.ROOT, "cpu_s=%.3f wall_s=%.3f", (processor() - processor) / 1e9, (System.nanoTime() - began) / 1e9);
            Files.write(Paths.get(directory, "cost"), line.getBytes(StandardCharsets.US_ASCII));
        }
    }

    static final class Capitals extends RichMapFunction<Tuple2<byte[], byte[]>, Tuple2<byte[], byte[]>> {
        final String directory; transient Cost cost;
        Capitals(String directory) { this.directory = directory; }
        @Override public void open(OpenContext c) { cost = new Cost(directory); }
        @Override public void close() throws Exception { if (cost != null) cost.close(); }
        @Override public Tuple2<byte[], byte[]> map(Tuple2<byte[], byte[]> m) {
            byte[] value = m.f1;
            for (int i = 0; i < value.length; i++) if (value[i] >= 'a' && value[i] <= 'z') value[i] -= 32;
            return m;
        }
    }

    /** Count and sum, with the key for the message. */
    static final class CountSum implements AggregateFunction<Tuple3<Long, Long, Long>, Tuple2<Long, Long>, Tuple2<Long, Long>> {
        @Override public Tuple2<Long, Long> createAccumulator() { return Tuple2.of(0L, 0L); }
        @Override public Tuple2<Long, Long> add(Tuple3<Long, Long, Long> p, Tuple2<Long, Long> a) { a.f0++; a.f1 += p.f2; return a; }
        @Override public Tuple2<Long, Long> getResult(Tuple2<Long, Long> a) { return a; }
        @Override public Tuple2<Long, Long> merge(Tuple2<Long, Long> a, Tuple2<Long, Long> b) { a.f0 += b.f0; a.f1 += b.f1; return a; }
    }

    static final class ToMessage extends ProcessWindowFunction<Tuple2<Long, Long>, Tuple2<byte[], byte[]>, Long, TimeWindow> {
        final String directory; transient Cost cost;
        ToMessage(String directory) { this.directory = directory; }
        @Override public void open(OpenContext c) { cost = new Cost(directory); }
        @Override public void close() throws Exception { if (cost != null) cost.close(); }
        @Override public void process(Long key, Context c, Iterable<Tuple2<Long, Long>> in, Collector<Tuple2<byte[], byte[]>> out) {
            Tuple2<Long, Long> total = in.iterator().next();
            byte[] value = ByteBuffer.allocate(24).putLong(c.window().getStart()).putLong(total.f0).putLong(total.f1).array();
            out.collect(Tuple2.of(ByteBuffer.allocate(8).putLong(key).array(), value));
        }
    }

    static <T> KafkaSource<T> source(Args a, KafkaRecordDeserializationSchema<T> schema) {
        OffsetsInitializer end = OffsetsInitializer.latest();
        if (a.map.containsKey("records")) { // dealt out to the partitions in turn
            long records = a.num("records", 0), partitions = a.num("partitions", 1);
            Map<TopicPartition, Long> ends = new HashMap<>();
            for (int p = 0; p < partitions; p++) ends.put(new TopicPartition(a.get("in", ""), p), records / partitions + (p < records % partitions ? 1 : 0));
            end = OffsetsInitializer.offsets(ends);
        }
        return KafkaSource.<T>builder().setBootstrapServers(a.get("brokers", "")).setTopics(a.get("in", "")).setGroupId("flink-" + a.get("in", ""))
                .setStartingOffsets(OffsetsInitializer.earliest()).setBounded(end).setDeserializer(schema)
                .setProperty("isolation.level", "read_committed").setProperty("fetch.max.wait.ms", "50").build();
    }

    public static void main(String[] argv) throws Exception {
        Args a = new Args(argv);
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(a.flink());
        String directory = a.get("resultDir", "");
        DataStream<Tuple2<byte[], byte[]>> messages;
        if (a.get("workload", "copy").equals("copy")) {
            messages = env.fromSource(source(a, new Raw()), WatermarkStrategy.noWatermarks(), "in").map(new Capitals(directory)).returns(MESSAGE);
        } else {
            TypeInformation<Tuple2<Long, Long>> pair = Types.TUPLE(Types.LONG, Types.LONG);
            WatermarkStrategy<Tuple3<Long, Long, Long>> times =
                    WatermarkStrategy.<Tuple3<Long, Long, Long>>forMonotonousTimestamps().withTimestampAssigner((p, t) -> p.f1);
            messages = env.fromSource(source(a, new Payments()), times, "in").keyBy(p -> p.f0, Types.LONG)
                    .window(TumblingEventTimeWindows.of(Duration.ofSeconds(1))).aggregate(new CountSum(), new ToMessage(directory), pair, pair, MESSAGE);
        }
        messages.sinkTo(KafkaSink.<Tuple2<byte[], byte[]>>builder().setBootstrapServers(a.get("brokers", ""))
                .setRecordSerializer(new ToTopic(a.get("out", ""))).setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                .setTransactionalIdPrefix("flink-" + a.get("out", "")).setProperty("transaction.timeout.ms", "600000")
                .setProperty("linger.ms", "5").setProperty("batch.size", "" + (1 << 18)).setProperty("buffer.memory", "" + (1 << 26)).build());
        env.execute("kafka");
        String cost = Files.readString(Paths.get(directory, "cost"));
        System.out.println(a.head("kafka-" + a.get("workload", "copy")) + " " + cost);
    }
}
