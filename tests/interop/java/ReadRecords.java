import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Base64;
import java.util.List;
import java.util.TreeMap;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Decodes what somebody else has encoded with the real MessageDecoder and prints the fields.
 *
 * Each line of FILE is "records BASE64" (message records back to back) or "batch BASE64". Prints
 * one line for each message: its fields, joined by tabs, then an empty line.
 *
 * Usage: ReadRecords FILE
 */
public final class ReadRecords {
    public static void main(String[] args) throws Exception {
        for (String line : Files.readAllLines(Paths.get(args[0]))) {
            String[] parts = line.split(" ");
            ByteBuffer bytes = ByteBuffer.wrap(Base64.getDecoder().decode(parts[1]));
            if (parts[0].equals("records")) {
                for (MessageExt message : MessageDecoder.decodes(bytes)) {
                    show(message, message.getQueueId(), message.getFlag(),
                        message.getQueueOffset(), message.getCommitLogOffset(),
                        message.getBornTimestamp(), message.getBornHost(),
                        message.getStoreTimestamp(), message.getStoreHost(),
                        message.getReconsumeTimes(), message.getPreparedTransactionOffset(),
                        message.getBodyCRC());
                }
            } else {
                List<Message> messages = MessageDecoder.decodeMessages(bytes);
                for (Message message : messages) {
                    show(message, message.getFlag());
                }
            }
            System.out.println();
        }
    }

    private static void show(Message message, Object... fields) {
        StringBuilder row = new StringBuilder();
        row.append(message.getTopic() == null ? "" : message.getTopic());
        byte[] body = message.getBody() == null ? new byte[0] : message.getBody();
        row.append('\t').append(Base64.getEncoder().encodeToString(body));
        for (Object field : fields) {
            row.append('\t').append(field);
        }
        StringBuilder properties = new StringBuilder();
        if (message.getProperties() != null) {
            new TreeMap<>(message.getProperties()).forEach((name, value) ->
                properties.append(name).append('=').append(value).append(';'));
        }
        row.append('\t').append(Base64.getEncoder().encodeToString(
            properties.toString().getBytes(StandardCharsets.UTF_8)));
        System.out.println(row);
    }
}
