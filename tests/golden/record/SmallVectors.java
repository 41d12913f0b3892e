// Prints what the real RocketMQ classes make of many small inputs: properties, ids, hashes, batches,
// compressed bodies, tag expressions, names. Runs with the jars of 5.5.0 and of 4.9.7 alike:
//   java -Duser.timezone=Asia/Shanghai -cp "<lib>/*" SmallVectors.java <version> <directory>

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.compression.CompressorFactory;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageClientIDSetter;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageId;
import org.apache.rocketmq.common.topic.TopicValidator;

public class SmallVectors {
    static final Random RANDOM = new Random(20240229);
    static Path directory;
    static String version;

    public static void main(String[] arguments) throws Exception {
        version = arguments[0];
        directory = Path.of(arguments[1]);
        write("properties", properties());
        write("utf8", utf8());
        write("ids", ids());
        write("javahash", hashes());
        write("compression", compression());
        write("batch", batch());
        write("tags", tags());
        write("names", names());
    }

    static void write(String noun, Object value) throws Exception {
        String json = JSON.toJSONString(value, SerializerFeature.PrettyFormat,
            SerializerFeature.WriteMapNullValue, SerializerFeature.DisableCircularReferenceDetect);
        Files.writeString(directory.resolve(noun + "-" + version + ".json"), json + "\n");
    }

    static Map<String, Object> row(Object... pairs) {
        Map<String, Object> row = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            row.put((String) pairs[i], pairs[i + 1]);
        }
        return row;
    }

    static String hex(byte[] bytes) {
        return UtilAll.bytes2string(bytes);
    }

    /** Strings travel as UTF-16 units so that lone surrogates survive the JSON file. */
    static String units(String text) {
        ByteBuffer buffer = ByteBuffer.allocate(text.length() * 2);
        for (char unit : text.toCharArray()) {
            buffer.putChar(unit);
        }
        return hex(buffer.array());
    }

    static Map<String, String> unitsOf(Map<String, String> map) {
        Map<String, String> result = new TreeMap<>();
        map.forEach((name, value) -> result.put(units(name), units(value)));
        return result;
    }

    static Object properties() {
        String[] texts = {
            "", "\u0002", "\u0001", "\u0001\u0002", "A", "A\u0001", "\u0001B", "A\u0001B", "A\u0001B\u0002",
            "A\u0001\u0002", "\u0001B\u0002", "A\u0001\u0001\u0002", "A\u0001B\u0001C\u0002",
            "A\u0001B\u0002A\u0001C\u0002", "A\u0001B\u0002\u0002\u0002C\u0001D", "AB\u0002C\u0001D\u0002",
            "AB\u0002\u0001D\u0002", "A\u0001B\u0002C\u0001\u0002D\u0001E\u0002", "A\u0001 \u0002 \u0001B\u0002",
            "名\u0001値\u0002", "\uD83D\uDE00\u0001\uD83D\uDE80\u0002", "\uD83D\uDE00\u0002",
            "KEYS\u0001k1 k2\u0002TAGS\u0001TagA\u0002UNIQ_KEY\u0001AC110001\u0002WAIT\u0001true\u0002",
            "TAGS\u0001a\u0002XTAGS\u0001b\u0002TAGSX\u0001c\u0002", "X\u0001TAGS\u0001v\u0002TAGS\u0001w",
            "A\u0001\u0000\u0002", "A\n\u0001\t\u0002",
        };
        List<Object> decode = new ArrayList<>();
        for (String text : texts) {
            decode.add(row("raw", hex(text.getBytes(StandardCharsets.UTF_8)),
                "map", unitsOf(MessageDecoder.string2messageProperties(text))));
        }
        for (int i = 0; i < 60; i++) {
            StringBuilder text = new StringBuilder();
            for (int n = RANDOM.nextInt(14); n > 0; n--) {
                text.append("\u0001\u0001\u0002\u0002ABC名".charAt(RANDOM.nextInt(8)));
            }
            decode.add(row("raw", hex(text.toString().getBytes(StandardCharsets.UTF_8)),
                "map", unitsOf(MessageDecoder.string2messageProperties(text.toString()))));
        }
        List<Object> encode = new ArrayList<>();
        String[][] pairs = {
            {}, {"A", "B"}, {"A", ""}, {"", "B"}, {"A", null}, {"A", "B", "C", null, "D", "E"},
            {"A", "x\u0001y"}, {"A", "x\u0002y"}, {"名", "\uD83D\uDE00"}, {"A", "\uD83D"}, {"TAGS", "t", "KEYS", "k"},
        };
        for (String[] pair : pairs) {
            Map<String, String> map = new LinkedHashMap<>();
            List<Object> flat = new ArrayList<>();
            for (int i = 0; i < pair.length; i += 2) {
                map.put(pair[i], pair[i + 1]);
                flat.add(new Object[] {units(pair[i]), pair[i + 1] == null ? null : units(pair[i + 1])});
            }
            byte[] raw = MessageDecoder.messageProperties2String(map).getBytes(StandardCharsets.UTF_8);
            encode.add(row("pairs", flat, "raw", hex(raw)));
        }
        Map<String, String> constants = new TreeMap<>();
        for (var field : MessageConst.class.getFields()) {
            if (field.getType() == String.class) {
                try {
                    constants.put(field.getName(), (String) field.get(null));
                } catch (IllegalAccessException impossible) {
                    throw new AssertionError(impossible);
                }
            }
        }
        return row("decode", decode, "encode", encode, "constants", constants,
            "reserved", new TreeSet<>(MessageConst.STRING_HASH_SET));
    }

    static Object utf8() {
        List<Object> rows = new ArrayList<>();
        String[] damaged = {
            "ED A0 80", "ED A0 80 ED B0 80", "ED A0", "ED", "C0 80", "C1 BF", "E0 80 80", "E0 9F BF", "E0 A0", "F0 80 80 80",
            "F0 90 80", "F0 90", "F4 90 80 80", "F5 80 80 80", "FF", "FE FF", "80", "BF BF", "E2 82 41", "E2 82",
            "F0 9F 98 41", "F0 9F 98", "41 ED A0 80 42", "C3", "C3 28", "F8 88 80 80 80", "FC 84 80 80 80 80",
            "ED B0 41", "ED A0 41", "ED BF BF 41", "F0 9F 41 42", "E1 80 E2 F0 91 92 F1 BF 41",
        };
        for (String text : damaged) {
            byte[] raw = UtilAll.string2bytes(text.replace(" ", ""));
            rows.add(row("raw", hex(raw), "text", units(new String(raw, StandardCharsets.UTF_8))));
        }
        int[] bytes = {0x41, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC2, 0xDF, 0xE0, 0xE1, 0xED, 0xEF, 0xF0, 0xF3, 0xF4, 0xF5, 0xFF};
        for (int i = 0; i < 300; i++) {
            byte[] raw = new byte[1 + RANDOM.nextInt(7)];
            for (int j = 0; j < raw.length; j++) {
                raw[j] = (byte) bytes[RANDOM.nextInt(bytes.length)];
            }
            rows.add(row("raw", hex(raw), "text", units(new String(raw, StandardCharsets.UTF_8))));
        }
        List<Object> encode = new ArrayList<>();
        for (String text : new String[] {"a\uD800b", "\uDC00", "\uD83D\uDE00", "\uDE00\uD83D", "é", "\uD800\uD800\uDC00"}) {
            encode.add(row("text", units(text), "raw", hex(text.getBytes(StandardCharsets.UTF_8))));
        }
        return row("decode", rows, "encode", encode);
    }

    static Object ids() throws Exception {
        List<Object> offset = new ArrayList<>();
        Object[][] hosts = {
            {"192.168.1.2", 10911, 123456L}, {"0.0.0.0", 0, 0L}, {"255.255.255.255", 65535, Long.MAX_VALUE},
            {"2001:db8::1", 10911, 1073741824L}, {"fe80::1:2:3:4", 1, -1L}, {"127.0.0.1", 80, Long.MIN_VALUE},
        };
        for (Object[] host : hosts) {
            InetAddress address = InetAddress.getByName((String) host[0]);
            String id = MessageDecoder.createMessageId(
                new InetSocketAddress(address, (int) host[1]), (long) host[2]);
            MessageId back = MessageDecoder.decodeMessageId(id.toLowerCase());
            offset.add(row("ip", host[0], "port", host[1], "offset", host[2], "id", id,
                "decodedOffset", back.getOffset(), "decodedPort", ((InetSocketAddress) back.getAddress()).getPort()));
        }
        List<Object> unique = new ArrayList<>();
        for (int i = 0; i < 5; i++) {
            unique.add(uniqueRow(MessageClientIDSetter.createUniqID()));
        }
        for (int i = 0; i < 40; i++) {
            byte[] raw = new byte[i % 2 == 0 ? 16 : 28];
            RANDOM.nextBytes(raw);
            ByteBuffer.wrap(raw).putInt(raw.length - 6, RANDOM.nextInt(Integer.MAX_VALUE));
            unique.add(uniqueRow(hex(raw)));
        }
        return row("zone", java.time.ZoneId.systemDefault().getId(), "offset", offset, "unique", unique);
    }

    static Object uniqueRow(String id) throws Exception {
        Method ip = MessageClientIDSetter.class.getMethod("getIPFromID", String.class);
        long before = System.currentTimeMillis();
        long time = MessageClientIDSetter.getNearlyTimeFromID(id).getTime();
        return row("id", id, "ip", hex((byte[]) ip.invoke(null, id)), "pid", MessageClientIDSetter.getPidFromID(id),
            "now", before, "time", time);
    }

    static Object hashes() {
        List<Object> rows = new ArrayList<>();
        for (String text : new String[] {"", "a", "TagA", "TagB", "*", "\u0000", "\uFFFF", "\uD83D\uDE00", "\uD800", "polygenelubricants", "é", "tag-名"}) {
            rows.add(row("text", units(text), "hash", text.hashCode()));
        }
        for (int i = 0; i < 200; i++) {
            StringBuilder text = new StringBuilder();
            for (int n = 1 + RANDOM.nextInt(24); n > 0; n--) {
                switch (RANDOM.nextInt(4)) {
                    case 0: text.append((char) (32 + RANDOM.nextInt(95))); break;
                    case 1: text.append((char) RANDOM.nextInt(0x800)); break;
                    case 2: text.append((char) RANDOM.nextInt(0x10000)); break;
                    default: text.appendCodePoint(0x10000 + RANDOM.nextInt(0x100000));
                }
            }
            rows.add(row("text", units(text.toString()), "hash", text.toString().hashCode()));
        }
        return rows;
    }

    static Object compression() throws Exception {
        byte[] repeated = "RocketMQ message body, ".repeat(40).getBytes(StandardCharsets.UTF_8);
        byte[] noise = new byte[300];
        RANDOM.nextBytes(noise);
        List<Object> rows = new ArrayList<>();
        for (CompressionType type : CompressionType.values()) {
            for (byte[] body : new byte[][] {repeated, noise, {0}, {}}) {
                for (int level : new int[] {1, 5, 9}) {
                    byte[] packed = CompressorFactory.getCompressor(type).compress(body, level);
                    rows.add(row("type", type.getCompressionFlag(), "name", type.name(), "level", level,
                        "body", hex(body), "packed", hex(packed)));
                }
            }
        }
        return rows;
    }

    static Object batch() throws Exception {
        List<Message> messages = new ArrayList<>();
        for (int i = 0; i < 5; i++) {
            byte[] body = new byte[i * 7];
            RANDOM.nextBytes(body);
            Message message = new Message("topic", body);
            message.setFlag(RANDOM.nextInt());
            Map<String, String> map = new LinkedHashMap<>();
            for (int j = 0; j < i; j++) {
                map.put("name" + j, "値" + j);
            }
            MessageAccessor.setProperties(message, map);
            messages.add(message);
        }
        List<Object> items = new ArrayList<>();
        byte[] raw = MessageDecoder.encodeMessages(messages);
        for (Message message : MessageDecoder.decodeMessages(ByteBuffer.wrap(raw))) {
            items.add(row("flag", message.getFlag(), "body", hex(message.getBody()),
                "properties", new TreeMap<>(message.getProperties())));
        }
        Message small = new Message("topic", "hi".getBytes(StandardCharsets.UTF_8));
        MessageAccessor.setProperties(small, Map.of("A", "B"));
        return row("raw", hex(raw), "items", items, "small", hex(MessageDecoder.encodeMessage(small)));
    }

    static Class<?> either(String first, String second) throws ClassNotFoundException {
        try {
            return Class.forName(first);
        } catch (ClassNotFoundException older) {
            return Class.forName(second);
        }
    }

    static Object tags() throws Exception {
        Class<?> api = either("org.apache.rocketmq.remoting.protocol.filter.FilterAPI", "org.apache.rocketmq.common.filter.FilterAPI");
        Method build = null;
        for (Method method : api.getMethods()) {
            if (method.getName().equals("buildSubscriptionData") && method.getParameterCount() == 2) {
                build = method;
            }
        }
        String[] expressions = {
            null, "", "*", " * ", "TagA", " TagA ", "TagA||TagB", "TagA || TagB", "TagA || TagB || TagA", "TagA||", "||TagA",
            "||", "||||", "|||", "|", "| |", " || ", " ||", "|| ", " ", "TagA | TagB", "TagA|||TagB", "TagA||||TagB", "* || TagA",
            "\u0000TagA\u001F", "\u00A0TagA\u3000", "名 || \uD83D\uDE00", "TagA\n||\tTagB", "a b || c",
        };
        List<Object> rows = new ArrayList<>();
        for (String expression : expressions) {
            Map<String, Object> row = row("expression", expression == null ? null : units(expression));
            try {
                Object data = build.invoke(null, "topic", expression);
                TreeSet<String> tags = new TreeSet<>();
                for (Object tag : (Iterable<?>) data.getClass().getMethod("getTagsSet").invoke(data)) {
                    tags.add(units((String) tag));
                }
                row.put("subString", units((String) data.getClass().getMethod("getSubString").invoke(data)));
                row.put("tags", tags);
                row.put("codes", new TreeSet<>((java.util.Set<Integer>) data.getClass().getMethod("getCodeSet").invoke(data)));
            } catch (InvocationTargetException error) {
                row.put("error", error.getCause().getMessage());
            }
            rows.add(row);
        }
        return rows;
    }

    static Object names() throws Exception {
        List<Object> legal = new ArrayList<>();
        String[] names = {
            "", " ", "a", "Topic_1-x", "%RETRY%group", "%RETRY%", "%DLQ%group", "%LMQ%x", "a|b", "a%b", "a.b", ".", "..", "../x", "a/b", "a\\b",
            "a b", "a\n", "a\u0000", "%00", "tópic", "Tоpic", "ａ", "a+b", "a@b", "a:b", "a,b", "~", "-", "rmq_sys_x", "TBW102",
            "x".repeat(119), "x".repeat(120), "x".repeat(121), "x".repeat(127), "x".repeat(128), "x".repeat(255), "x".repeat(256),
            "%RETRY%" + "x".repeat(248), "%RETRY%" + "x".repeat(249), "%DLQ%" + "x".repeat(250), "%DLQ%" + "x".repeat(251), "%LMQ%" + "x".repeat(123),
        };
        for (String name : names) {
            legal.add(row("name", units(name), "topic", valid("validateTopic", name), "group", valid("validateGroup", name),
                "system", TopicValidator.isSystemTopic(name)));
        }
        Class<?> space = either("org.apache.rocketmq.remoting.protocol.NamespaceUtil", "org.apache.rocketmq.common.protocol.NamespaceUtil");
        List<Object> spaces = new ArrayList<>();
        String[] resources = {
            "", "topic", "ns%topic", "%topic", "ns%", "%RETRY%group", "%RETRY%ns%group", "%DLQ%group", "%DLQ%ns%group", "%RETRY%%DLQ%x",
            "a%b%c", "TBW102", "rmq_sys_x", "ns%TBW102", "CID_RMQ_SYS_x", "%RETRY%CID_RMQ_SYS_x", "%LMQ%x", " ", "%RETRY%", "ns2%topic",
        };
        for (String resource : resources) {
            for (String namespace : new String[] {"", "ns", "a"}) {
                spaces.add(row("resource", resource, "namespace", namespace,
                    "wrap", call(space, "wrapNamespace", namespace, resource),
                    "unwrap", call(space, "withoutNamespace", resource, namespace),
                    "unwrapAny", call(space, "withoutNamespace", resource),
                    "wrapRetry", call(space, "wrapNamespaceAndRetry", namespace, resource),
                    "of", call(space, "getNamespaceFromResource", resource)));
            }
        }
        return row("legal", legal, "namespaces", spaces, "system", new TreeSet<>(TopicValidator.getSystemTopicSet()),
            "notSendable", new TreeSet<>(notSendable()));
    }

    static java.util.Set<String> notSendable() throws Exception {
        return (java.util.Set<String>) TopicValidator.class.getMethod("getNotAllowedSendTopicSet").invoke(null);
    }

    static Object call(Class<?> type, String name, String... arguments) throws Exception {
        Class<?>[] types = new Class<?>[arguments.length];
        java.util.Arrays.fill(types, String.class);
        return type.getMethod(name, types).invoke(null, (Object[]) arguments);
    }

    /** 4.9.7 has no such method for groups and another shape for topics: then null. */
    static Object valid(String method, String name) throws Exception {
        try {
            Object result = TopicValidator.class.getMethod(method, String.class).invoke(null, name);
            return result.getClass().getMethod("isValid").invoke(result);
        } catch (NoSuchMethodException older) {
            return null;
        }
    }
}
