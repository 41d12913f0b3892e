import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * What DefaultMQAdminExt can be told to find out about messages and offsets.
 *
 * view      the message of "topic" with "id", of either kind
 * byKey     the messages of "topic" with "key", at most "count", stored from "begin" to "end"
 * entries   of "topic" and "queue" on the broker "address": "count" entries from "offset" on, and how
 *           "group" subscribes
 * reset     let "group" go on in "topic" at "timestamp", forwards only with "force"
 * clone     give the group "to" the offsets of "group" in "topic"
 * spans     when the messages of "topic" were stored, queue by queue, and the last of "group"
 * stands    where the clients of "group" stand in "topic"
 * ids       the ids of the clients of "group"
 * running   what the client "id" of "group" says of itself
 * directly  let the client "id" of "group" consume the message "message" of "topic"
 * configure set "key" to "value" on the broker "address"
 */
final class AdminCommands {
    private final ClientSettings settings;
    private DefaultMQAdminExt admin;

    AdminCommands(ClientSettings settings) {
        this.settings = settings;
    }

    void addTo(Map<String, ClientShell.Command> commands) {
        commands.put("view", arguments -> MessageText.show(admin().viewMessage(
            arguments.getString("topic"), arguments.getString("id"))));
        commands.put("byKey", this::byKey);
        commands.put("entries", this::entries);
        commands.put("reset", arguments -> show(admin().resetOffsetByTimestamp(
            arguments.getString("topic"), arguments.getString("group"),
            arguments.getLongValue("timestamp"), arguments.getBooleanValue("force"))));
        commands.put("clone", arguments -> {
            admin().cloneGroupOffset(arguments.getString("group"), arguments.getString("to"),
                arguments.getString("topic"), false);
            return null;
        });
        commands.put("spans", this::spans);
        commands.put("stands", this::stands);
        commands.put("ids", this::ids);
        commands.put("running", this::running);
        commands.put("directly", this::directly);
        commands.put("configure", this::configure);
    }

    private DefaultMQAdminExt admin() throws Exception {
        if (admin == null) {
            admin = new DefaultMQAdminExt("Finder");
            settings.apply(admin, "finder");
            admin.start();
        }
        return admin;
    }

    private Object byKey(JSONObject arguments) throws Exception {
        var result = admin().queryMessage(arguments.getString("topic"), arguments.getString("key"),
            arguments.getIntValue("count"), arguments.getLongValue("begin"),
            arguments.getLongValue("end"));
        List<Object> messages = new ArrayList<>();
        for (MessageExt message : result.getMessageList()) {
            messages.add(MessageText.show(message));
        }
        JSONObject shown = new JSONObject(true);
        shown.put("messages", messages);
        shown.put("indexed", result.getIndexLastUpdateTimestamp());
        return shown;
    }

    private Object entries(JSONObject arguments) throws Exception {
        var found = admin().queryConsumeQueue(arguments.getString("address"),
            arguments.getString("topic"), arguments.getIntValue("queue"),
            arguments.getLongValue("offset"), arguments.getIntValue("count"),
            arguments.getString("group"));
        JSONObject shown = new JSONObject(true);
        shown.put("min", found.getMinQueueIndex());
        shown.put("max", found.getMaxQueueIndex());
        shown.put("filter", found.getFilterData());
        shown.put("expression", found.getSubscriptionData() == null
            ? null : found.getSubscriptionData().getSubString());
        JSONArray entries = new JSONArray();
        found.getQueueData().forEach(entry -> entries.add(List.of(entry.getPhysicOffset(),
            entry.getPhysicSize(), entry.getTagsCode(), entry.isEval())));
        shown.put("entries", entries);
        return shown;
    }

    private Object spans(JSONObject arguments) throws Exception {
        Map<String, Object> shown = new TreeMap<>();
        for (var span : admin().queryConsumeTimeSpan(
            arguments.getString("topic"), arguments.getString("group"))) {
            shown.put(MessageText.showQueue(span.getMessageQueue()), List.of(span.getMinTimeStamp(),
                span.getMaxTimeStamp(), span.getConsumeTimeStamp(), span.getDelayTime()));
        }
        return shown;
    }

    private Object stands(JSONObject arguments) throws Exception {
        Map<String, Object> shown = new TreeMap<>();
        admin().getConsumeStatus(arguments.getString("topic"), arguments.getString("group"), "")
            .forEach((client, offsets) -> shown.put(client, show(offsets)));
        return shown;
    }

    private Object ids(JSONObject arguments) throws Exception {
        List<String> ids = new ArrayList<>();
        for (var one : admin().examineConsumerConnectionInfo(arguments.getString("group"))
            .getConnectionSet()) {
            ids.add(one.getClientId());
        }
        return ids;
    }

    private Object running(JSONObject arguments) throws Exception {
        var info = admin().getConsumerRunningInfo(arguments.getString("group"),
            arguments.getString("id"), arguments.getBooleanValue("jstack"));
        JSONObject shown = new JSONObject(true);
        List<String> topics = new ArrayList<>();
        info.getSubscriptionSet().forEach(one -> topics.add(one.getTopic()));
        shown.put("topics", topics);
        shown.put("queues", MessageText.showQueues(info.getMqTable().keySet()));
        shown.put("type", info.getProperties().getProperty("PROP_CONSUME_TYPE"));
        shown.put("threads", info.getJstack() == null ? 0 : info.getJstack().length());
        return shown;
    }

    private Object directly(JSONObject arguments) throws Exception {
        var result = admin().consumeMessageDirectly(arguments.getString("group"),
            arguments.getString("id"), arguments.getString("topic"), arguments.getString("message"));
        JSONObject shown = new JSONObject(true);
        shown.put("result", String.valueOf(result.getConsumeResult()));
        shown.put("orderly", result.isOrder());
        return shown;
    }

    private Object configure(JSONObject arguments) throws Exception {
        Properties properties = new Properties();
        properties.setProperty(arguments.getString("key"), arguments.getString("value"));
        admin().updateBrokerConfig(arguments.getString("address"), properties);
        return null;
    }

    private static Map<String, Long> show(Map<MessageQueue, Long> offsets) {
        Map<String, Long> shown = new TreeMap<>();
        offsets.forEach((queue, offset) -> shown.put(MessageText.showQueue(queue), offset));
        return shown;
    }
}
