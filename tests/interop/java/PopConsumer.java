import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/**
 * Sends and consumes COUNT messages in pop mode (5.x), failing once. The mode of the group must
 * have been set with mqadmin.
 *
 * Usage: PopConsumer NAMESRV TOPIC GROUP COUNT
 */
public final class PopConsumer {
    private static final int WAIT_S = 40;

    public static void main(String[] args) throws Exception {
        int count = Integer.parseInt(args[3]);
        CountDownLatch missing = new CountDownLatch(count + 1);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[2]);
        consumer.setNamesrvAddr(args[0]);
        consumer.setHeartbeatBrokerInterval(1000); // SendReceive says why
        consumer.subscribe(args[1], "*");
        // By reflection: the method is not in 4.9, whose clients cannot pop.
        consumer.getClass().getMethod("setClientRebalance", boolean.class).invoke(consumer, false);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            boolean first = missing.getCount() == count + 1;
            messages.forEach(message -> missing.countDown());
            return first ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        DefaultMQProducer producer = new DefaultMQProducer("P_" + args[2]);
        producer.setNamesrvAddr(args[0]);
        producer.start();
        for (int i = 0; i < count; i++) {
            producer.send(new Message(args[1], ("pop " + i).getBytes()));
        }
        boolean all = missing.await(WAIT_S, TimeUnit.SECONDS);
        producer.shutdown();
        consumer.shutdown();
        System.exit(all ? 0 : 1);
    }
}
