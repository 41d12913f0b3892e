import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * What DefaultMQPullConsumer can be told to do; there is one for each "group".
 *
 * pull      take up to "count" messages of "topic", "broker", "queue" from "offset" on, filtered by
 *           "tags" or "sql"; "block" waits for the first of them
 * drain     all messages of "topic", queue by queue
 * bounds    smallest and largest offset of each queue of "topic", and that of "timestamp"
 * update    set the group's offset of a queue to "offset", and read it from the broker
 */
final class PullCommands {
    private static final int COUNT_MAX = 32;

    private final ClientSettings settings;
    private final Map<String, DefaultMQPullConsumer> pullers = new HashMap<>();

    PullCommands(ClientSettings settings) {
        this.settings = settings;
    }

    void addTo(Map<String, ClientShell.Command> commands) {
        commands.put("pull", this::pull);
        commands.put("drain", this::drain);
        commands.put("bounds", this::bounds);
        commands.put("update", this::update);
    }

    private DefaultMQPullConsumer puller(JSONObject arguments) throws Exception {
        String group = arguments.getString("group");
        DefaultMQPullConsumer puller = pullers.get(group);
        if (puller == null) {
            puller = new DefaultMQPullConsumer(group);
            settings.apply(puller, group);
            puller.start();
            pullers.put(group, puller);
        }
        return puller;
    }

    private Object pull(JSONObject arguments) throws Exception {
        DefaultMQPullConsumer puller = puller(arguments);
        MessageQueue queue = MessageText.readQueue(arguments);
        long offset = arguments.getLongValue("offset");
        int count = arguments.getIntValue("count");
        PullResult result;
        if (arguments.getBooleanValue("block")) {
            result = puller.pullBlockIfNotFound(queue, arguments.getString("tags"), offset, count);
        } else if (arguments.containsKey("sql")) {
            // 4.9 refuses SQL until a heartbeat has told it the broker's version.
            puller.fetchSubscribeMessageQueues(queue.getTopic());
            puller.getDefaultMQPullConsumerImpl().getRebalanceImpl().getmQClientFactory()
                .sendHeartbeatToAllBrokerWithLock();
            MessageSelector selector = MessageSelector.bySql(arguments.getString("sql"));
            result = puller.pull(queue, selector, offset, count);
        } else {
            result = puller.pull(queue, arguments.getString("tags"), offset, count);
        }
        JSONObject shown = new JSONObject(true);
        shown.put("status", result.getPullStatus().name());
        shown.put("next", result.getNextBeginOffset());
        shown.put("min", result.getMinOffset());
        shown.put("max", result.getMaxOffset());
        shown.put("messages", show(result));
        return shown;
    }

    private static List<Object> show(PullResult result) throws Exception {
        List<Object> shown = new ArrayList<>();
        if (result.getPullStatus() == PullStatus.FOUND) {
            for (MessageExt message : result.getMsgFoundList()) {
                shown.add(MessageText.show(message));
            }
        }
        return shown;
    }

    private Object drain(JSONObject arguments) throws Exception {
        DefaultMQPullConsumer puller = puller(arguments);
        List<Object> messages = new ArrayList<>();
        String topic = arguments.getString("topic");
        for (MessageQueue queue : new TreeSet<>(puller.fetchSubscribeMessageQueues(topic))) {
            long offset = puller.minOffset(queue);
            long end = puller.maxOffset(queue);
            while (offset < end) {
                PullResult result = puller.pull(queue, "*", offset, COUNT_MAX);
                messages.addAll(show(result));
                if (result.getNextBeginOffset() <= offset) {
                    throw new IllegalStateException(queue + " at " + offset + ": " + result);
                }
                offset = result.getNextBeginOffset();
            }
        }
        return messages;
    }

    private Object bounds(JSONObject arguments) throws Exception {
        DefaultMQPullConsumer puller = puller(arguments);
        Map<String, Object> bounds = new TreeMap<>();
        for (MessageQueue queue : puller.fetchSubscribeMessageQueues(arguments.getString("topic"))) {
            bounds.put(MessageText.showQueue(queue), List.of(puller.minOffset(queue),
                puller.maxOffset(queue),
                puller.searchOffset(queue, arguments.getLongValue("timestamp"))));
        }
        return bounds;
    }

    private Object update(JSONObject arguments) throws Exception {
        DefaultMQPullConsumer puller = puller(arguments);
        MessageQueue queue = MessageText.readQueue(arguments);
        puller.updateConsumeOffset(queue, arguments.getLongValue("offset"));
        puller.getDefaultMQPullConsumerImpl().getOffsetStore()
            .updateConsumeOffsetToBroker(queue, arguments.getLongValue("offset"), false);
        return puller.fetchConsumeOffset(queue, true);
    }
}
