import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Notes every message. It fails those whose body starts with "fail" until they have been tried again
 * "fails" times, with "delayLevel" for the next time; with "replies" it answers each as a request. One
 * whose body starts with "hold" is not done with until the listener is released.
 */
final class PushListener {
    private final String name;
    private final int fails;
    private final int delayLevel;
    private final Received received;
    private final DefaultMQProducer replier;
    private final CountDownLatch held = new CountDownLatch(1);

    PushListener(String name, JSONObject arguments, ClientSettings settings, Received received)
        throws Exception {
        this.name = name;
        this.received = received;
        fails = arguments.getIntValue("fails");
        delayLevel = arguments.getIntValue("delayLevel");
        replier = arguments.getBooleanValue("replies") ? new DefaultMQProducer("replier") : null;
        if (replier != null) {
            settings.apply(replier, name + "-replier");
            replier.start();
        }
    }

    void release() {
        held.countDown();
    }

    void close() {
        release();
        if (replier != null) {
            replier.shutdown();
        }
    }

    ConsumeConcurrentlyStatus consumeConcurrently(
        List<MessageExt> messages, ConsumeConcurrentlyContext context) {
        context.setDelayLevelWhenNextConsume(delayLevel);
        return succeeds(messages) ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS
            : ConsumeConcurrentlyStatus.RECONSUME_LATER;
    }

    ConsumeOrderlyStatus consumeOrderly(
        List<MessageExt> messages, ConsumeOrderlyContext context) {
        return succeeds(messages) ? ConsumeOrderlyStatus.SUCCESS
            : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
    }

    private boolean succeeds(List<MessageExt> messages) {
        boolean success = true;
        try {
            for (MessageExt message : messages) {
                JSONObject shown = MessageText.show(message);
                shown.put("consumer", name);
                shown.put("at", System.currentTimeMillis());
                if (replier != null) {
                    reply(message);
                }
                success &= !shown.getString("body").startsWith("fail")
                    || message.getReconsumeTimes() >= fails;
                received.add(shown);
                if (shown.getString("body").startsWith("hold")) {
                    held.await();
                }
            }
        } catch (Exception thrown) {
            throw new IllegalStateException(thrown);
        }
        return success;
    }

    private void reply(MessageExt request) throws Exception {
        String body = new String(request.getBody(), StandardCharsets.UTF_8);
        byte[] answer = ("reply to " + body).getBytes(StandardCharsets.UTF_8);
        replier.send(MessageUtil.createReplyMessage(request, answer));
    }
}
