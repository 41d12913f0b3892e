import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/**
 * Sends COUNT messages of BYTES bytes to TOPIC, every tenth of them as a batch of three, with tags
 * and keys. Prints "queue offset id key tag" for each message that was stored alone.
 *
 * Usage: FillStore NAMESRV TOPIC COUNT BYTES
 */
public final class FillStore {
    public static void main(String[] args) throws Exception {
        String topic = args[1];
        int count = Integer.parseInt(args[2]);
        StringBuilder filling = new StringBuilder();
        while (filling.length() < Integer.parseInt(args[3])) {
            filling.append((char) ('a' + filling.length() % 26));
        }
        DefaultMQProducer producer = new DefaultMQProducer("P_Fill");
        producer.setNamesrvAddr(args[0]);
        producer.setSendMsgTimeout(10_000);
        producer.start();
        for (int i = 0; i < count; i++) {
            if (i % 10 == 9) {
                List<Message> batch = new ArrayList<>();
                for (int j = 0; j < 3; j++) {
                    batch.add(message(topic, i, "batch " + i + "." + j + " " + filling));
                }
                producer.send(batch);
            } else {
                Message message = message(topic, i, "message " + i + " " + filling);
                SendResult result = producer.send(message);
                System.out.println(result.getMessageQueue().getQueueId() + " "
                    + result.getQueueOffset() + " " + result.getOffsetMsgId() + " "
                    + message.getKeys() + " " + message.getTags());
            }
        }
        producer.shutdown();
        System.exit(0);
    }

    private static Message message(String topic, int i, String text) {
        return new Message(topic, "Tag" + i % 3, "key" + i, text.getBytes(StandardCharsets.UTF_8));
    }
}
