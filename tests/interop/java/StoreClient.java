import java.io.File;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * Fills and reads the store of one broker, step by step, with clients of every kind that leaves its
 * trace there. Prints one line for each fact, its fields joined by tabs, the first one says of what
 * kind it is. Any step that waits in vain ends the program with 1. No client is shut down before the
 * end, for one of 5.x takes seconds to do so.
 *
 * fill:PREFIX:COUNT:BYTES     sends to topics of that prefix: alone, in batches, compressed, delayed,
 *                             in transactions. Prints "sent topic queue offset id unique".
 * half:PREFIX                 leaves one more transaction undecided.
 * consume:GROUP:TOPIC:COUNT   consumes so many messages of a topic, the first one twice. Prints
 *                             "consumed topic queue offset times unique".
 * check:GROUP:TOPIC:COUNT     sends a message to a topic, then answers so many questions after
 *                             transactions of a group with "commit". Prints "checked unique".
 * await:TOPIC:COUNT           returns when the queues of a topic have that many messages.
 * offsets:GROUP               prints "offset topic queue offset" for what a group has consumed.
 * dump                        pulls all queues, those of the system too. Prints "queue topic queue min max"
 *                             and "message ..." for each of its messages, or "refused topic queue code".
 *
 * Usage: StoreClient NAMESRV BROKER_ADDRESS BROKER_NAME STORE STEP...
 */
public final class StoreClient {
    private static final int WAIT_S = 60;
    private static final int TIMEOUT_MS = 20_000;
    private static final int QUEUES = 2;
    private static final int THREADS = 32; // more than messages that can wait for one
    private static final int[] LEVELS = {1, 1, 2, 4, 5}; // of the broker's own: 1s 2s 6s 1h 2h

    private final String nameServers;
    private final String brokerAddress;
    private final String brokerName;
    private final File store;
    private final DefaultMQAdminExt admin = new DefaultMQAdminExt("StoreAdmin");
    private final DefaultMQPullConsumer puller = new DefaultMQPullConsumer("StoreDump");
    private DefaultMQPushConsumer consumer;

    private StoreClient(String[] args) throws Exception {
        nameServers = args[0];
        brokerAddress = args[1];
        brokerName = args[2];
        store = new File(args[3]);
        configure(admin);
        admin.start();
        configure(puller);
        puller.setBrokerSuspendMaxTimeMillis(1);
        puller.start();
    }

    public static void main(String[] args) throws Exception {
        StoreClient client = new StoreClient(args);
        for (String step : Arrays.copyOfRange(args, 4, args.length)) {
            String[] parts = step.split(":");
            switch (parts[0]) {
                case "fill":
                    client.fill(parts[1], Integer.parseInt(parts[2]), Integer.parseInt(parts[3]));
                    break;
                case "half":
                    client.runTransactions(parts[1], "half");
                    break;
                case "consume":
                    client.consume(parts[1], parts[2], Integer.parseInt(parts[3]));
                    break;
                case "check":
                    client.answerChecks(parts[1], parts[2], Integer.parseInt(parts[3]));
                    break;
                case "await":
                    client.awaitMessages(parts[1], Integer.parseInt(parts[2]));
                    break;
                case "offsets":
                    client.showOffsets(parts[1]);
                    break;
                case "dump":
                    client.dump();
                    break;
                default:
                    throw new IllegalArgumentException(step);
            }
        }
        System.exit(0); // not all client threads are daemons
    }

    private void fill(String prefix, int count, int bytes) throws Exception {
        for (String topic : List.of(prefix + "One", prefix + "Two", prefix + "Late", prefix + "Sure")) {
            makeTopic(topic);
        }
        String filling = "abcdefghijklmnopqrstuvwxyz".repeat(bytes / 26 + 1).substring(0, bytes);
        DefaultMQProducer producer = start(new DefaultMQProducer(prefix + "Producer"));
        for (int i = 0; i < count; i++) {
            String topic = prefix + (i % 3 == 0 ? "Two" : "One");
            if (i % 10 == 9) {
                List<Message> batch = new ArrayList<>();
                for (int j = 0; j < 3; j++) {
                    batch.add(message(topic, i + "." + j, filling));
                }
                producer.send(batch);
            } else {
                show(producer.send(message(topic, "" + i, filling)));
            }
        }
        producer.send(new Message(prefix + "Two", "no tag and no key".getBytes()));
        producer.send(message(prefix + "Two", "packed", filling.repeat(1 + 8_000 / bytes)));
        for (int level : LEVELS) {
            Message delayed = message(prefix + "Late", "delay" + level, filling);
            delayed.setDelayTimeLevel(level);
            producer.send(delayed);
        }
        runTransactions(prefix, "commit", "rollback", "half", "commit", "rollback", "half", "commit");
        awaitMessages(prefix + "Late", 3);
        awaitMessages(prefix + "Sure", 3);
    }

    private Message message(String topic, String number, String filling) {
        int code = number.hashCode();
        byte[] body = ("message " + number + " " + filling).getBytes(StandardCharsets.UTF_8);
        Message message = new Message(topic, "Tag" + Math.floorMod(code, 3), "key" + number + " many" + code % 5, body);
        message.setFlag(code % 7);
        message.putUserProperty("名", "é " + number);
        return message;
    }

    private void show(SendResult result) {
        MessageQueue queue = result.getMessageQueue();
        print("sent", queue.getTopic(), queue.getQueueId(), result.getQueueOffset(),
            result.getOffsetMsgId(), result.getMsgId());
    }

    private void runTransactions(String prefix, String... ways) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer(prefix + "Transactions");
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object way) {
                switch ((String) way) {
                    case "commit":
                        return LocalTransactionState.COMMIT_MESSAGE;
                    case "rollback":
                        return LocalTransactionState.ROLLBACK_MESSAGE;
                    default:
                        return LocalTransactionState.UNKNOW;
                }
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.UNKNOW;
            }
        });
        start(producer);
        for (int i = 0; i < ways.length; i++) {
            producer.sendMessageInTransaction(message(prefix + "Sure", ways[i] + i, "filling"), ways[i]);
        }
    }

    private void consume(String group, String topic, int count) throws Exception {
        CountDownLatch missing = new CountDownLatch(count + 1);
        AtomicInteger begun = new AtomicInteger();
        consumer = new DefaultMQPushConsumer(group);
        configure(consumer);
        consumer.setPollNameServerInterval(1_000); // the topic for retries is made by its heartbeat
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPullBatchSize(4);
        consumer.setPullThresholdForQueue(4);
        consumer.setConsumeThreadMin(THREADS);
        consumer.setConsumeThreadMax(THREADS);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            MessageExt message = messages.get(0);
            boolean isRetry = message.getReconsumeTimes() > 0;
            int number;
            synchronized (begun) { // else another thread might tell of its message before the first one
                number = isRetry ? count : begun.incrementAndGet();
                if (number <= count) {
                    print("consumed", message.getTopic(), message.getQueueId(), message.getQueueOffset(),
                        message.getReconsumeTimes(), message.getMsgId());
                }
            }
            while (number > count) {
                Thread.interrupted();
                LockSupport.park(); // that is enough: neither consumed nor to be sent back
            }
            missing.countDown();
            context.setDelayLevelWhenNextConsume(1);
            boolean isLater = number == 1 && !isRetry;
            return isLater ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        await(missing, count + " messages of " + topic);
        TimeUnit.MILLISECONDS.sleep(300); // most listeners have returned by then; see showOffsets
        consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
    }

    private void answerChecks(String group, String topic, int count) throws Exception {
        CountDownLatch missing = new CountDownLatch(count);
        TransactionMQProducer producer = new TransactionMQProducer(group);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                throw new IllegalStateException("nothing is sent here");
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                print("checked", message.getProperty(MessageConst.PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX));
                missing.countDown();
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        start(producer);
        show(producer.send(message(topic, "known", ""))); // it tells brokers it has a route to that it lives
        await(missing, count + " questions to " + group);
        TimeUnit.MILLISECONDS.sleep(500); // the answer is one-way
    }

    private void makeTopic(String topic) throws Exception {
        TopicConfig config = new TopicConfig(topic);
        config.setReadQueueNums(QUEUES);
        config.setWriteQueueNums(QUEUES);
        admin.createAndUpdateTopicConfig(brokerAddress, config);
        for (int i = 0; ; i++) {
            try {
                admin.examineTopicRouteInfo(topic);
                return;
            } catch (Exception notYet) {
                if (i > WAIT_S * 10) {
                    throw notYet;
                }
                TimeUnit.MILLISECONDS.sleep(100);
            }
        }
    }

    private void awaitMessages(String topic, int count) throws Exception {
        for (int i = 0; i < WAIT_S * 10; i++) {
            long found = 0;
            for (int queue = 0; queue < QUEUES; queue++) {
                found += puller.maxOffset(new MessageQueue(topic, brokerName, queue));
            }
            if (found >= count) {
                return;
            }
            TimeUnit.MILLISECONDS.sleep(100);
        }
        throw new IllegalStateException("waited in vain for " + count + " messages of " + topic);
    }

    /** Consumers report them one-way, and some time after a listener has returned: until they stay the same. */
    private void showOffsets(String group) throws Exception {
        Map<MessageQueue, Long> known = new HashMap<>();
        for (int same = 0; same < 5; same++) {
            if (consumer != null) {
                consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
            }
            TimeUnit.MILLISECONDS.sleep(300);
            Map<MessageQueue, Long> found = new HashMap<>();
            admin.examineConsumeStats(group).getOffsetTable().forEach((queue, offset) -> {
                if (queue.getBrokerName().equals(brokerName)) { // every broker has a topic for retries
                    found.put(queue, offset.getConsumerOffset());
                }
            });
            if (!found.equals(known)) {
                known = found;
                same = 0;
            }
        }
        known.forEach((queue, offset) -> print("offset", queue.getTopic(), queue.getQueueId(), offset));
    }

    private void dump() throws Exception {
        for (File topic : sorted(new File(store, "consumequeue"))) {
            for (File queue : sorted(topic)) {
                pullAll(new MessageQueue(topic.getName(), brokerName, Integer.parseInt(queue.getName())));
            }
        }
    }

    private static File[] sorted(File directory) {
        File[] files = directory.listFiles(File::isDirectory);
        Arrays.sort(files);
        return files;
    }

    private void pullAll(MessageQueue queue) throws Exception {
        long end = puller.maxOffset(queue);
        long offset = puller.minOffset(queue);
        print("queue", queue.getTopic(), queue.getQueueId(), offset, end);
        while (offset < end) {
            PullResult result;
            try {
                result = puller.pull(queue, "*", offset, 32);
            } catch (MQBrokerException refused) { // 4.9 does not know its topic of decisions
                print("refused", queue.getTopic(), queue.getQueueId(), refused.getResponseCode());
                return;
            }
            if (result.getMsgFoundList() != null) {
                result.getMsgFoundList().forEach(StoreClient::showMessage);
            }
            if (result.getNextBeginOffset() <= offset) {
                throw new IllegalStateException(queue + " at " + offset + ": " + result);
            }
            offset = result.getNextBeginOffset();
        }
    }

    private static void showMessage(MessageExt message) {
        StringBuilder properties = new StringBuilder();
        Map<String, String> table = new TreeMap<>(message.getProperties());
        table.remove(MessageConst.PROPERTY_MIN_OFFSET); // the client's own
        table.remove(MessageConst.PROPERTY_MAX_OFFSET);
        table.forEach((name, value) -> properties.append(name).append('\1').append(value).append('\2'));
        print("message", message.getTopic(), message.getQueueId(), message.getQueueOffset(),
            message.getCommitLogOffset(), message.getStoreSize(), message.getStoreTimestamp(),
            message.getBornTimestamp(), message.getSysFlag(), message.getFlag(),
            message.getReconsumeTimes(), message.getPreparedTransactionOffset(), message.getBodyCRC(),
            digest(message.getBody()), Base64.getEncoder().encodeToString(
                properties.toString().getBytes(StandardCharsets.UTF_8)));
    }

    private static String digest(byte[] body) {
        try {
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(body);
            return new BigInteger(1, digest).toString(16);
        } catch (NoSuchAlgorithmException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    private <P extends DefaultMQProducer> P start(P producer) throws Exception {
        configure(producer);
        producer.setSendMsgTimeout(TIMEOUT_MS);
        producer.start();
        return producer;
    }

    /** Each client has connections of its own; machines that are busy with other tests are slow. */
    private void configure(ClientConfig client) {
        client.setNamesrvAddr(nameServers);
        client.setInstanceName("store" + System.nanoTime());
        client.setHeartbeatBrokerInterval(1_000); // SendReceive says why
        client.setMqClientApiTimeout(TIMEOUT_MS);
    }

    private static void await(CountDownLatch latch, String what) throws InterruptedException {
        if (!latch.await(WAIT_S, TimeUnit.SECONDS)) {
            throw new IllegalStateException("waited " + WAIT_S + " s in vain for " + what);
        }
    }

    private static synchronized void print(Object... fields) {
        StringBuilder row = new StringBuilder();
        for (Object field : fields) {
            row.append(row.length() == 0 ? "" : "\t").append(field);
        }
        System.out.println(row);
    }
}
