import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;

/**
 * Consumes the first COUNT messages of TOPIC with a push consumer as it comes, by turns through each
 * name server, ROUNDS times; a first turn of each only warms this JVM up. Prints "name server, messages
 * per second" for each turn, joined by a tab, counted from the message that comes after a tenth.
 *
 * Usage: PushRate TOPIC COUNT ROUNDS NAMESRV...
 */
public final class PushRate {
    private static final int WAIT_S = 120;

    public static void main(String[] args) throws Exception {
        String topic = args[0];
        long count = Long.parseLong(args[1]);
        int rounds = Integer.parseInt(args[2]);
        for (int round = 0; round <= rounds; round++) {
            for (int i = 3; i < args.length; i++) {
                // Every other round goes backwards: nobody always follows the same neighbour.
                String nameServer = round % 2 == 0 ? args[i] : args[args.length + 2 - i];
                double rate = consume(topic, count, nameServer, "PushRate" + round);
                if (round > 0) {
                    System.out.printf("%s\t%.1f%n", nameServer, rate);
                }
            }
        }
        System.exit(0); // not all client threads are daemons
    }

    private static double consume(String topic, long count, String nameServer, String group)
        throws Exception {
        long first = count / 10;
        AtomicLong seen = new AtomicLong();
        AtomicLong startedNs = new AtomicLong();
        AtomicLong endedNs = new AtomicLong();
        CountDownLatch done = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName(group + nameServer.replace(':', '-'));
        consumer.setHeartbeatBrokerInterval(1_000); // SendReceive says why
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            long before = seen.getAndAdd(messages.size());
            if (before <= first && before + messages.size() > first) {
                startedNs.set(System.nanoTime());
            }
            if (before < count && before + messages.size() >= count) {
                endedNs.set(System.nanoTime());
                done.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        boolean inTime = done.await(WAIT_S, TimeUnit.SECONDS);
        consumer.shutdown();
        if (!inTime) {
            throw new IllegalStateException(
                seen + " of " + count + " messages of " + topic + " came in " + WAIT_S + " s");
        }
        return (count - first) * 1e9 / (endedNs.get() - startedNs.get());
    }
}
