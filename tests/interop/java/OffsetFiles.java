import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.store.OffsetSerializeWrapper;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * The file in which the peer's broadcasting consumers keep their offsets: "write FILE" fills one,
 * "read FILE" prints "topic broker queue offset" of each queue in it.
 */
public final class OffsetFiles {
    public static void main(String[] args) throws Exception {
        Path path = Path.of(args[1]);
        if (args[0].equals("write")) {
            OffsetSerializeWrapper offsets = new OffsetSerializeWrapper();
            offsets.getOffsetTable().put(new MessageQueue("Orders", "broker-a", 0), new AtomicLong(12));
            offsets.getOffsetTable().put(new MessageQueue("Orders", "broker-a", 1), new AtomicLong(0));
            offsets.getOffsetTable().put(new MessageQueue("ns%Orders", "b\u00fc \"x\"", 7),
                new AtomicLong(9_007_199_254_740_993L));
            Files.write(path, offsets.toJson(true).getBytes(StandardCharsets.UTF_8));
        } else {
            String text = new String(Files.readAllBytes(path), StandardCharsets.UTF_8);
            OffsetSerializeWrapper offsets =
                OffsetSerializeWrapper.fromJson(text, OffsetSerializeWrapper.class);
            for (Map.Entry<MessageQueue, AtomicLong> entry : offsets.getOffsetTable().entrySet()) {
                MessageQueue queue = entry.getKey();
                System.out.printf("%s\t%s\t%d\t%d%n", queue.getTopic(), queue.getBrokerName(),
                    queue.getQueueId(), entry.getValue().get());
            }
        }
        System.exit(0);
    }
}
