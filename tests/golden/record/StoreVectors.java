// Prints message records as the real RocketMQ 5.5.0 store writes them, with the fields its decoder
// reads from them; also runs of damaged records with how many of them the decoder still returns.
//   java -Duser.timezone=Asia/Shanghai -cp "<lib>/*" StoreVectors.java <directory>

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.ByteArrayOutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.compression.CompressorFactory;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageExtBatch;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.common.message.MessageVersion;
import org.apache.rocketmq.common.utils.MessageUtils;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.MessageExtEncoder;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.SelectMappedBufferResult;
import org.apache.rocketmq.store.config.FlushDiskType;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

public class StoreVectors {
    static final String PROPERTIES = "KEYS\u0001k1 k2\u0002TAGS\u0001TagA\u0002UNIQ_KEY\u0001AC11000100002A9F0000000000010000\u0002名\u0001値\u0002";

    public static void main(String[] arguments) throws Exception {
        Path directory = Path.of(arguments[0]);
        write(directory.resolve("records-5.5.0.json"), encoded());
        write(directory.resolve("runs-5.5.0.json"), runs());
        write(directory.resolve("removals-5.5.0.json"), removals());
        write(directory.resolve("stored-5.5.0.json"), stored());
        System.exit(0);
    }

    static void write(Path path, Object value) throws Exception {
        String json = JSON.toJSONString(value, SerializerFeature.PrettyFormat,
            SerializerFeature.WriteMapNullValue, SerializerFeature.DisableCircularReferenceDetect);
        Files.writeString(path, json + "\n");
    }

    static Map<String, Object> row(Object... pairs) {
        Map<String, Object> row = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            row.put((String) pairs[i], pairs[i + 1]);
        }
        return row;
    }

    static InetSocketAddress host(String ip, int port) throws Exception {
        return new InetSocketAddress(InetAddress.getByName(ip), port);
    }

    static MessageExtBrokerInner message(String topic, byte[] body, String born, String store, int sysFlag) throws Exception {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        fill(message, topic, body, born, store, sysFlag);
        message.setPropertiesString(PROPERTIES);
        MessageAccessor.setProperties(message, MessageDecoder.string2messageProperties(PROPERTIES));
        return message;
    }

    static void fill(MessageExtBrokerInner message, String topic, byte[] body, String born, String store, int sysFlag) throws Exception {
        message.setTopic(topic);
        message.setBody(body);
        message.setBodyCRC(UtilAll.crc32(body));
        message.setQueueId(3);
        message.setFlag(0x01020304);
        message.setQueueOffset(0x1122334455667788L);
        message.setSysFlag(sysFlag);
        message.setBornTimestamp(1700000000123L);
        message.setBornHost(host(born, 54321));
        message.setStoreTimestamp(1700000000456L);
        message.setStoreHost(host(store, 10911));
        message.setReconsumeTimes(2);
        message.setPreparedTransactionOffset(987654321L);
        message.setVersion(topic.length() > 127 ? MessageVersion.MESSAGE_VERSION_V2 : MessageVersion.MESSAGE_VERSION_V1);
        if (born.contains(":")) {
            message.setBornHostV6Flag();
        }
        if (store.contains(":")) {
            message.setStoreHostAddressV6Flag();
        }
    }

    /** The bytes of the encoder, with the log offset put in as the append callback does. */
    static byte[] encode(MessageExtBrokerInner message) {
        MessageExtEncoder encoder = new MessageExtEncoder(new MessageStoreConfig());
        PutMessageResult refused = encoder.encode(message);
        if (refused != null) {
            throw new IllegalStateException(refused.toString());
        }
        ByteBuffer buffer = encoder.getEncoderBuffer();
        byte[] record = new byte[buffer.getInt(0)];
        buffer.get(record);
        ByteBuffer.wrap(record).putLong(MessageDecoder.MESSAGE_PHYSIC_OFFSET_POSITION, 0x0000000100000400L);
        return record;
    }

    static Map<String, Object> describe(String name, byte[] record) {
        MessageExt message = MessageDecoder.decode(ByteBuffer.wrap(record), true, false, false, false, true);
        return row("name", name, "record", UtilAll.bytes2string(record), "fields", fields(message));
    }

    static Object fields(MessageExt message) {
        if (message == null) {
            return null;
        }
        InetSocketAddress born = (InetSocketAddress) message.getBornHost();
        InetSocketAddress store = (InetSocketAddress) message.getStoreHost();
        return row("size", message.getStoreSize(), "bodyCrc", message.getBodyCRC(), "queueId", message.getQueueId(),
            "flag", message.getFlag(), "queueOffset", message.getQueueOffset(), "logOffset", message.getCommitLogOffset(),
            "sysFlag", message.getSysFlag(), "bornTime", message.getBornTimestamp(),
            "bornIp", UtilAll.bytes2string(born.getAddress().getAddress()), "bornPort", born.getPort(),
            "storeTime", message.getStoreTimestamp(),
            "storeIp", UtilAll.bytes2string(store.getAddress().getAddress()), "storePort", store.getPort(),
            "reconsumeTimes", message.getReconsumeTimes(), "preparedOffset", message.getPreparedTransactionOffset(),
            "body", message.getBody() == null ? "" : UtilAll.bytes2string(message.getBody()), "topic", message.getTopic(),
            "properties", message.getProperties() == null ? Map.of() : new TreeMap<>(message.getProperties()),
            "messageId", message.getMsgId());
    }

    static Object encoded() throws Exception {
        byte[] body = "hello, 世界".getBytes(StandardCharsets.UTF_8);
        String v4 = "192.168.1.2";
        String v6 = "2001:db8::1";
        List<Object> rows = new ArrayList<>();
        for (String topic : new String[] {"TopicTest", "%RETRY%" + "g".repeat(200)}) {
            for (String born : new String[] {v4, v6}) {
                for (String store : new String[] {"10.0.0.9", "fe80::9"}) {
                    rows.add(describe(topic.length() + " " + born + " " + store, encode(message(topic, body, born, store, 0))));
                }
            }
        }
        for (int sysFlag : new int[] {0x2, 0x4, 0x8, 0xC, 0xC0, 0x40000000}) {
            rows.add(describe("sysFlag " + sysFlag, encode(message("T", body, v4, v4, sysFlag))));
        }
        for (CompressionType type : CompressionType.values()) {
            byte[] packed = CompressorFactory.getCompressor(type).compress("body ".repeat(50).getBytes(StandardCharsets.UTF_8), 5);
            rows.add(describe("compressed " + type, encode(message("T", packed, v4, v4, 1 | type.getCompressionFlag()))));
        }
        MessageExtBrokerInner bare = message("T", new byte[0], v4, v4, 0);
        bare.setPropertiesString("");
        rows.add(describe("empty body and properties", encode(bare)));
        MessageExtBrokerInner least = message("T", body, v4, v4, 0);
        least.setQueueId(-1);
        least.setFlag(Integer.MIN_VALUE);
        least.setQueueOffset(-1);
        least.setBornTimestamp(Long.MIN_VALUE);
        least.setReconsumeTimes(-1);
        rows.add(describe("negative numbers", encode(least)));
        rows.add(describe("topic of 127 bytes", encode(message("t".repeat(127), body, v4, v4, 0))));
        MessageExtBrokerInner full = message("T", body, v4, v4, 0);
        full.setPropertiesString("A\u0001" + "x".repeat(32767 - 3) + "\u0002");
        rows.add(describe("properties of 32767 bytes", encode(full)));
        MessageExtBrokerInner poison = message("T", body, v4, v4, 0x30);
        return row("records", rows, "poison", UtilAll.bytes2string(encode(poison)), "unwrapped", unwrapped());
    }

    static Object unwrapped() throws Exception {
        List<Message> messages = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            Message item = new Message("inner", ("item " + i).getBytes(StandardCharsets.UTF_8));
            item.setFlag(i);
            MessageAccessor.setProperties(item, new LinkedHashMap<>(Map.of("UNIQ_KEY", "ID" + i)));
            messages.add(item);
        }
        byte[] record = encode(message("inner", MessageDecoder.encodeMessages(messages), "192.168.1.2", "10.0.0.9", 0xC0));
        List<MessageExt> items = new ArrayList<>();
        MessageDecoder.decodeMessage(MessageDecoder.decode(ByteBuffer.wrap(record)), items);
        List<Object> rows = new ArrayList<>();
        items.forEach(item -> rows.add(fields(item)));
        return row("record", UtilAll.bytes2string(record), "items", rows);
    }

    static Object runs() throws Exception {
        byte[] one = encode(message("TopicTest", "one".getBytes(StandardCharsets.UTF_8), "192.168.1.2", "10.0.0.9", 0));
        byte[] two = encode(message("TopicTest", "two".getBytes(StandardCharsets.UTF_8), "2001:db8::1", "fe80::9", 0));
        byte[] wrongMagic = one.clone();
        wrongMagic[4] = 0;
        byte[] blank = ByteBuffer.allocate(one.length).putInt(one.length).putInt(MessageDecoder.BLANK_MAGIC_CODE).array();
        List<Object> rows = new ArrayList<>();
        rows.add(run("nothing", new byte[0]));
        rows.add(run("two records", join(one, two)));
        rows.add(run("wrong magic in the middle", join(one, wrongMagic, two)));
        rows.add(run("blank filler in the middle", join(one, blank, two)));
        rows.add(run("zeros after the records", join(one, two, new byte[64])));
        rows.add(run("one byte after the records", join(one, two, new byte[1])));
        for (int cut : new int[] {1, 2, 3, 20, two.length - 48, two.length - 4, two.length - 1}) {
            rows.add(run("cut by " + cut, Arrays.copyOf(join(one, two), one.length + two.length - cut)));
        }
        return rows;
    }

    /** How a store takes a property out of the property string. */
    static Object removals() {
        String[] texts = {
            "", "A\u0001B\u0002", "A\u0001B", "A\u0001B\u0002C\u0001D", "C\u0001D\u0002A\u0001B", "A\u0001\u0002C\u0001D\u0002", "AA\u0001B\u0002",
            "A\u0001B\u0002A\u0001C\u0002D\u0001E\u0002", "XA\u0001B\u0002A\u0001C\u0002", "C\u0001A\u0001B\u0002", "A\u0002A\u0001", "A",
            "\u0002\u0002A\u0001B\u0002\u0002", "AB\u0001A\u0002", "名\u0001A\u0002A\u0001名\u0002",
        };
        List<Object> rows = new ArrayList<>();
        for (String text : texts) {
            rows.add(row("raw", hex(text), "name", "A", "left", hex(MessageUtils.deleteProperty(text, "A"))));
        }
        return rows;
    }

    static String hex(String text) {
        return UtilAll.bytes2string(text.getBytes(StandardCharsets.UTF_8));
    }

    static Object run(String name, byte[] bytes) {
        return row("name", name, "bytes", UtilAll.bytes2string(bytes), "records", MessageDecoder.decodes(ByteBuffer.wrap(bytes)).size());
    }

    static byte[] join(byte[]... parts) throws Exception {
        ByteArrayOutputStream whole = new ByteArrayOutputStream();
        for (byte[] part : parts) {
            whole.write(part);
        }
        return whole.toByteArray();
    }

    /** What a real store puts into its log when it appends the CRC property. */
    static Object stored() throws Exception {
        MessageStoreConfig config = new MessageStoreConfig();
        Path root = Files.createTempDirectory("store-vectors");
        config.setStorePathRootDir(root.toString());
        config.setStorePathCommitLog(root.resolve("commitlog").toString());
        config.setMappedFileSizeCommitLog(1 << 20);
        config.setMappedFileSizeConsumeQueue(20 * 1000);
        config.setMaxIndexNum(100);
        config.setMaxHashSlotNum(100);
        config.setFlushDiskType(FlushDiskType.ASYNC_FLUSH);
        config.setEnabledAppendPropCRC(true);
        config.setHaListenPort(0);
        BrokerConfig broker = new BrokerConfig();
        DefaultMessageStore store = new DefaultMessageStore(config, new BrokerStatsManager(broker), null, broker,
            new ConcurrentHashMap<String, TopicConfig>());
        store.load();
        store.start();
        byte[] body = "stored body".getBytes(StandardCharsets.UTF_8);
        List<Object> rows = new ArrayList<>();
        rows.add(put(store, "plain", message("TopicTest", body, "192.168.1.2", "10.0.0.9", 0)));
        MessageExtBrokerInner open = message("TopicTest", body, "192.168.1.2", "10.0.0.9", 0);
        open.setPropertiesString(PROPERTIES.substring(0, PROPERTIES.length() - 1));
        rows.add(put(store, "no separator at the end", open));
        MessageExtBrokerInner none = message("TopicTest", body, "192.168.1.2", "10.0.0.9", 0);
        none.setPropertiesString("");
        rows.add(put(store, "no properties", none));
        MessageExtBrokerInner old = message("TopicTest", body, "192.168.1.2", "10.0.0.9", 0);
        old.setPropertiesString("A\u0001B\u0002__CRC32#\u00010987654321\u0002C\u0001D\u0002");
        MessageAccessor.setProperties(old, MessageDecoder.string2messageProperties(old.getPropertiesString()));
        rows.add(put(store, "an older CRC property", old));
        rows.add(put(store, "IPv6 hosts", message("TopicTest", body, "2001:db8::1", "fe80::9", 0)));
        rows.add(put(store, "long topic", message("%RETRY%" + "g".repeat(200), body, "192.168.1.2", "10.0.0.9", 0)));
        rows.add(batch(store));
        store.shutdown();
        store.destroy();
        return rows;
    }

    static Object put(DefaultMessageStore store, String name, MessageExtBrokerInner message) {
        String given = UtilAll.bytes2string(message.getPropertiesString().getBytes(StandardCharsets.UTF_8));
        PutMessageResult result = store.putMessage(message);
        return row("name", name, "given", given, "records", records(store, result));
    }

    static Object batch(DefaultMessageStore store) throws Exception {
        List<Message> messages = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            Message item = new Message("TopicTest", ("item " + i).getBytes(StandardCharsets.UTF_8));
            MessageAccessor.setProperties(item, new LinkedHashMap<>(Map.of("UNIQ_KEY", "ID" + i)));
            messages.add(item);
        }
        MessageExtBatch batch = new MessageExtBatch();
        fill(batch, "TopicTest", MessageDecoder.encodeMessages(messages), "192.168.1.2", "10.0.0.9", 0);
        return row("name", "batch", "given", null, "records", records(store, store.putMessages(batch)));
    }

    static Object records(DefaultMessageStore store, PutMessageResult result) {
        if (!result.isOk()) {
            throw new IllegalStateException(result.toString());
        }
        long start = result.getAppendMessageResult().getWroteOffset();
        int size = result.getAppendMessageResult().getWroteBytes();
        SelectMappedBufferResult slice = store.selectOneMessageByOffset(start, size);
        byte[] bytes = new byte[size];
        slice.getByteBuffer().get(bytes);
        slice.release();
        List<Object> rows = new ArrayList<>();
        for (int at = 0; at < size; at += ByteBuffer.wrap(bytes).getInt(at)) {
            int length = ByteBuffer.wrap(bytes).getInt(at);
            rows.add(describe("", Arrays.copyOfRange(bytes, at, at + length)));
        }
        return rows;
    }
}
