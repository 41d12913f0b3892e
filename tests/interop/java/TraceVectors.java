import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.rocketmq.client.AccessChannel;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.trace.TraceBean;
import org.apache.rocketmq.client.trace.TraceContext;
import org.apache.rocketmq.client.trace.TraceDataEncoder;
import org.apache.rocketmq.client.trace.TraceTransferBean;
import org.apache.rocketmq.client.trace.TraceType;
import org.apache.rocketmq.common.message.MessageType;

/**
 * Prints traces as the real TraceDataEncoder writes them, and what it reads in texts of older clients.
 *
 * One line of JSON each: "context" and "beans" are what was set, "text" and "keys" what was made of
 * it; or "text" is what was given, and "read" what was found there. Needs 5.x: 4.9 recalls nothing.
 *
 * Usage: TraceVectors
 */
public final class TraceVectors {
    private static final long TIME_MS = 1_700_000_000_123L;
    private static final String REGION = "DefaultRegion";
    private static final String ID = "7F00000100022A139A5534C1A8000001";
    private static final String OFFSET_ID = "7F00000100002A9F0000000000001F40";

    public static void main(String[] args) {
        for (MessageType kind : MessageType.values()) {
            write(context("Pub", true), bean("Topic", "tag", "key1 key2", kind));
        }
        TraceContext failed = context("Pub", false);
        failed.setRegionId(null);
        write(failed, bean(null, null, null, MessageType.Normal_Msg));
        write(context("Pub", true), bean("%RETRY%g", "gr\u00fcn\u2713", "\ud83d\ude80 \u5bc6\u94a5",
            MessageType.Normal_Msg));
        TraceBean bare = bean("Topic", "", "", MessageType.Normal_Msg);
        bare.setMsgId(null);
        bare.setOffsetMsgId(null);
        bare.setStoreHost(null);
        write(context("Pub", true), bare);
        write(context("SubBefore", true), bean("Topic", null, "a b", null),
            bean("Topic", "x", null, null));
        for (int code = 0; code < 5; code++) {
            TraceContext after = context("SubAfter", code == 0);
            after.setContextCode(code);
            after.setAccessChannel(code == 3 ? AccessChannel.CLOUD : AccessChannel.LOCAL);
            write(after, bean("Topic", "t", "k", null), bean("Topic", null, null, null));
        }
        for (LocalTransactionState state : LocalTransactionState.values()) {
            TraceBean ended = bean("Topic", "t", "k1 k2", MessageType.Trans_msg_Commit);
            ended.setTransactionState(state);
            ended.setTransactionId(state == LocalTransactionState.UNKNOW ? null : ID);
            ended.setFromTransactionCheck(state == LocalTransactionState.ROLLBACK_MESSAGE);
            write(context("EndTransaction", true), ended);
        }
        write(context("Recall", true), bean("Topic", null, "not written", null));
        write(context("Recall", false), bean("Topic", null, null, null));
        readAll();
    }

    private static TraceContext context(String type, boolean success) {
        TraceContext context = new TraceContext();
        context.setTraceType(TraceType.valueOf(type));
        context.setTimeStamp(TIME_MS);
        context.setRegionId(REGION);
        context.setGroupName("group-1");
        context.setCostTime(17);
        context.setSuccess(success);
        context.setRequestId("7F00000100022A139A5534C1A8000777");
        return context;
    }

    private static TraceBean bean(String topic, String tags, String keys, MessageType kind) {
        TraceBean bean = new TraceBean();
        bean.setTopic(topic);
        bean.setMsgId(ID);
        bean.setOffsetMsgId(OFFSET_ID);
        bean.setTags(tags);
        bean.setKeys(keys);
        bean.setStoreHost("127.0.0.1:10911");
        bean.setBodyLength(1234);
        bean.setRetryTimes(2);
        bean.setMsgType(kind);
        return bean;
    }

    private static void write(TraceContext context, TraceBean... beans) {
        context.setTraceBeans(new ArrayList<>(Arrays.asList(beans)));
        TraceTransferBean made = TraceDataEncoder.encoderFromContextBean(context);
        JSONObject line = new JSONObject(true);
        line.put("context", show(context));
        line.put("beans", show(context.getTraceBeans()));
        line.put("text", made.getTransData());
        line.put("keys", new ArrayList<>(new TreeSet<>(withoutNull(made))));
        print(line);
    }

    /** Java takes the id of a message that has none for a key, and cannot send that. */
    private static List<String> withoutNull(TraceTransferBean made) {
        List<String> keys = new ArrayList<>(made.getTransKey());
        keys.remove(null);
        return keys;
    }

    private static void readAll() {
        String pub = String.join("\u0001", "Pub", "" + TIME_MS, REGION, "g", "T", ID, "tag", "k",
            "127.0.0.1:10911", "5", "3", "0");
        read(pub + "\u0002");
        read(pub + "\u0001false\u0002");
        read(pub + "\u0001" + OFFSET_ID + "\u0001false\u0002");
        read(pub + "\u0001" + OFFSET_ID + "\u0001true\u0001127.0.0.9\u0002");
        read(pub + "\u0001" + OFFSET_ID + "\u0001true\u0001127.0.0.9\u0001more\u0002");
        String after = String.join("\u0001", "SubAfter", "R", ID, "9", "false", "k");
        read(after + "\u0002");
        read(after + "\u00014\u0001\u0002");
        read(after + "\u00014\u0001" + TIME_MS + "\u0002");
        read(after + "\u00012\u0001" + TIME_MS + "\u0001g\u0002" + pub + "\u0001TRUE\u0002");
        read("Other\u00011\u0002" + after + "\u0002");
        read("\u0002\u0002" + after);
    }

    private static void read(String text) {
        JSONArray found = new JSONArray();
        for (TraceContext context : TraceDataEncoder.decoderFromTraceDataString(text)) {
            JSONObject shown = show(context);
            shown.put("beans", show(context.getTraceBeans()));
            forgetUnread(shown, text);
            found.add(shown);
        }
        JSONObject line = new JSONObject(true);
        line.put("text", text);
        line.put("read", found);
        print(line);
    }

    /** What was not read is the time and the address of the reader, or a new id. */
    private static void forgetUnread(JSONObject shown, String text) {
        shown.put("bean", shown.getJSONArray("beans").remove(0));
        shown.remove("beans");
        JSONObject bean = shown.getJSONObject("bean");
        for (JSONObject fields : Arrays.asList(shown, bean)) {
            for (String name : Arrays.asList("timeStamp", "requestId", "storeHost")) {
                if (fields.containsKey(name) && !text.contains(String.valueOf(fields.get(name)))) {
                    fields.put(name, null);
                }
            }
        }
    }

    private static JSONObject show(TraceContext context) {
        JSONObject shown = new JSONObject(true);
        shown.put("traceType", context.getTraceType().name());
        shown.put("timeStamp", context.getTimeStamp());
        shown.put("regionId", context.getRegionId());
        shown.put("groupName", context.getGroupName());
        shown.put("costTime", context.getCostTime());
        shown.put("success", context.isSuccess());
        shown.put("requestId", context.getRequestId());
        shown.put("contextCode", context.getContextCode());
        shown.put("accessChannel", String.valueOf(context.getAccessChannel()));
        return shown;
    }

    private static JSONArray show(List<TraceBean> beans) {
        JSONArray all = new JSONArray();
        for (TraceBean bean : beans) {
            JSONObject shown = new JSONObject(true);
            shown.put("topic", bean.getTopic());
            shown.put("msgId", bean.getMsgId());
            shown.put("offsetMsgId", bean.getOffsetMsgId());
            shown.put("tags", bean.getTags());
            shown.put("keys", bean.getKeys());
            shown.put("storeHost", bean.getStoreHost());
            shown.put("bodyLength", bean.getBodyLength());
            shown.put("retryTimes", bean.getRetryTimes());
            shown.put("msgType", bean.getMsgType() == null ? null : bean.getMsgType().ordinal());
            shown.put("transactionId", bean.getTransactionId());
            LocalTransactionState state = bean.getTransactionState();
            shown.put("transactionState", state == null ? null : state.name());
            shown.put("fromTransactionCheck", bean.isFromTransactionCheck());
            all.add(shown);
        }
        return all;
    }

    private static void print(Map<String, Object> line) {
        System.out.println(JSON.toJSONString(line, SerializerFeature.WriteMapNullValue,
            SerializerFeature.BrowserCompatible, SerializerFeature.DisableCircularReferenceDetect));
    }
}
