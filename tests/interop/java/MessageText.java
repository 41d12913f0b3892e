import com.alibaba.fastjson.JSONObject;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Messages and queues as the JSON that a shell reads and writes. */
final class MessageText {
    private static final int SHOWN_BYTES_MAX = 256;

    private MessageText() {
    }

    /**
     * Make the message that is asked for: "topic", "body" (repeated "times" times), and what is there
     * of "tags", "keys", "flag", "delayLevel", "wait" (for the disk) and "properties".
     */
    static Message read(JSONObject asked) {
        int times = asked.containsKey("times") ? asked.getIntValue("times") : 1;
        byte[] body = asked.getString("body").repeat(times).getBytes(StandardCharsets.UTF_8);
        Message message = new Message(asked.getString("topic"), body);
        if (asked.containsKey("tags")) {
            message.setTags(asked.getString("tags"));
        }
        if (asked.containsKey("keys")) {
            message.setKeys(asked.getString("keys"));
        }
        if (asked.containsKey("flag")) {
            message.setFlag(asked.getIntValue("flag"));
        }
        if (asked.containsKey("delayLevel")) {
            message.setDelayTimeLevel(asked.getIntValue("delayLevel"));
        }
        if (asked.containsKey("wait")) {
            message.setWaitStoreMsgOK(asked.getBooleanValue("wait"));
        }
        JSONObject properties = asked.getJSONObject("properties");
        if (properties != null) {
            // Not with putUserProperty, which refuses empty values: brokers have to take them.
            properties.forEach(
                (name, value) -> MessageAccessor.putProperty(message, name, (String) value));
        }
        return message;
    }

    /** All that a client can tell about a message that it received. */
    static JSONObject show(MessageExt message) throws Exception {
        JSONObject shown = new JSONObject(true);
        shown.put("topic", message.getTopic());
        shown.put("broker", message.getBrokerName());
        shown.put("queue", message.getQueueId());
        shown.put("offset", message.getQueueOffset());
        shown.put("logOffset", message.getCommitLogOffset());
        shown.put("body", showBody(message.getBody()));
        shown.put("id", message.getMsgId());
        shown.put("flag", message.getFlag());
        shown.put("sysFlag", message.getSysFlag());
        shown.put("size", message.getStoreSize());
        shown.put("times", message.getReconsumeTimes());
        shown.put("born", message.getBornTimestamp());
        shown.put("stored", message.getStoreTimestamp());
        Map<String, String> properties = message.getProperties();
        shown.put("properties", properties == null ? Map.of() : new TreeMap<>(properties));
        return shown;
    }

    /** A body as its text, a long one as its size and digest. */
    static String showBody(byte[] body) throws Exception {
        if (body.length <= SHOWN_BYTES_MAX) {
            return new String(body, StandardCharsets.UTF_8);
        }
        byte[] digest = MessageDigest.getInstance("SHA-256").digest(body);
        return body.length + ":" + String.format("%064x", new BigInteger(1, digest));
    }

    /** The queue "queue" of "broker" and "topic". */
    static MessageQueue readQueue(JSONObject asked) {
        return new MessageQueue(
            asked.getString("topic"), asked.getString("broker"), asked.getIntValue("queue"));
    }

    /** Queues as "broker:id", in order. */
    static List<String> showQueues(Collection<MessageQueue> queues) {
        return queues.stream().sorted(Comparator.naturalOrder()).map(MessageText::showQueue)
            .collect(Collectors.toList());
    }

    static String showQueue(MessageQueue queue) {
        return queue.getBrokerName() + ":" + queue.getQueueId();
    }
}
