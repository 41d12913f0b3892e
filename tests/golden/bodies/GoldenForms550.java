import com.alibaba.fastjson2.JSONWriter.Feature;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.remoting.protocol.body.RegisterBrokerBody;
import org.apache.rocketmq.remoting.protocol.body.TopicConfigAndMappingSerializeWrapper;
import org.apache.rocketmq.remoting.protocol.route.BrokerData;
import org.apache.rocketmq.remoting.protocol.route.QueueData;
import org.apache.rocketmq.remoting.protocol.route.TopicRouteData;
import org.apache.rocketmq.remoting.protocol.statictopic.TopicQueueMappingInfo;

/**
 * Bodies that have more than one form, as 5.5.0 writes them, one "form TAB text" line each:
 * a route in both forms, and a compressed registration in Base64.
 *
 *   java -cp "<5.5.0>/lib/*" GoldenForms550.java forms-5.5.0.tsv
 */
public class GoldenForms550 {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(arguments[0], "UTF-8");
        TopicRouteData route = route("caf\u00e9");
        out.println("route dialect\t" + new String(route.encode(), "UTF-8"));
        out.println("route standard\t"
            + new String(route.encode(Feature.BrowserCompatible, Feature.MapSortField), "UTF-8"));
        byte[] registration = registration().encode(true);
        out.println("registration compressed\t" + Base64.getEncoder().encodeToString(registration));
        out.println("registration plain\t" + new String(registration().encode(), "UTF-8"));
    }

    private static TopicRouteData route(String cluster) {
        HashMap<Long, String> addresses = new HashMap<>();
        addresses.put(10L, "10.0.0.3:10911");
        addresses.put(2L, "10.0.0.2:10911");
        addresses.put(0L, "10.0.0.1:10911");
        BrokerData broker = new BrokerData(cluster, "broker-a", addresses);
        QueueData queue = new QueueData();
        queue.setBrokerName("broker-a");
        queue.setPerm(6);
        queue.setReadQueueNums(4);
        queue.setWriteQueueNums(4);
        HashMap<String, List<String>> filters = new HashMap<>();
        filters.put("10.0.0.1:10911", List.of());
        TopicRouteData route = new TopicRouteData();
        route.setBrokerDatas(List.of(broker));
        route.setQueueDatas(List.of(queue));
        route.setFilterServerTable(filters);
        route.setOrderTopicConf("broker-a:4");
        return route;
    }

    private static RegisterBrokerBody registration() {
        TopicConfigAndMappingSerializeWrapper wrapper = new TopicConfigAndMappingSerializeWrapper();
        wrapper.getDataVersion().setTimestamp(1_700_000_000_000L);
        wrapper.getMappingDataVersion().setTimestamp(0);
        TopicConfig fifo = new TopicConfig("fifo", 4, 8, 6);
        fifo.getAttributes().put("+message.type", "FIFO");
        for (TopicConfig topic : List.of(fifo, new TopicConfig("plain", 16, 16, 2))) {
            wrapper.getTopicConfigTable().put(topic.getTopicName(), topic);
        }
        TopicQueueMappingInfo mapping = new TopicQueueMappingInfo("static", 2, "broker-a", 3);
        mapping.getCurrIdMap().put(1, 0);
        wrapper.getTopicQueueMappingInfoMap().put("static", mapping);
        RegisterBrokerBody body = new RegisterBrokerBody();
        body.setTopicConfigSerializeWrapper(wrapper);
        body.setFilterServerList(new ArrayList<>(List.of("10.0.0.9:30911")));
        return body;
    }
}
