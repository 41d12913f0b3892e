import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * What producers of transactions can be told to do.
 *
 * transact     send "message" by producer "name" of "group" (the same name without one); "ends" is
 *              the state of its local transaction, "checked" what it says when it is asked
 * transacting  start such a producer, if it does not run
 * checks       the bodies of the messages that producer "name" was asked about
 * endTransacting  end it
 */
final class TransactionCommands {
    private static final String CHECKED = "checked";

    private final ClientSettings settings;
    private final Map<String, Transacting> producers = new HashMap<>();

    /** A producer, and what it was asked about. */
    private static final class Transacting implements TransactionListener {
        final TransactionMQProducer producer;
        final List<String> checks = new CopyOnWriteArrayList<>();

        Transacting(ClientSettings settings, String group, String name) throws Exception {
            producer = new TransactionMQProducer(group);
            settings.apply(producer, name);
            producer.setSendMsgTimeout(10_000);
            producer.setTransactionListener(this);
            producer.start();
        }

        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object ends) {
            return LocalTransactionState.valueOf((String) ends);
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            checks.add(new String(message.getBody(), StandardCharsets.UTF_8));
            return LocalTransactionState.valueOf(message.getUserProperty(CHECKED));
        }
    }

    TransactionCommands(ClientSettings settings) {
        this.settings = settings;
    }

    void addTo(Map<String, ClientShell.Command> commands) {
        commands.put("transact", this::transact);
        commands.put("transacting", arguments -> {
            find(arguments);
            return null;
        });
        commands.put("checks", arguments -> new ArrayList<>(find(arguments).checks));
        commands.put("endTransacting", arguments -> {
            producers.remove(arguments.getString("name")).producer.shutdown();
            return null;
        });
    }

    private Object transact(JSONObject arguments) throws Exception {
        Message message = MessageText.read(arguments.getJSONObject("message"));
        message.putUserProperty(CHECKED, arguments.getString(CHECKED));
        TransactionSendResult result = find(arguments).producer.sendMessageInTransaction(
            message, arguments.getString("ends"));
        JSONObject shown = new JSONObject(true);
        shown.put("status", result.getSendStatus().name());
        shown.put("id", result.getMsgId());
        shown.put("transaction", result.getTransactionId());
        shown.put("state", result.getLocalTransactionState().name());
        return shown;
    }

    private Transacting find(JSONObject arguments) throws Exception {
        String name = arguments.getString("name");
        Transacting found = producers.get(name);
        if (found == null) {
            String group = arguments.getString("group");
            found = new Transacting(settings, group == null ? name : group, name);
            producers.put(name, found);
        }
        return found;
    }
}
