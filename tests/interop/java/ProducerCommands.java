import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * What producers can be told to do.
 *
 * topic     make "topic" with "queues" queues on each broker of "addresses", and wait for its route
 * send      send "messages" in the way of "how": sync, oneway, async, batch, queue (of each message)
 *           or selector (by each message's "hash"); "compress" names a codec, "signed" signs
 * request   send one "message" and wait for its reply; "how" is sync or async
 * recall    take back the message of "topic" with this "handle"; clients of 5.5 only
 */
final class ProducerCommands {
    private static final int SEND_TIMEOUT_MS = 10_000;
    private static final int WAIT_S = 20;
    private static final int POLL_MS = 50;

    private final ClientSettings settings;
    private final Map<String, DefaultMQProducer> producers = new HashMap<>();
    private DefaultMQAdminExt admin;

    ProducerCommands(ClientSettings settings) {
        this.settings = settings;
    }

    void addTo(Map<String, ClientShell.Command> commands) {
        commands.put("topic", this::makeTopic);
        commands.put("send", this::send);
        commands.put("request", this::request);
        commands.put("recall", this::recall);
    }

    private Object makeTopic(JSONObject arguments) throws Exception {
        if (admin == null) {
            admin = new DefaultMQAdminExt("Admin");
            settings.apply(admin, "admin");
            admin.start();
        }
        String topic = arguments.getString("topic");
        JSONArray addresses = arguments.getJSONArray("addresses");
        TopicConfig config = new TopicConfig(topic);
        config.setReadQueueNums(arguments.getIntValue("queues"));
        config.setWriteQueueNums(arguments.getIntValue("queues"));
        for (Object address : addresses) {
            admin.createAndUpdateTopicConfig((String) address, config);
        }
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_S);
        while (!hasRoute(topic, addresses.size())) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("no route to " + topic);
            }
            TimeUnit.MILLISECONDS.sleep(POLL_MS);
        }
        return null;
    }

    private boolean hasRoute(String topic, int brokers) {
        try {
            return admin.examineTopicRouteInfo(topic).getQueueDatas().size() == brokers;
        } catch (Exception notYet) {
            return false;
        }
    }

    private Object send(JSONObject arguments) throws Exception {
        DefaultMQProducer producer = producer(arguments);
        List<JSONObject> asked = arguments.getJSONArray("messages").toJavaList(JSONObject.class);
        switch (arguments.getString("how")) {
            case "async":
                return sendAsync(producer, asked);
            case "batch":
                List<Message> batch = new ArrayList<>();
                asked.forEach(one -> batch.add(MessageText.read(one)));
                return List.of(show(producer.send(batch)));
            default:
                List<Object> results = new ArrayList<>();
                for (JSONObject one : asked) {
                    results.add(show(sendOne(producer, arguments.getString("how"), one)));
                }
                return results;
        }
    }

    private static SendResult sendOne(DefaultMQProducer producer, String how, JSONObject asked)
        throws Exception {
        Message message = MessageText.read(asked);
        switch (how) {
            case "sync":
                return producer.send(message);
            case "oneway":
                producer.sendOneway(message);
                return null;
            case "queue":
                return producer.send(message, MessageText.readQueue(asked));
            case "selector":
                return producer.send(message, new SelectMessageQueueByHash(), asked.get("hash"));
            default:
                throw new IllegalArgumentException(how);
        }
    }

    /** All at once; the results have the order of the messages, whichever callback came first. */
    private static Object sendAsync(DefaultMQProducer producer, List<JSONObject> asked)
        throws Exception {
        Object[] results = new Object[asked.size()];
        CountDownLatch missing = new CountDownLatch(results.length);
        for (int i = 0; i < results.length; i++) {
            int place = i;
            producer.send(MessageText.read(asked.get(i)), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    results[place] = show(result);
                    missing.countDown();
                }

                @Override
                public void onException(Throwable thrown) {
                    results[place] = ClientShell.error(thrown);
                    missing.countDown();
                }
            });
        }
        if (!missing.await(WAIT_S, TimeUnit.SECONDS)) {
            throw new IllegalStateException(missing.getCount() + " callbacks did not come");
        }
        return Arrays.asList(results);
    }

    private Object request(JSONObject arguments) throws Exception {
        DefaultMQProducer producer = producer(arguments);
        Message message = MessageText.read(arguments.getJSONObject("message"));
        long timeoutMs = arguments.getLongValue("timeoutMs");
        if (arguments.getString("how").equals("sync")) {
            return MessageText.show((MessageExt) producer.request(message, timeoutMs));
        }
        Object[] result = new Object[1];
        CountDownLatch missing = new CountDownLatch(1);
        producer.request(message, new RequestCallback() {
            @Override
            public void onSuccess(Message reply) {
                if (reply == null) {
                    return; // Java also calls this, with null, when the request was sent
                }
                try {
                    result[0] = MessageText.show((MessageExt) reply);
                } catch (Exception thrown) {
                    result[0] = ClientShell.error(thrown);
                }
                missing.countDown();
            }

            @Override
            public void onException(Throwable thrown) {
                result[0] = ClientShell.error(thrown);
                missing.countDown();
            }
        }, timeoutMs);
        if (!missing.await(WAIT_S, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no callback came");
        }
        return result[0];
    }

    private Object recall(JSONObject arguments) throws Exception {
        DefaultMQProducer producer = producer(arguments);
        try {
            // 4.9, which this is compiled for, too, has no such method.
            return producer.getClass().getMethod("recallMessage", String.class, String.class)
                .invoke(producer, arguments.getString("topic"), arguments.getString("handle"));
        } catch (InvocationTargetException thrown) {
            throw (Exception) thrown.getCause();
        }
    }

    /** One producer for each way to compress and to sign; it lives as long as the shell. */
    private DefaultMQProducer producer(JSONObject arguments) throws Exception {
        String codec = arguments.containsKey("compress") ? arguments.getString("compress") : "ZLIB";
        boolean signed = arguments.getBooleanValue("signed");
        String name = "producer-" + codec + (signed ? "-signed" : "");
        DefaultMQProducer producer = producers.get(name);
        if (producer == null) {
            // The one way to choose a codec that both versions have.
            System.setProperty("rocketmq.message.compressType", codec);
            producer = new DefaultMQProducer(name, ClientSettings.signing(signed));
            settings.apply(producer, name);
            producer.setSendMsgTimeout(SEND_TIMEOUT_MS);
            producer.start();
            producers.put(name, producer);
        }
        return producer;
    }

    private static JSONObject show(SendResult result) {
        if (result == null) {
            return null; // one-way: nobody answers
        }
        JSONObject shown = new JSONObject(true);
        MessageQueue queue = result.getMessageQueue();
        shown.put("status", result.getSendStatus().name());
        shown.put("id", result.getMsgId());
        shown.put("offsetId", result.getOffsetMsgId());
        shown.put("topic", queue.getTopic());
        shown.put("broker", queue.getBrokerName());
        shown.put("queue", queue.getQueueId());
        shown.put("offset", result.getQueueOffset());
        shown.put("region", result.getRegionId());
        shown.put("traced", result.isTraceOn());
        try {
            Object handle = result.getClass().getMethod("getRecallHandle").invoke(result);
            if (handle != null) {
                shown.put("recallHandle", handle);
            }
        } catch (ReflectiveOperationException tooOld) {
            return shown;
        }
        return shown;
    }
}
