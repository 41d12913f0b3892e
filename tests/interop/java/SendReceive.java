import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Sends COUNT messages to TOPIC through the name servers NAMESRV and receives them with a push
 * consumer. Prints one line of JSON; ends with 1 when a message was not stored or did not come.
 *
 * Usage: SendReceive NAMESRV TOPIC COUNT
 */
public final class SendReceive {
    private static final int RECEIVE_TIMEOUT_S = 30;
    private static final int HEARTBEAT_MS = 1000;

    public static void main(String[] args) throws Exception {
        String nameServers = args[0];
        String topic = args[1];
        int count = Integer.parseInt(args[2]);

        Set<String> queues = new TreeSet<>();
        int stored = send(nameServers, topic, count, queues);
        Set<String> bodies = receive(nameServers, topic, count);
        System.out.printf("{\"stored\":%d,\"received\":%d,\"queues\":[%s]}%n",
            stored, bodies.size(), String.join(",", queues));
        // Not all client threads are daemons: end without waiting for them.
        System.exit(stored == count && bodies.size() == count ? 0 : 1);
    }

    private static int send(String nameServers, String topic, int count, Set<String> queues)
        throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("P_" + topic);
        producer.setNamesrvAddr(nameServers);
        producer.setSendMsgTimeout(10_000);
        producer.start();
        int stored = 0;
        for (int i = 0; i < count; i++) {
            byte[] body = ("message " + i).getBytes(StandardCharsets.UTF_8);
            SendResult result = producer.send(new Message(topic, "tag", "key" + i, body));
            if (result.getSendStatus() == SendStatus.SEND_OK) {
                stored++;
            }
            queues.add("\"" + result.getMessageQueue().getBrokerName() + ":"
                + result.getMessageQueue().getQueueId() + "\"");
        }
        producer.shutdown();
        return stored;
    }

    private static Set<String> receive(String nameServers, String topic, int count)
        throws Exception {
        Set<String> bodies = new ConcurrentSkipListSet<>();
        CountDownLatch missing = new CountDownLatch(count);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("C_" + topic);
        consumer.setNamesrvAddr(nameServers);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        // A client of 5.x skips the heartbeat after a rebalance when another is under way; the
        // broker then refuses its pulls until the next, which is 30 s later by default.
        consumer.setHeartbeatBrokerInterval(HEARTBEAT_MS);
        consumer.subscribe(topic, "tag");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                if (bodies.add(new String(message.getBody(), StandardCharsets.UTF_8))) {
                    missing.countDown();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        missing.await(RECEIVE_TIMEOUT_S, TimeUnit.SECONDS);
        consumer.shutdown();
        return bodies;
    }
}
