import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Receives COUNT messages of TOPIC that match TAGS, from the first one on, with a new group. Prints
 * "queue offset body" for each, in that order; ends with 1 when fewer came in time.
 *
 * Usage: Receive NAMESRV TOPIC TAGS COUNT
 */
public final class Receive {
    private static final int RECEIVE_TIMEOUT_S = 40;

    public static void main(String[] args) throws Exception {
        int count = Integer.parseInt(args[3]);
        CountDownLatch missing = new CountDownLatch(count);
        Map<String, String> received = new ConcurrentSkipListMap<>();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("C_Receive_" + System.nanoTime());
        consumer.setNamesrvAddr(args[0]);
        consumer.setHeartbeatBrokerInterval(1_000);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(args[1], args[2]);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                String place = String.format("%04d %012d", message.getQueueId(), message.getQueueOffset());
                if (received.put(place, new String(message.getBody(), StandardCharsets.UTF_8)) == null) {
                    missing.countDown();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        boolean isAll = missing.await(RECEIVE_TIMEOUT_S, TimeUnit.SECONDS);
        received.forEach((place, body) -> System.out.println(place + " " + body));
        System.exit(isAll ? 0 : 1);
    }
}
