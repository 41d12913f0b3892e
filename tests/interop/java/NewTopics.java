import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/**
 * Sends one message after another until stopped, each to a topic that does not exist yet, so that
 * each needs a route from a name server. Prints "sent N" or "failed N" for each.
 *
 * Usage: NewTopics NAMESRV PREFIX
 */
public final class NewTopics {
    public static void main(String[] args) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("P_" + args[1]);
        producer.setNamesrvAddr(args[0]);
        producer.setPollNameServerInterval(1_000);
        producer.start();
        for (int i = 0; ; i++) {
            byte[] body = ("message " + i).getBytes(StandardCharsets.UTF_8);
            try {
                producer.send(new Message(args[1] + i, body));
                System.out.println("sent " + i);
            } catch (Exception e) {
                System.out.println("failed " + i + ": " + e);
            }
            Thread.sleep(100);
        }
    }
}
