// Apache Flink's own Kafka connector against a broker: a job copies a topic into two others with exactly-once
// delivery, one by each way Flink has of naming its transactions, fails once in the middle and recovers. Its
// checkpoints, transactions and group offsets must come out right on any broker that calls itself Kafka.
//
//     java -cp 'libs/*:classes' ExactlyOnce BOOTSTRAP NAME
//
// Prints one line per fact that was checked; the first that does not hold ends the program with status 1.

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.TransactionNamingStrategy;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.core.execution.CheckpointingMode;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public final class ExactlyOnce {
    private static final int PARTITIONS = 2;
    private static final int BATCH = 2000;
    private static final String POISON = "poison";
    private static final Duration LIMIT = Duration.ofSeconds(60);
    /** How often the poison was met; static, because each attempt works on a fresh copy of the function. */
    private static final AtomicInteger MET = new AtomicInteger();

    private final String bootstrap;
    private final String group;
    private final String source;
    private final List<String> targets;

    private ExactlyOnce(String bootstrap, String name) {
        this.bootstrap = bootstrap;
        this.group = name + "-group";
        this.source = name + "-source";
        this.targets = List.of(name + "-incrementing", name + "-pooling");
    }

    public static void main(String[] args) throws Exception {
        new ExactlyOnce(args[0], args[1]).run();
        System.exit(0); // Flink leaves threads behind.
    }

    private void run() throws Exception {
        try (Admin admin = Admin.create(properties());
                KafkaProducer<String, String> producer = new KafkaProducer<>(producerProperties())) {
            List<NewTopic> topics = new ArrayList<>(List.of(new NewTopic(source, PARTITIONS, (short) 1)));
            targets.forEach(target -> topics.add(new NewTopic(target, PARTITIONS, (short) 1)));
            admin.createTopics(topics).all().get(30, TimeUnit.SECONDS);
            JobClient job = submit();
            Map<String, Reader> readers = new HashMap<>();
            targets.forEach(target -> readers.put(target, new Reader(target)));

            send(producer, 0, false);
            for (Reader reader : readers.values()) {
                reader.readUntil(BATCH, job);
            }
            report("the first batch came by completed checkpoints");
            send(producer, BATCH, true);
            send(producer, 2 * BATCH, false);
            for (String target : targets) {
                readers.get(target).readUntil(3 * BATCH, job);
            }
            report("all batches came; the poison was met " + MET.get() + " times, so the job failed once and read again");
            check(MET.get() == 2, "the job fails once");
            awaitCommitted(admin);
            report("the group's committed offsets are the ends of its topic");
            job.cancel().get(30, TimeUnit.SECONDS);
            awaitEnd(job);
            for (String target : targets) {
                readers.get(target).checkExactlyOnce(admin);
                String strategy = target.substring(target.lastIndexOf('-') + 1);
                report("transactions named by " + strategy + ": " + 3 * BATCH + " records, each once");
            }
        }
    }

    private JobClient submit() throws Exception {
        Configuration configuration = new Configuration();
        configuration.setString("restart-strategy.type", "fixed-delay");
        configuration.setString("restart-strategy.fixed-delay.attempts", "1");
        configuration.setString("restart-strategy.fixed-delay.delay", "0 s");
        configuration.setString("taskmanager.memory.network.min", "16 mb");
        configuration.setString("taskmanager.memory.network.max", "16 mb");
        configuration.setString("taskmanager.memory.managed.size", "16 mb");
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(PARTITIONS, configuration);
        env.enableCheckpointing(200, CheckpointingMode.EXACTLY_ONCE);
        KafkaSource<String> input = KafkaSource.<String>builder()
                .setBootstrapServers(bootstrap)
                .setTopics(source)
                .setGroupId(group)
                .setStartingOffsets(OffsetsInitializer.earliest())
                .setValueOnlyDeserializer(new SimpleStringSchema())
                .build();
        DataStream<String> rows = env.fromSource(input, WatermarkStrategy.noWatermarks(), "in").map(new FailsOnce());
        for (String target : targets) {
            rows.sinkTo(sink(target));
        }
        return env.executeAsync("exactly once");
    }

    private KafkaSink<String> sink(String target) {
        TransactionNamingStrategy naming = target.endsWith("pooling")
                ? TransactionNamingStrategy.POOLING
                : TransactionNamingStrategy.INCREMENTING;
        return KafkaSink.<String>builder()
                .setBootstrapServers(bootstrap)
                .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                .setTransactionalIdPrefix(target)
                .setTransactionNamingStrategy(naming)
                .setProperty(ProducerConfig.TRANSACTION_TIMEOUT_CONFIG, "60000")
                .setRecordSerializer(KafkaRecordSerializationSchema.builder()
                        .setTopic(target)
                        .setValueSerializationSchema(new SimpleStringSchema())
                        .build())
                .build();
    }

    /** Passes rows on; at the first sight of the poison the job fails, with the rows before it already sent. */
    private static final class FailsOnce implements MapFunction<String, String> {
        private static final long serialVersionUID = 1;

        @Override
        public String map(String row) {
            if (row.startsWith(POISON) && MET.getAndIncrement() == 0) {
                throw new IllegalStateException("a failure as planned");
            }
            return row.substring(row.indexOf(':') + 1);
        }
    }

    /** Sends rows {@code from .. from + BATCH}; the one in the middle may be poison. */
    private void send(KafkaProducer<String, String> producer, int from, boolean poison) {
        for (int row = from; row < from + BATCH; row++) {
            String mark = poison && row == from + BATCH / 2 ? POISON : "row";
            producer.send(new ProducerRecord<>(source, row % PARTITIONS, null, mark + ":" + row));
        }
        producer.flush();
    }

    /** Reads committed records of a target, from its beginning. */
    private final class Reader {
        private final KafkaConsumer<String, String> consumer;
        private final List<TopicPartition> partitions;
        private final List<Integer> rows = new ArrayList<>();

        Reader(String target) {
            Properties properties = properties();
            properties.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed");
            properties.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
            consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
            partitions = IntStream.range(0, PARTITIONS).mapToObj(p -> new TopicPartition(target, p)).toList();
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
        }

        void readUntil(int count, JobClient job) throws Exception {
            long end = System.nanoTime() + LIMIT.toNanos();
            while (rows.size() < count) {
                JobStatus status = job.getJobStatus().get(10, TimeUnit.SECONDS);
                check(!status.isGloballyTerminalState(), "the job goes on, but it is " + status);
                check(System.nanoTime() < end, count + " rows come in time, but only " + rows.size() + " came");
                take(Duration.ofMillis(100));
            }
        }

        private void take(Duration limit) {
            for (ConsumerRecord<String, String> record : consumer.poll(limit)) {
                rows.add(Integer.valueOf(record.value()));
            }
        }

        /** Reads to the end of what is committed: every row once, and no transaction left open before it. */
        void checkExactlyOnce(Admin admin) throws Exception {
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            long limit = System.nanoTime() + LIMIT.toNanos();
            while (partitions.stream().anyMatch(p -> consumer.position(p) < ends.get(p))) {
                check(System.nanoTime() < limit, "the end of what is committed is reached");
                take(Duration.ofMillis(100));
            }
            List<Integer> sorted = rows.stream().sorted().toList();
            List<Integer> expected = IntStream.range(0, 3 * BATCH).boxed().toList();
            check(sorted.equals(expected), "each row is there once, but there are " + rows.size() + " rows");
            consumer.close();
        }
    }

    private void awaitCommitted(Admin admin) throws Exception {
        Map<TopicPartition, OffsetSpec> latest = new HashMap<>();
        IntStream.range(0, PARTITIONS).forEach(p -> latest.put(new TopicPartition(source, p), OffsetSpec.latest()));
        Map<TopicPartition, Long> ends = new HashMap<>();
        admin.listOffsets(latest).all().get(30, TimeUnit.SECONDS).forEach((p, end) -> ends.put(p, end.offset()));
        long limit = System.nanoTime() + LIMIT.toNanos();
        Map<TopicPartition, Long> committed = new HashMap<>();
        while (!committed.equals(ends)) {
            check(System.nanoTime() < limit, "the group commits " + ends + ", but it has committed " + committed);
            Map<TopicPartition, OffsetAndMetadata> offsets = admin.listConsumerGroupOffsets(group)
                    .partitionsToOffsetAndMetadata().get(30, TimeUnit.SECONDS);
            offsets.forEach((partition, offset) -> committed.put(partition, offset.offset()));
        }
    }

    /** Waits until a cancelled job is over. Its cluster goes with it, and cannot be asked from then on. */
    private static void awaitEnd(JobClient job) throws Exception {
        long limit = System.nanoTime() + LIMIT.toNanos();
        try {
            while (job.getJobStatus().get(10, TimeUnit.SECONDS) != JobStatus.CANCELED) {
                check(System.nanoTime() < limit, "the job ends");
            }
        } catch (IllegalStateException | ExecutionException clusterIsGone) {
            System.err.println("the cluster went before its job was asked: " + clusterIsGone.getMessage());
        }
    }

    private Properties properties() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        return properties;
    }

    private Properties producerProperties() {
        Properties properties = properties();
        properties.put(ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, StringSerializer.class);
        properties.put(ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, StringSerializer.class);
        return properties;
    }

    private static void check(boolean holds, String fact) {
        if (!holds) {
            System.err.println("does not hold: " + fact);
            System.exit(1);
        }
    }

    private static void report(String fact) {
        System.out.println(fact);
    }
}
