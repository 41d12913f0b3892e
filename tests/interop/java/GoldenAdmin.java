import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.HashSet;
import java.util.Set;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * Makes the requests of the administration interface for which mqadmin has no command. Methods
 * that a version of the peer lacks are left out; refusals of the servers are as good as answers.
 *
 * Usage: GoldenAdmin NAMESRV BROKER TOPIC GROUP CLIENT_ID OFFSET_MESSAGE_ID
 */
public final class GoldenAdmin {
    private static final long TIMEOUT_MS = 5000;

    public static void main(String[] args) throws Exception {
        String broker = args[1];
        String topic = args[2];
        String group = args[3];
        String clientId = args[4];
        String messageId = args[5];
        DefaultMQAdminExt admin = new DefaultMQAdminExt();
        admin.setNamesrvAddr(args[0]);
        admin.start();

        call(admin, "getKVConfig", "golden", "key");
        call(admin, "getKVConfig", "golden", "no such key");
        call(admin, "getKVListByNamespace", "golden");
        call(admin, "fetchTopicsByCLuster", "DefaultCluster");
        call(admin, "getConsumeStatus", topic, group, clientId);
        call(admin, "queryConsumeTimeSpan", topic, group);
        call(admin, "queryTopicConsumeByWho", topic);
        call(admin, "queryTopicsByConsumer", group);
        call(admin, "querySubscription", group, topic);
        call(admin, "examineTopicConfig", broker, topic);
        call(admin, "examineSubscriptionGroupConfig", broker, group);
        call(admin, "updateAndGetGroupReadForbidden", broker, group, topic, Boolean.FALSE);
        call(admin, "consumeMessageDirectly", group, clientId, topic, messageId);
        call(admin, "consumeMessageDirectly", group, clientId, messageId);
        call(admin, "getConsumerRunningInfo", group, clientId, false);
        call(admin, "resumeCheckHalfMessage", topic, messageId);
        call(admin, "resumeCheckHalfMessage", messageId);
        call(admin, "getAllTopicConfig", broker, TIMEOUT_MS);
        call(admin, "getAllSubscriptionGroup", broker, TIMEOUT_MS);

        Object client = field(field(admin, "defaultMQAdminExtImpl"), "mqClientInstance");
        Object api = field(client, "mQClientAPIImpl");
        call(api, "getSystemTopicList", TIMEOUT_MS);
        call(api, "getSystemTopicListFromBroker", broker, TIMEOUT_MS);
        call(api, "getUnitTopicList", false, TIMEOUT_MS);
        call(api, "getHasUnitSubTopicList", false, TIMEOUT_MS);
        call(api, "getHasUnitSubUnUnitTopicList", false, TIMEOUT_MS);
        Set<String> filtered = new HashSet<>();
        filtered.add(group);
        call(api, "queryCorrectionOffset", broker, topic, group, filtered, TIMEOUT_MS);
        admin.shutdown();
        recall(args[0], topic);
        System.exit(0);
    }

    /** Takes a timed message back (5.3.2 and later). */
    private static void recall(String nameServers, String topic) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("GoldenRecall");
        producer.setNamesrvAddr(nameServers);
        producer.start();
        Message message = new Message(topic, "recalled".getBytes());
        message.putUserProperty("any", "thing");
        if (call(message, "setDelayTimeMs", 600_000L)) {
            SendResult result = producer.send(message);
            Object handle = result.getClass().getMethod("getRecallHandle").invoke(result);
            call(producer, "recallMessage", topic, handle);
        }
        producer.shutdown();
    }

    private static Object field(Object owner, String name) throws Exception {
        Field field = owner.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(owner);
    }

    /** Calls the method of that name that takes these arguments; false when there is none. */
    private static boolean call(Object target, String name, Object... arguments) throws Exception {
        for (Method method : target.getClass().getMethods()) {
            if (method.getName().equals(name) && takes(method, arguments)) {
                try {
                    method.invoke(target, arguments);
                } catch (InvocationTargetException refusal) {
                    System.out.printf("%s: %s%n", name, refusal.getCause());
                }
                return true;
            }
        }
        System.out.printf("%s: not in this version%n", name);
        return false;
    }

    private static boolean takes(Method method, Object[] arguments) {
        Class<?>[] types = method.getParameterTypes();
        if (types.length != arguments.length) {
            return false;
        }
        for (int i = 0; i < types.length; i++) {
            boolean primitive = types[i] == long.class && arguments[i] instanceof Long
                || types[i] == boolean.class && arguments[i] instanceof Boolean;
            if (!primitive && !types[i].isInstance(arguments[i])) {
                return false;
            }
        }
        return true;
    }
}
