import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.store.OffsetStore;
import org.apache.rocketmq.client.consumer.store.ReadOffsetType;
import org.apache.rocketmq.client.consumer.store.RemoteBrokerOffsetStore;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * What push consumers can be told to do. Each has a "name" by which later commands know it.
 *
 * consume   start a consumer of "group" and "topic" with what is there of: "tags" or "sql",
 *           "from" (FIRST_OFFSET, LAST_OFFSET, TIMESTAMP) and "timestamp", "broadcasting", "orderly",
 *           "maxReconsumeTimes", "batch" (messages in a call), "signed", and how PushListener behaves
 * received  wait until the consumers "names" have received "count" messages together, at most
 *           "timeoutMs"; give all of them in the order of their coming
 * release   let a consumer's listener go on with what it holds
 * queues    the queues of "topic" that a consumer has at this moment
 * offsets   write a consumer's offsets of "topic" to the broker, then read them from it
 * stop      shut a consumer down, and give all that it has received
 */
final class PushCommands {
    private static final int THREADS = 4;
    private static final int SUSPEND_MS = 100;

    private final ClientSettings settings;
    private final Map<String, DefaultMQPushConsumer> consumers = new HashMap<>();
    private final Map<String, PushListener> listeners = new HashMap<>();
    private final Received received = new Received();

    PushCommands(ClientSettings settings) {
        this.settings = settings;
    }

    void addTo(Map<String, ClientShell.Command> commands) {
        commands.put("consume", this::consume);
        commands.put("received", this::received);
        commands.put("release", this::release);
        commands.put("queues", this::queues);
        commands.put("offsets", this::offsets);
        commands.put("stop", this::stop);
    }

    private Object consume(JSONObject arguments) throws Exception {
        String name = arguments.getString("name");
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(
            arguments.getString("group"),
            ClientSettings.signing(arguments.getBooleanValue("signed")),
            new AllocateMessageQueueAveragely());
        settings.apply(consumer, name);
        configure(consumer, arguments);
        PushListener listener = new PushListener(name, arguments, settings, received);
        if (arguments.getBooleanValue("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) listener::consumeOrderly);
        } else {
            consumer.registerMessageListener(
                (MessageListenerConcurrently) listener::consumeConcurrently);
        }
        consumer.start();
        consumers.put(name, consumer);
        listeners.put(name, listener);
        return null;
    }

    private static void configure(DefaultMQPushConsumer consumer, JSONObject arguments)
        throws Exception {
        consumer.setConsumeThreadMin(THREADS);
        consumer.setConsumeThreadMax(THREADS);
        consumer.setSuspendCurrentQueueTimeMillis(SUSPEND_MS);
        consumer.setConsumeFromWhere(
            ConsumeFromWhere.valueOf("CONSUME_FROM_" + arguments.getString("from")));
        if (arguments.containsKey("timestamp")) {
            consumer.setConsumeTimestamp(arguments.getString("timestamp"));
        }
        if (arguments.containsKey("maxReconsumeTimes")) {
            consumer.setMaxReconsumeTimes(arguments.getIntValue("maxReconsumeTimes"));
        }
        if (arguments.containsKey("batch")) {
            consumer.setConsumeMessageBatchMaxSize(arguments.getIntValue("batch"));
        }
        if (arguments.getBooleanValue("broadcasting")) {
            ClientSettings.setEnum(consumer, "setMessageModel", "BROADCASTING");
        }
        String topic = arguments.getString("topic");
        if (arguments.containsKey("sql")) {
            consumer.subscribe(topic, MessageSelector.bySql(arguments.getString("sql")));
        } else {
            consumer.subscribe(topic, arguments.getString("tags"));
        }
    }

    private Object received(JSONObject arguments) throws Exception {
        List<String> names = arguments.getJSONArray("names").toJavaList(String.class);
        return received.await(
            names, arguments.getIntValue("count"), arguments.getLongValue("timeoutMs"));
    }

    private Object release(JSONObject arguments) {
        listeners.get(arguments.getString("name")).release();
        return null;
    }

    private Object queues(JSONObject arguments) {
        List<MessageQueue> queues = new ArrayList<>();
        for (MessageQueue queue : owned(consumers.get(arguments.getString("name")))) {
            if (queue.getTopic().equals(arguments.getString("topic"))) {
                queues.add(queue);
            }
        }
        return MessageText.showQueues(queues);
    }

    private static Iterable<MessageQueue> owned(DefaultMQPushConsumer consumer) {
        return consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable()
            .keySet();
    }

    private Object offsets(JSONObject arguments) throws Exception {
        DefaultMQPushConsumer consumer = consumers.get(arguments.getString("name"));
        consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
        // A store of its own: the consumer's would take what the broker says, which may be what was
        // before the offsets that are on their way to it, for the truth.
        OffsetStore store = new RemoteBrokerOffsetStore(
            consumer.getDefaultMQPushConsumerImpl().getmQClientFactory(),
            consumer.getConsumerGroup());
        Map<String, Long> offsets = new TreeMap<>();
        for (MessageQueue queue : owned(consumer)) {
            if (queue.getTopic().equals(arguments.getString("topic"))) {
                offsets.put(MessageText.showQueue(queue),
                    store.readOffset(queue, ReadOffsetType.READ_FROM_STORE));
            }
        }
        return offsets;
    }

    private Object stop(JSONObject arguments) throws Exception {
        String name = arguments.getString("name");
        consumers.remove(name).shutdown();
        listeners.remove(name).close();
        return received.await(List.of(name), 0, TimeUnit.SECONDS.toMillis(1));
    }
}
