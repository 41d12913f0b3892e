import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * What DefaultLitePullConsumer can be told to do. Each has a "name" by which later commands know it.
 *
 * lite        start one of "group" that commits only when told; it subscribes to "topic" with "tags"
 *             or "sql", or with "assign" takes those queues of it
 * poll        poll until there are "count" messages, at most "timeoutMs"; give them
 * seek        go to "offset" of a queue, to its begin (-1) or its end (-2)
 * commit      commit all that was polled, and give the group's offsets
 * liteQueues  the queues that it has at this moment
 * liteStop    shut it down
 */
final class LiteCommands {
    private static final long POLL_MS = 200;
    private static final int BEGIN = -1;
    private static final int END = -2;

    private final ClientSettings settings;
    private final Map<String, DefaultLitePullConsumer> consumers = new HashMap<>();

    LiteCommands(ClientSettings settings) {
        this.settings = settings;
    }

    void addTo(Map<String, ClientShell.Command> commands) {
        commands.put("lite", this::start);
        commands.put("poll", this::poll);
        commands.put("seek", this::seek);
        commands.put("commit", this::commit);
        commands.put("liteQueues", this::queues);
        commands.put("liteStop", this::stop);
    }

    private DefaultLitePullConsumer consumer(JSONObject arguments) {
        return consumers.get(arguments.getString("name"));
    }

    private Object start(JSONObject arguments) throws Exception {
        String name = arguments.getString("name");
        String topic = arguments.getString("topic");
        DefaultLitePullConsumer consumer =
            new DefaultLitePullConsumer(arguments.getString("group"));
        settings.apply(consumer, name);
        consumer.setAutoCommit(false);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        List<Integer> assigned = arguments.containsKey("assign")
            ? arguments.getJSONArray("assign").toJavaList(Integer.class) : null;
        if (assigned == null && arguments.containsKey("sql")) {
            consumer.subscribe(topic, MessageSelector.bySql(arguments.getString("sql")));
        } else if (assigned == null) {
            consumer.subscribe(topic, arguments.getString("tags"));
        }
        consumers.put(name, consumer);
        consumer.start();
        if (assigned != null) {
            List<MessageQueue> queues = new ArrayList<>(consumer.fetchMessageQueues(topic));
            queues.removeIf(queue -> !assigned.contains(queue.getQueueId()));
            consumer.assign(queues);
        }
        return null;
    }

    private Object poll(JSONObject arguments) throws Exception {
        long deadline = System.nanoTime()
            + TimeUnit.MILLISECONDS.toNanos(arguments.getLongValue("timeoutMs"));
        List<Object> messages = new ArrayList<>();
        while (messages.size() < arguments.getIntValue("count") && System.nanoTime() < deadline) {
            for (MessageExt message : consumer(arguments).poll(POLL_MS)) {
                messages.add(MessageText.show(message));
            }
        }
        return messages;
    }

    private Object seek(JSONObject arguments) throws Exception {
        MessageQueue queue = MessageText.readQueue(arguments);
        switch (arguments.getIntValue("offset")) {
            case BEGIN:
                consumer(arguments).seekToBegin(queue);
                break;
            case END:
                consumer(arguments).seekToEnd(queue);
                break;
            default:
                consumer(arguments).seek(queue, arguments.getLongValue("offset"));
        }
        return null;
    }

    private Object commit(JSONObject arguments) throws Exception {
        DefaultLitePullConsumer consumer = consumer(arguments);
        Set<MessageQueue> queues = consumer.assignment();
        consumer.commit(queues, true);
        Map<String, Long> offsets = new TreeMap<>();
        for (MessageQueue queue : queues) {
            offsets.put(MessageText.showQueue(queue), consumer.committed(queue));
        }
        return offsets;
    }

    private Object queues(JSONObject arguments) throws Exception {
        return MessageText.showQueues(consumer(arguments).assignment());
    }

    private Object stop(JSONObject arguments) {
        consumers.remove(arguments.getString("name")).shutdown();
        return null;
    }
}
