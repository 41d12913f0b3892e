import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Uses every kind of client once, so that a recording proxy sees what they say. The topics must
 * exist. Prints "READY" and the ids of a stored message when a consumer of group GoldenLive is all
 * that still runs; that one stays until the process is told to end.
 *
 * Usage: GoldenClients NAMESRV TOPIC ORDERED_TOPIC
 */
public final class GoldenClients {
    private static final int WAIT_S = 40;
    private static final int HEARTBEAT_MS = 1000;

    private final String nameServers;
    private final String topic;
    private final String orderedTopic;

    private GoldenClients(String nameServers, String topic, String orderedTopic) {
        this.nameServers = nameServers;
        this.topic = topic;
        this.orderedTopic = orderedTopic;
    }

    public static void main(String[] args) throws Exception {
        GoldenClients clients = new GoldenClients(args[0], args[1], args[2]);
        SendResult stored = clients.produce();
        clients.pull();
        clients.pullLite();
        clients.consumeFailingOnce();
        clients.consumeInOrder();
        clients.consumeBySql();
        clients.request();
        clients.runTransactions();
        DefaultMQPushConsumer live = clients.startLive();
        System.out.printf("READY %s %s %s%n",
            stored.getOffsetMsgId(), stored.getMsgId(), live.buildMQClientId());
        Runtime.getRuntime().addShutdownHook(new Thread(live::shutdown));
        Thread.currentThread().join();
    }

    private SendResult produce() throws Exception {
        DefaultMQProducer producer = start(new DefaultMQProducer("GoldenProducer"));
        Message first = message("tagA", "first");
        first.setKeys("key1 key2");
        first.putUserProperty("age", "7");
        SendResult stored = producer.send(first);
        producer.sendOneway(message("tagB", "one way"));
        Message delayed = message("tagA", "delayed");
        delayed.setDelayTimeLevel(1);
        producer.send(delayed);
        List<Message> batch = new ArrayList<>();
        batch.add(message("tagA", "batch 1"));
        batch.add(message("tagB", "batch 2"));
        producer.send(batch);
        CountDownLatch answered = new CountDownLatch(1);
        producer.send(message("tagA", "x".repeat(6000)), new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                answered.countDown();
            }

            @Override
            public void onException(Throwable failure) {
                failure.printStackTrace();
            }
        });
        await(answered, "the answer of an asynchronous send");
        for (int i = 0; i < 8; i++) {
            producer.send(new Message(orderedTopic, ("ordered " + i).getBytes(StandardCharsets.UTF_8)));
        }
        producer.shutdown();
        return stored;
    }

    @SuppressWarnings("deprecation")
    private void pull() throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("GoldenPull");
        consumer.setNamesrvAddr(nameServers);
        consumer.start();
        Set<MessageQueue> queues = consumer.fetchSubscribeMessageQueues(topic);
        for (MessageQueue queue : queues) {
            long end = consumer.maxOffset(queue);
            consumer.pull(queue, "*", consumer.minOffset(queue), 4);
            consumer.pull(queue, "tagZ", 0, 4);
            consumer.pull(queue, "*", end, 4);
            consumer.pull(queue, "*", end + 1000, 4);
            consumer.searchOffset(queue, System.currentTimeMillis() - 60_000);
            if (end > 0) {
                consumer.earliestMsgStoreTime(queue);
            }
            consumer.fetchConsumeOffset(queue, true);
            consumer.updateConsumeOffset(queue, end);
            consumer.getDefaultMQPullConsumerImpl().updateConsumeOffset(queue, end);
        }
        consumer.getDefaultMQPullConsumerImpl().persistConsumerOffset();
        consumer.shutdown();
    }

    private void pullLite() throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer("GoldenLite");
        consumer.setNamesrvAddr(nameServers);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.start();
        if (consumer.poll(WAIT_S * 1000).isEmpty()) {
            throw new IllegalStateException("the lite pull consumer got nothing");
        }
        consumer.shutdown();
    }

    /** Two members of one group, so that the broker tells the first of the second. */
    private void consumeFailingOnce() throws Exception {
        CountDownLatch failed = new CountDownLatch(1);
        MessageListenerConcurrently listener = (messages, context) -> {
            context.setDelayLevelWhenNextConsume(1);
            boolean first = failed.getCount() > 0;
            failed.countDown();
            return first ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        };
        DefaultMQPushConsumer one = push("GoldenRetry", "one");
        one.subscribe(topic, "tagA || tagB");
        one.registerMessageListener(listener);
        one.start();
        await(failed, "the first message of a push consumer");
        DefaultMQPushConsumer two = push("GoldenRetry", "two");
        two.subscribe(topic, "tagA || tagB");
        two.registerMessageListener(listener);
        two.start();
        TimeUnit.SECONDS.sleep(2); // the retried message comes after 1 s
        two.shutdown();
        one.shutdown();
    }

    private void consumeInOrder() throws Exception {
        CountDownLatch consumed = new CountDownLatch(8);
        DefaultMQPushConsumer consumer = push("GoldenOrder", "order");
        consumer.subscribe(orderedTopic, "*");
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            messages.forEach(message -> consumed.countDown());
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        await(consumed, "messages in order");
        consumer.shutdown();
    }

    private void consumeBySql() throws Exception {
        CountDownLatch consumed = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = push("GoldenSql", "sql");
        consumer.subscribe(topic, MessageSelector.bySql("age BETWEEN 5 AND 9"));
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            consumed.countDown();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        await(consumed, "a message that the SQL expression selects");
        consumer.shutdown();
    }

    private void request() throws Exception {
        DefaultMQProducer answering = start(new DefaultMQProducer("GoldenAnswer"));
        DefaultMQPushConsumer consumer = push("GoldenRequests", "requests");
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
        consumer.subscribe(topic, "request");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                try {
                    answering.send(MessageUtil.createReplyMessage(message, "answer".getBytes()));
                } catch (Exception failure) {
                    failure.printStackTrace();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        DefaultMQProducer asking = start(new DefaultMQProducer("GoldenRequest"));
        asking.request(message("request", "question"), WAIT_S * 1000);
        asking.shutdown();
        consumer.shutdown();
        answering.shutdown();
    }

    /** Commits, rolls back, and leaves one transaction for the broker to ask about. */
    private void runTransactions() throws Exception {
        CountDownLatch checked = new CountDownLatch(1);
        AtomicInteger count = new AtomicInteger();
        TransactionMQProducer producer = new TransactionMQProducer("GoldenTransactions");
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return LocalTransactionState.values()[count.getAndIncrement() % 3];
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                checked.countDown();
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        start(producer);
        for (int i = 0; i < 3; i++) {
            producer.sendMessageInTransaction(message("tagT", "transaction " + i), null);
        }
        await(checked, "the broker's question after a transaction");
        TimeUnit.SECONDS.sleep(1); // the answer to it is one-way
        producer.shutdown();
    }

    private DefaultMQPushConsumer startLive() throws Exception {
        DefaultMQPushConsumer consumer = push("GoldenLive", "live");
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) ->
            ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
        consumer.start();
        return consumer;
    }

    private DefaultMQPushConsumer push(String group, String instance) {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(nameServers);
        consumer.setInstanceName(instance);
        consumer.setHeartbeatBrokerInterval(HEARTBEAT_MS); // SendReceive says why
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        return consumer;
    }

    private <P extends DefaultMQProducer> P start(P producer) throws Exception {
        producer.setNamesrvAddr(nameServers);
        producer.setSendMsgTimeout(10_000);
        producer.start();
        return producer;
    }

    private Message message(String tag, String body) {
        return new Message(topic, tag, body.getBytes(StandardCharsets.UTF_8));
    }

    private static void await(CountDownLatch latch, String what) throws InterruptedException {
        if (!latch.await(WAIT_S, TimeUnit.SECONDS)) {
            throw new IllegalStateException("waited " + WAIT_S + " s in vain for " + what);
        }
    }
}
