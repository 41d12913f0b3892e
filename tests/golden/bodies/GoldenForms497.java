import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.protocol.body.GetConsumerStatusBody;
import org.apache.rocketmq.common.protocol.body.RegisterBrokerBody;
import org.apache.rocketmq.common.protocol.body.TopicConfigSerializeWrapper;
import org.apache.rocketmq.common.protocol.heartbeat.ConsumerData;
import org.apache.rocketmq.common.protocol.heartbeat.HeartbeatData;
import org.apache.rocketmq.common.protocol.heartbeat.SubscriptionData;
import org.apache.rocketmq.common.protocol.route.BrokerData;
import org.apache.rocketmq.common.protocol.route.QueueData;
import org.apache.rocketmq.common.protocol.route.TopicRouteData;

/**
 * Bodies that have more than one form, as 4.9.7 writes them, one "form TAB text" line each: a
 * route in both forms, a compressed registration in Base64, and bodies with one Java object in two
 * places, which FastJSON 1 writes as a reference.
 *
 *   java -cp "<4.9.7>/lib/*" GoldenForms497.java forms-4.9.7.tsv
 */
public class GoldenForms497 {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(arguments[0], "UTF-8");
        TopicRouteData route = route("caf\u00e9");
        out.println("route dialect\t" + new String(route.encode(), "UTF-8"));
        out.println("route standard\t" + new String(route.encode(SerializerFeature.BrowserCompatible,
            SerializerFeature.QuoteFieldNames, SerializerFeature.SkipTransientField,
            SerializerFeature.MapSortField), "UTF-8"));
        byte[] registration = registration().encode(true);
        out.println("registration compressed\t" + Base64.getEncoder().encodeToString(registration));
        out.println("registration bare\t"
            + new String(registration().getTopicConfigSerializeWrapper().encode(), "UTF-8"));
        out.println("reference to a member\t" + new String(heartbeat().encode(), "UTF-8"));
        out.println("reference through an object key\t" + new String(status().encode(), "UTF-8"));
    }

    private static TopicRouteData route(String cluster) {
        HashMap<Long, String> addresses = new HashMap<>();
        addresses.put(10L, "10.0.0.3:10911");
        addresses.put(2L, "10.0.0.2:10911");
        addresses.put(0L, "10.0.0.1:10911");
        QueueData queue = new QueueData();
        queue.setBrokerName("broker-a");
        queue.setPerm(6);
        queue.setReadQueueNums(4);
        queue.setWriteQueueNums(4);
        TopicRouteData route = new TopicRouteData();
        route.setBrokerDatas(List.of(new BrokerData(cluster, "broker-a", addresses)));
        route.setQueueDatas(List.of(queue));
        route.setFilterServerTable(new HashMap<>());
        return route;
    }

    private static RegisterBrokerBody registration() {
        TopicConfigSerializeWrapper wrapper = new TopicConfigSerializeWrapper();
        wrapper.getDataVersion().setTimestamp(1_700_000_000_000L);
        wrapper.getTopicConfigTable().put("plain", new TopicConfig("plain", 16, 16, 2));
        wrapper.getTopicConfigTable().put("other", new TopicConfig("other", 4, 8, 6));
        RegisterBrokerBody body = new RegisterBrokerBody();
        body.setTopicConfigSerializeWrapper(wrapper);
        body.setFilterServerList(new ArrayList<>(List.of("10.0.0.9:30911")));
        return body;
    }

    private static HeartbeatData heartbeat() {
        SubscriptionData subscription = new SubscriptionData("T", "*");
        subscription.setSubVersion(1_700_000_000_000L);
        HeartbeatData heartbeat = new HeartbeatData();
        heartbeat.setClientID("10.0.0.1@1");
        for (String group : List.of("g1", "g2")) {
            ConsumerData consumer = new ConsumerData();
            consumer.setGroupName(group);
            consumer.getSubscriptionDataSet().add(subscription);
            heartbeat.getConsumerDataSet().add(consumer);
        }
        return heartbeat;
    }

    private static GetConsumerStatusBody status() {
        MessageQueue queue = new MessageQueue("T", "b", 0);
        GetConsumerStatusBody status = new GetConsumerStatusBody();
        status.getConsumerTable().put("c", new HashMap<>());
        status.getConsumerTable().get("c").put(queue, 5L);
        status.getMessageQueueTable().put(queue, 6L);
        return status;
    }
}
