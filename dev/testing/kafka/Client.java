// Kafka's own Java client against a broker: everything a program does with one, said in facts that must be the
// same on every broker.
//
//     java -cp 'libs/*:classes' Client BOOTSTRAP NAME [SCENARIO...]
//
// Prints one line per scenario; a scenario that fails ends the program with its stack trace and status 1.
// Nothing printed may depend on time, on ports or on NAME, which keeps the topics of several runs apart.

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public final class Client {
    private static final Duration LIMIT = Duration.ofSeconds(30);
    private static final long START_MS = 1_790_848_800_000L;

    private final String bootstrap;
    private final String name;
    private final Admin admin;

    private Client(String bootstrap, String name) {
        this.bootstrap = bootstrap;
        this.name = name;
        this.admin = Admin.create(properties());
    }

    public static void main(String[] args) throws Exception {
        Client client = new Client(args[0], args[1]);
        Set<String> wanted = Set.of(Arrays.copyOfRange(args, 2, args.length));
        for (Map.Entry<String, Callable<Object>> scenario : client.scenarios().entrySet()) {
            if (wanted.isEmpty() || wanted.contains(scenario.getKey())) {
                System.out.println(scenario.getKey() + ": " + scenario.getValue().call());
            }
        }
        client.admin.close();
    }

    private Map<String, Callable<Object>> scenarios() {
        Map<String, Callable<Object>> scenarios = new LinkedHashMap<>();
        scenarios.put("records", this::records);
        scenarios.put("compression", this::compression);
        scenarios.put("rejected records", this::rejectedRecords);
        scenarios.put("append time", this::appendTime);
        scenarios.put("group", this::group);
        scenarios.put("static member", this::staticMember);
        scenarios.put("commits", this::commits);
        scenarios.put("transactions", this::transactions);
        scenarios.put("fencing", this::fencing);
        scenarios.put("offsets in transactions", this::offsetsInTransactions);
        scenarios.put("transaction timeout", this::transactionTimeout);
        scenarios.put("topics", this::topics);
        scenarios.put("configs", this::configs);
        scenarios.put("offsets", this::offsets);
        scenarios.put("deleted records", this::deletedRecords);
        scenarios.put("groups", this::groups);
        scenarios.put("open transactions", this::openTransactions);
        return scenarios;
    }

    // ---------------------------------------------------------------------------------------- records

    private Object records() throws Exception {
        String topic = create("records", 3, Map.of());
        try (KafkaProducer<String, String> producer = producer(Map.of())) {
            for (int i = 0; i < 300; i++) {
                ProducerRecord<String, String> record = new ProducerRecord<>(topic, null, START_MS + i, "k" + i, "v" + i);
                record.headers().add("h", ("x" + i).getBytes());
                producer.send(record);
            }
        }
        List<ConsumerRecord<String, String>> all = readAll(topic, 3, "read_committed");
        ConsumerRecord<String, String> seven = all.stream().filter(r -> r.value().equals("v7")).findFirst().orElseThrow();
        return countsByPartition(all) + " " + seven.key() + " " + (seven.timestamp() - START_MS) + " "
                + seven.timestampType() + " " + new String(seven.headers().lastHeader("h").value()) + " epoch "
                + seven.leaderEpoch() + " offset " + seven.offset();
    }

    private Object compression() throws Exception {
        List<String> facts = new ArrayList<>();
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            String topic = create("compressed-" + codec, 1, Map.of());
            try (KafkaProducer<String, String> producer = producer(Map.of("compression.type", codec, "linger.ms", "20"))) {
                for (int i = 0; i < 500; i++) {
                    producer.send(new ProducerRecord<>(topic, "{\"x\":" + i + ",\"y\":\"" + "a".repeat(80) + "\"}"));
                }
            }
            List<ConsumerRecord<String, String>> all = readAll(topic, 1, "read_committed");
            check(all.get(499).value().startsWith("{\"x\":499,"), "the last record comes last");
            facts.add(codec + " " + all.size());
        }
        return facts;
    }

    private Object rejectedRecords() throws Exception {
        String compacted = create("compacted", 1, Map.of("cleanup.policy", "compact"));
        String small = create("small", 1, Map.of("max.message.bytes", "2000"));
        try (KafkaProducer<String, String> producer = producer(Map.of())) {
            String noKey = failure(() -> producer.send(new ProducerRecord<>(compacted, "v")).get());
            String large = failure(() -> producer.send(new ProducerRecord<>(small, "v".repeat(3000))).get());
            producer.send(new ProducerRecord<>(small, "fits")).get();
            String partition = failure(() -> producer.send(new ProducerRecord<>(small, -1, null, "v")).get());
            return List.of(noKey, large, partition, readAll(small, 1, "read_committed").size());
        }
    }

    private Object appendTime() throws Exception {
        String topic = create("append-time", 1, Map.of("message.timestamp.type", "LogAppendTime"));
        try (KafkaProducer<String, String> producer = producer(Map.of())) {
            long answered = producer.send(new ProducerRecord<>(topic, 0, START_MS, null, "v")).get().timestamp();
            ConsumerRecord<String, String> read = readAll(topic, 1, "read_committed").get(0);
            check(read.timestamp() == answered, "reader and writer see one time: " + read.timestamp() + ", " + answered);
            return read.timestampType() + ", its own time is kept: " + (read.timestamp() == START_MS);
        }
    }

    // ---------------------------------------------------------------------------------------- groups

    private Object group() throws Exception {
        String topic = create("group", 4, Map.of());
        send(topic, 4, 400, "v");
        String group = name + "-group";
        Map<String, String> settings = Map.of("partition.assignment.strategy", CooperativeStickyAssignor.class.getName());
        List<ConsumerRecord<String, String>> seen = new ArrayList<>();
        List<Object> facts = new ArrayList<>();
        try (KafkaConsumer<String, String> first = consumer(group, "read_committed", settings)) {
            try (KafkaConsumer<String, String> second = consumer(group, "read_committed", settings)) {
                first.subscribe(List.of(topic));
                second.subscribe(List.of(topic));
                List<KafkaConsumer<String, String>> both = List.of(first, second);
                await("two members share", () -> {
                    both.forEach(c -> c.poll(Duration.ofMillis(50)).forEach(seen::add));
                    return first.assignment().size() == 2 && second.assignment().size() == 2 && seen.size() >= 400;
                });
                facts.add("shared 2 + 2");
                both.forEach(KafkaConsumer::commitSync);
            }
            await("the one that stays takes all", () -> {
                first.poll(Duration.ofMillis(50)).forEach(seen::add);
                return first.assignment().size() == 4;
            });
            facts.add("left with 4");
        }
        facts.add(seen.stream().map(ConsumerRecord::value).distinct().count());
        try (KafkaConsumer<String, String> later = consumer(group, "read_committed", settings)) {
            later.subscribe(List.of(topic));
            await("assigned again", () -> {
                check(later.poll(Duration.ofMillis(50)).isEmpty(), "committed records do not come again");
                return later.assignment().size() == 4;
            });
            facts.add(later.assignment().stream().mapToLong(later::position).sum());
        }
        return facts;
    }

    private Object staticMember() throws Exception {
        String topic = create("static", 2, Map.of());
        String group = name + "-static";
        Map<String, String> settings = Map.of("group.instance.id", "one");
        List<Object> facts = new ArrayList<>();
        int generation = 0;
        for (int life = 0; life < 2; life++) {
            try (KafkaConsumer<String, String> member = consumer(group, "read_committed", settings)) {
                member.subscribe(List.of(topic));
                await("assigned", () -> member.poll(Duration.ofMillis(50)) != null && member.assignment().size() == 2);
                generation = member.groupMetadata().generationId();
                facts.add("generation " + generation);
            }
        }
        try (KafkaConsumer<String, String> old = consumer(group, "read_committed", settings);
                KafkaConsumer<String, String> twin = consumer(group, "read_committed", settings)) {
            for (KafkaConsumer<String, String> member : List.of(old, twin)) {
                member.subscribe(List.of(topic));
                await("assigned", () -> member.poll(Duration.ofMillis(50)) != null && member.assignment().size() == 2);
            }
            facts.add(failure(() -> {
                await("the older twin is fenced", () -> {
                    old.poll(Duration.ofMillis(50));
                    old.commitSync(Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(1)));
                    return false;
                });
                return null;
            }));
        }
        return facts;
    }

    private Object commits() throws Exception {
        String topic = create("commits", 3, Map.of());
        TopicPartition zero = new TopicPartition(topic, 0);
        TopicPartition one = new TopicPartition(topic, 1);
        try (KafkaConsumer<String, String> consumer = consumer(name + "-commits", "read_committed", Map.of())) {
            consumer.commitSync(Map.of(
                    zero, new OffsetAndMetadata(42, Optional.of(0), "checkpoint 7"), one, new OffsetAndMetadata(5)));
            Map<TopicPartition, OffsetAndMetadata> committed =
                    consumer.committed(Set.of(zero, one, new TopicPartition(topic, 2)));
            OffsetAndMetadata first = committed.get(zero);
            return first.offset() + " '" + first.metadata() + "' epoch " + first.leaderEpoch() + ", "
                    + committed.get(one).offset() + ", " + committed.get(new TopicPartition(topic, 2));
        }
    }

    // ---------------------------------------------------------------------------------------- transactions

    private Object transactions() throws Exception {
        String topic = create("transactions", 2, Map.of());
        List<Object> facts = new ArrayList<>();
        try (KafkaProducer<String, String> producer = transactional("tx")) {
            producer.initTransactions();
            producer.beginTransaction();
            send(producer, topic, 2, 20, "committed");
            producer.flush();
            facts.add("open " + count(topic, 2));
            producer.commitTransaction();
            facts.add("committed " + countSettled(topic, 2));
            producer.beginTransaction();
            send(producer, topic, 2, 20, "aborted");
            producer.flush();
            producer.abortTransaction();
            facts.add("aborted " + countSettled(topic, 2));
            for (int i = 0; i < 10; i++) {
                producer.beginTransaction();
                send(producer, topic, 2, 2, "small");
                producer.flush(); // What is not sent yet, an abort drops.
                if (i % 2 == 0) producer.commitTransaction(); else producer.abortTransaction();
            }
            producer.beginTransaction();
            producer.commitTransaction();
            facts.add("after ten more " + countSettled(topic, 2));
        }
        try (KafkaProducer<String, String> again = transactional("tx")) {
            again.initTransactions();
            again.beginTransaction();
            send(again, topic, 2, 2, "next life");
            again.commitTransaction();
        }
        facts.add("next life " + countSettled(topic, 2));
        boolean clean = readAll(topic, 2, "read_committed").stream().noneMatch(r -> r.value().startsWith("aborted"));
        facts.add("aborted records are hidden: " + clean);
        return facts;
    }

    private Object fencing() throws Exception {
        String topic = create("fencing", 1, Map.of());
        List<Object> facts = new ArrayList<>();
        try (KafkaProducer<String, String> zombie = transactional("fenced"); KafkaProducer<String, String> live = transactional("fenced")) {
            zombie.initTransactions();
            zombie.beginTransaction();
            zombie.send(new ProducerRecord<>(topic, "zombie")).get();
            live.initTransactions();
            facts.add("send " + failure(() -> zombie.send(new ProducerRecord<>(topic, "late")).get()));
            facts.add("commit " + failure(() -> {
                zombie.commitTransaction();
                return null;
            }));
            live.beginTransaction();
            live.send(new ProducerRecord<>(topic, "live")).get();
            live.commitTransaction();
        }
        facts.add(readAll(topic, 1, "read_committed").stream().map(ConsumerRecord::value).toList());
        facts.add(count(topic, 1));
        return facts;
    }

    private Object offsetsInTransactions() throws Exception {
        String topic = create("sent-offsets", 1, Map.of());
        TopicPartition partition = new TopicPartition(topic, 0);
        String group = name + "-sent-offsets";
        List<Object> facts = new ArrayList<>();
        try (KafkaProducer<String, String> producer = transactional("sends-offsets");
                KafkaConsumer<String, String> consumer = consumer(group, "read_committed", Map.of())) {
            consumer.subscribe(List.of(topic));
            await("assigned", () -> consumer.poll(Duration.ofMillis(50)) != null && !consumer.assignment().isEmpty());
            // Its own question for committed offsets must be over: the answer would be taken for that of ours.
            consumer.position(partition);
            producer.initTransactions();
            for (boolean commit : new boolean[] {true, false}) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, "v"));
                long offset = commit ? 7 : 9;
                producer.sendOffsetsToTransaction(
                        Map.of(partition, new OffsetAndMetadata(offset, "m" + offset)), consumer.groupMetadata());
                if (commit) producer.commitTransaction(); else producer.abortTransaction();
                OffsetAndMetadata found = consumer.committed(Set.of(partition)).get(partition);
                facts.add(found.offset() + " " + found.metadata());
            }
            ConsumerGroupMetadata old = consumer.groupMetadata();
            consumer.enforceRebalance();
            await("another generation", () -> consumer.poll(Duration.ofMillis(50)) != null
                    && consumer.groupMetadata().generationId() == old.generationId() + 1);
            producer.beginTransaction();
            facts.add("old generation " + failure(() -> {
                producer.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(11)), old);
                producer.commitTransaction();
                return null;
            }));
            producer.abortTransaction();
            facts.add(consumer.committed(Set.of(partition)).get(partition).offset());
        }
        return facts;
    }

    private Object transactionTimeout() throws Exception {
        String topic = create("times-out", 1, Map.of());
        Map<String, String> short_ = Map.of("transactional.id", name + "-times-out", "transaction.timeout.ms", "700",
                "delivery.timeout.ms", "600", "request.timeout.ms", "500", "linger.ms", "0");
        String tooLong = failure(() -> {
            Map<String, String> settings = Map.of("transactional.id", name + "-too-long", "transaction.timeout.ms", "900001");
            try (KafkaProducer<String, String> producer = producer(settings)) {
                producer.initTransactions();
                return null;
            }
        });
        try (KafkaProducer<String, String> producer = producer(short_)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "x")).get();
            send(topic, 1, 1, "plain");
            await("the transaction is aborted", () -> end(topic, 0, IsolationLevel.READ_COMMITTED) == 3);
            String commit = failure(() -> {
                producer.commitTransaction();
                return null;
            });
            return List.of(tooLong, "late commit " + commit, count(topic, 1));
        }
    }

    // ---------------------------------------------------------------------------------------- administration

    private Object topics() throws Exception {
        String topic = create("topics", 2, Map.of());
        List<Object> facts = new ArrayList<>();
        facts.add(failure(() -> admin.createTopics(List.of(new NewTopic(topic, 2, (short) 1))).all().get()));
        facts.add(failure(() -> admin.createTopics(List.of(new NewTopic("a b", 1, (short) 1))).all().get()));
        facts.add(failure(() -> admin.createTopics(List.of(new NewTopic(topic + "x", 0, (short) 1))).all().get()));
        facts.add(failure(() -> admin.createTopics(List.of(new NewTopic(topic + "x", 1, (short) 3))).all().get()));
        NewTopic wrong = new NewTopic(topic + "x", 1, (short) 1).configs(Map.of("retention.ms", "soon"));
        facts.add(failure(() -> admin.createTopics(List.of(wrong)).all().get()));
        facts.add(failure(() -> admin.describeTopics(List.of(topic + "x")).allTopicNames().get()));
        admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(5))).all().get();
        await("five partitions", () -> admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size() == 5);
        facts.add(failure(() -> admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get()));
        send(topic, 5, 10, "old");
        admin.deleteTopics(List.of(topic)).all().get();
        await("gone", () -> !admin.listTopics().names().get().contains(topic));
        facts.add(failure(() -> admin.deleteTopics(List.of(topic)).all().get()));
        create("topics", 2, Map.of());
        facts.add("made again, with " + readAll(topic, 2, "read_uncommitted").size() + " records");
        return facts;
    }

    private Object configs() throws Exception {
        String topic = create("configs", 1, Map.of("retention.ms", "1234567"));
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        List<AlterConfigOp> changes = List.of(
                new AlterConfigOp(new ConfigEntry("max.message.bytes", "5000"), AlterConfigOp.OpType.SET),
                new AlterConfigOp(new ConfigEntry("cleanup.policy", "compact"), AlterConfigOp.OpType.APPEND));
        admin.incrementalAlterConfigs(Map.of(resource, changes)).all().get();
        List<AlterConfigOp> wrong =
                List.of(new AlterConfigOp(new ConfigEntry("segment.bytes", "few"), AlterConfigOp.OpType.SET));
        String refused = failure(() -> admin.incrementalAlterConfigs(Map.of(resource, wrong)).all().get());
        await("changed", () -> config(resource, "max.message.bytes").startsWith("5000"));
        List<String> facts = new ArrayList<>(List.of(refused));
        for (String key : List.of("retention.ms", "max.message.bytes", "cleanup.policy", "segment.bytes")) {
            facts.add(key + "=" + config(resource, key));
        }
        admin.incrementalAlterConfigs(Map.of(resource, List.of(
                new AlterConfigOp(new ConfigEntry("max.message.bytes", ""), AlterConfigOp.OpType.DELETE)))).all().get();
        await("back", () -> config(resource, "max.message.bytes").endsWith("DEFAULT_CONFIG"));
        facts.add(config(resource, "max.message.bytes"));
        return facts;
    }

    private String config(ConfigResource resource, String key) throws Exception {
        ConfigEntry entry = admin.describeConfigs(List.of(resource)).all().get().get(resource).get(key);
        return entry.value() + " " + entry.source();
    }

    private Object offsets() throws Exception {
        String topic = create("offsets", 1, Map.of());
        try (KafkaProducer<String, String> producer = producer(Map.of())) {
            for (int time : new int[] {0, 10, 50, 20, 30}) {
                producer.send(new ProducerRecord<>(topic, 0, START_MS + time, null, "v")).get();
            }
        }
        TopicPartition partition = new TopicPartition(topic, 0);
        Map<String, OffsetSpec> queries = new TreeMap<>(Map.of(
                "earliest", OffsetSpec.earliest(), "latest", OffsetSpec.latest(), "largest", OffsetSpec.maxTimestamp(),
                "at 5", OffsetSpec.forTimestamp(START_MS + 5), "at 15", OffsetSpec.forTimestamp(START_MS + 15),
                "at 51", OffsetSpec.forTimestamp(START_MS + 51)));
        List<String> facts = new ArrayList<>();
        for (Map.Entry<String, OffsetSpec> query : queries.entrySet()) {
            var answer = admin.listOffsets(Map.of(partition, query.getValue())).all().get().get(partition);
            long time = answer.timestamp() < 0 ? answer.timestamp() : answer.timestamp() - START_MS;
            facts.add(query.getKey() + " -> " + answer.offset() + " time " + time + " epoch " + answer.leaderEpoch());
        }
        return facts;
    }

    private Object deletedRecords() throws Exception {
        String topic = create("deleted", 1, Map.of());
        send(topic, 1, 10, "v");
        TopicPartition partition = new TopicPartition(topic, 0);
        var deleted = admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(4))).lowWatermarks();
        long low = deleted.get(partition).get().lowWatermark();
        String beyond = failure(() -> admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(11))).all().get());
        List<Long> left = readAll(topic, 1, "read_committed").stream().map(ConsumerRecord::offset).toList();
        Map<String, String> strict = Map.of("auto.offset.reset", "none");
        try (KafkaConsumer<String, String> consumer = consumer(name + "-deleted", "read_committed", strict)) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, 2);
            String below = failure(() -> {
                await("an error", () -> !consumer.poll(Duration.ofMillis(50)).isEmpty());
                return null;
            });
            return List.of(low, beyond, left, below);
        }
    }

    private Object groups() throws Exception {
        String topic = create("admin-groups", 1, Map.of());
        String group = name + "-admin-groups";
        TopicPartition partition = new TopicPartition(topic, 0);
        List<Object> facts = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = consumer(group, "read_committed", Map.of("client.id", "the-client"))) {
            consumer.subscribe(List.of(topic));
            await("assigned", () -> consumer.poll(Duration.ofMillis(50)) != null && !consumer.assignment().isEmpty());
            await("stable", () -> state(group).startsWith("STABLE"));
            var described = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
            var member = described.members().iterator().next();
            facts.add(state(group) + " " + described.partitionAssignor() + " " + member.clientId() + " "
                    + member.assignment().topicPartitions().size());
            facts.add(failure(() -> admin.deleteConsumerGroups(List.of(group)).all().get()));
            facts.add(failure(() -> admin.alterConsumerGroupOffsets(group, Map.of(partition, new OffsetAndMetadata(1))).all().get()));
        }
        await("empty", () -> state(group).startsWith("EMPTY"));
        admin.alterConsumerGroupOffsets(group, Map.of(partition, new OffsetAndMetadata(3, "by hand"))).all().get();
        facts.add(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(partition).metadata());
        admin.deleteConsumerGroupOffsets(group, Set.of(partition)).all().get();
        facts.add(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().size());
        admin.alterConsumerGroupOffsets(group, Map.of(partition, new OffsetAndMetadata(3))).all().get();
        boolean listed = admin.listGroups().all().get().stream().anyMatch(g -> g.groupId().equals(group));
        admin.deleteConsumerGroups(List.of(group)).all().get();
        boolean still = admin.listGroups().all().get().stream().anyMatch(g -> g.groupId().equals(group));
        facts.add("listed " + listed + ", after its deletion " + still);
        facts.add(failure(() -> admin.deleteConsumerGroups(List.of(group)).all().get()));
        return facts;
    }

    private String state(String group) throws Exception {
        var described = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
        return described.groupState().name() + " " + described.type();
    }

    private Object openTransactions() throws Exception {
        String topic = create("open", 1, Map.of());
        String id = name + "-open";
        TopicPartition partition = new TopicPartition(topic, 0);
        List<Object> facts = new ArrayList<>();
        try (KafkaProducer<String, String> producer = transactional("open")) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "v")).get();
            var described = admin.describeTransactions(List.of(id)).all().get().get(id);
            facts.add(described.state() + " " + described.topicPartitions().size() + " " + described.transactionTimeoutMs());
            var state = admin.listTransactions().all().get().stream().filter(t -> t.transactionalId().equals(id)).findFirst();
            facts.add("listed as " + state.orElseThrow().state());
            var producers = admin.describeProducers(List.of(partition)).all().get().get(partition).activeProducers();
            var active = producers.iterator().next();
            check(active.producerId() == described.producerId(), "log and coordinator name one producer");
            facts.add("began at " + active.currentTransactionStartOffset().orElse(-1) + ", last sequence " + active.lastSequence());
            admin.fenceProducers(List.of(id)).all().get();
            await("fenced", () -> end(topic, 0, IsolationLevel.READ_COMMITTED) == 2);
            facts.add(failure(() -> {
                producer.commitTransaction();
                return null;
            }));
            facts.add(admin.describeTransactions(List.of(id)).all().get().get(id).state());
        }
        facts.add(failure(() -> admin.describeTransactions(List.of(id + "-unknown")).all().get()));
        return facts;
    }

    // ---------------------------------------------------------------------------------------- tools

    private interface Question {
        boolean ask() throws Exception;
    }

    private static void await(String what, Question question) throws Exception {
        long end = System.nanoTime() + LIMIT.toNanos();
        while (!question.ask()) {
            check(System.nanoTime() < end, what + " within " + LIMIT);
        }
    }

    private static void check(boolean holds, String fact) {
        if (!holds) {
            throw new AssertionError("does not hold: " + fact);
        }
    }

    /** The class of the error that an action ends with. */
    private static String failure(Callable<Object> action) throws Exception {
        try {
            return "no error, but " + action.call();
        } catch (ExecutionException e) {
            return e.getCause().getClass().getSimpleName();
        } catch (RuntimeException e) {
            boolean wrapped = e.getClass() == KafkaException.class && e.getCause() != null;
            return (wrapped ? e.getCause() : e).getClass().getSimpleName();
        }
    }

    private String create(String stem, int partitions, Map<String, String> configs) throws Exception {
        String topic = name + "-" + stem;
        admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1).configs(configs))).all().get(30, TimeUnit.SECONDS);
        return topic;
    }

    private void send(String topic, int partitions, int count, String value) {
        try (KafkaProducer<String, String> producer = producer(Map.of())) {
            send(producer, topic, partitions, count, value);
        }
    }

    private static void send(KafkaProducer<String, String> producer, String topic, int partitions, int count, String value) {
        for (int i = 0; i < count; i++) {
            producer.send(new ProducerRecord<>(topic, i % partitions, null, value + i));
        }
    }

    /** Committed and all records of a topic, and the end of its first partition. */
    private String count(String topic, int partitions) throws Exception {
        int committed = readAll(topic, partitions, "read_committed").size();
        int all = readAll(topic, partitions, "read_uncommitted").size();
        return committed + " of " + all + " up to " + end(topic, 0, IsolationLevel.READ_UNCOMMITTED);
    }

    /** The same once no transaction is open: with the older ones a producer hears of the outcome before readers do. */
    private String countSettled(String topic, int partitions) throws Exception {
        for (int p = 0; p < partitions; p++) {
            int partition = p;
            await("the outcome of transactions on " + topic, () -> end(topic, partition, IsolationLevel.READ_COMMITTED)
                == end(topic, partition, IsolationLevel.READ_UNCOMMITTED));
        }
        return count(topic, partitions);
    }

    private long end(String topic, int partition, IsolationLevel isolation) throws Exception {
        TopicPartition place = new TopicPartition(topic, partition);
        var answer = admin.listOffsets(Map.of(place, OffsetSpec.latest()), new ListOffsetsOptions(isolation));
        return answer.all().get(30, TimeUnit.SECONDS).get(place).offset();
    }

    private List<ConsumerRecord<String, String>> readAll(String topic, int partitions, String isolation) throws Exception {
        List<TopicPartition> places = IntStream.range(0, partitions).mapToObj(p -> new TopicPartition(topic, p)).toList();
        List<ConsumerRecord<String, String>> all = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = consumer(null, isolation, Map.of())) {
            consumer.assign(places);
            consumer.seekToBeginning(places);
            Map<TopicPartition, Long> ends = consumer.endOffsets(places);
            await("the end of " + topic, () -> {
                if (places.stream().allMatch(p -> consumer.position(p) >= ends.get(p))) return true;
                consumer.poll(Duration.ofMillis(50)).forEach(all::add);
                return false;
            });
        }
        return all;
    }

    private static Map<Integer, Long> countsByPartition(Collection<ConsumerRecord<String, String>> records) {
        return records.stream().collect(Collectors.groupingBy(ConsumerRecord::partition, TreeMap::new, Collectors.counting()));
    }

    private Properties properties() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        return properties;
    }

    private KafkaProducer<String, String> producer(Map<String, String> settings) {
        Properties properties = properties();
        properties.putAll(settings);
        return new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
    }

    private KafkaProducer<String, String> transactional(String id) {
        return producer(Map.of("transactional.id", name + "-" + id));
    }

    private KafkaConsumer<String, String> consumer(String group, String isolation, Map<String, String> settings) {
        Properties properties = properties();
        properties.put("isolation.level", isolation);
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        properties.put("heartbeat.interval.ms", "300");
        if (group != null) {
            properties.put("group.id", group);
        }
        properties.putAll(settings);
        return new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
    }
}
