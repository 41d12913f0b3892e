import com.alibaba.fastjson.JSONObject;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;

/**
 * What a producer and a consumer that write down what they do can be told to do.
 *
 * traced        send one "message" by a producer of "group", and consume it in the same group; the id
 *               of the message
 * flushTraces   let both send what they wrote down, which they else do seconds later. They have to
 *               live on: what 4.9 sends when it ends may be lost
 * endTraced     end both
 */
final class TraceCommands {
    private static final int WAIT_S = 20;

    private final ClientSettings settings;
    private DefaultMQProducer producer;
    private DefaultMQPushConsumer consumer;

    TraceCommands(ClientSettings settings) {
        this.settings = settings;
    }

    void addTo(Map<String, ClientShell.Command> commands) {
        commands.put("traced", this::traced);
        commands.put("flushTraces", arguments -> {
            producer.getTraceDispatcher().flush();
            consumer.getTraceDispatcher().flush();
            return null;
        });
        commands.put("endTraced", arguments -> {
            producer.shutdown();
            consumer.shutdown();
            return null;
        });
    }

    private Object traced(JSONObject arguments) throws Exception {
        String group = arguments.getString("group");
        JSONObject message = arguments.getJSONObject("message");
        SendResult sent = send(group, message);
        consume(group, message.getString("topic"));
        return sent.getMsgId();
    }

    private SendResult send(String group, JSONObject message) throws Exception {
        producer = new DefaultMQProducer(group, true, null);
        settings.apply(producer, group + "-sends");
        producer.setSendMsgTimeout(10_000);
        producer.start();
        return producer.send(MessageText.read(message));
    }

    private void consume(String group, String topic) throws Exception {
        consumer = new DefaultMQPushConsumer(group, true, null);
        settings.apply(consumer, group + "-consumes");
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        CountDownLatch missing = new CountDownLatch(1);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            missing.countDown();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        if (!missing.await(WAIT_S, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no message of " + topic + " came");
        }
    }
}
