// Prints what the real ConsumeQueue and IndexService make of many puts: the bytes of their files, and
// what they answer. Written for the jars of 5.5.0:
//   java -cp "<lib>/*" QueueAndIndexVectors.java <empty directory> <directory for the vectors>

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.store.ConsumeQueue;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.DispatchRequest;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.index.IndexService;
import org.apache.rocketmq.store.index.QueryOffsetResult;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

public class QueueAndIndexVectors {
    static final Random RANDOM = new Random(20240229);
    static final int FILE_BYTES = 200;
    static final long START = 1_700_000_000_123L;
    static Path scratch;
    static DefaultMessageStore store;

    public static void main(String[] arguments) throws Exception {
        scratch = Path.of(arguments[0]);
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(scratch.resolve("store").toString());
        config.setMaxHashSlotNum(13);
        config.setMaxIndexNum(40);
        store = new DefaultMessageStore(config, new BrokerStatsManager("c", false), null,
            new BrokerConfig(), new ConcurrentHashMap<>());
        store.load();
        int status = 1;
        try {
            write(arguments[1], "consumequeue", queues());
            write(arguments[1], "index", index());
            status = 0;
        } catch (Exception error) {
            error.printStackTrace();
        } finally {
            System.exit(status);  // the store has started threads
        }
    }

    static void write(String directory, String noun, Object value) throws Exception {
        String json = JSON.toJSONString(value, SerializerFeature.PrettyFormat,
            SerializerFeature.DisableCircularReferenceDetect);
        Files.writeString(Path.of(directory, noun + "-5.5.0.json"), json + "\n");
    }

    static Map<String, Object> row(Object... pairs) {
        Map<String, Object> row = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            row.put((String) pairs[i], pairs[i + 1]);
        }
        return row;
    }

    static Map<String, String> filesOf(Path directory) throws Exception {
        Map<String, String> found = new TreeMap<>();
        for (File file : directory.toFile().listFiles()) {
            found.put(file.getName(), HexFormat.of().formatHex(Files.readAllBytes(file.toPath())));
        }
        return found;
    }

    static List<Object> queues() throws Exception {
        List<Object> rows = new ArrayList<>();
        rows.add(queue("fromZero", 0, 25));
        rows.add(queue("oneFileExactly", 0, 10));
        rows.add(queue("insideFirstFile", 3, 12));
        rows.add(queue("insideLaterFile", 27, 12));
        rows.add(queue("atFileStart", 20, 11));
        return rows;
    }

    static Map<String, Object> queue(String name, int first, int count) throws Exception {
        ConsumeQueue queue = new ConsumeQueue(name, 3, scratch.resolve("cq").toString(), FILE_BYTES, store);
        List<Object> appends = new ArrayList<>();
        long logOffset = 1000;
        List<long[]> units = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            int size = 90 + RANDOM.nextInt(400);
            units.add(new long[] {logOffset, size, RANDOM.nextInt(), first + i});
            if (i % 4 == 3) {
                units.add(units.get(units.size() - 1));
            }
            logOffset += size + (RANDOM.nextBoolean() ? 0 : RANDOM.nextInt(1000));
        }
        for (long[] unit : units) {
            queue.putMessagePositionInfoWrapper(new DispatchRequest(name, 3, unit[0], (int) unit[1], unit[2],
                START, unit[3], "", "", 0, 0, new HashMap<>()));
            appends.add(unit);
        }
        Map<String, Object> row = row("name", name, "appends", appends, "state", state(queue),
            "files", filesOf(scratch.resolve("cq").resolve(name).resolve("3")));
        List<Object> expired = new ArrayList<>();
        for (int i = 1; i < units.size(); i += 5) {
            queue.deleteExpiredFile(units.get(i)[0]);
            expired.add(row("logMin", units.get(i)[0], "state", state(queue)));
        }
        row.put("expired", expired);
        long cut = units.get(units.size() - 1)[0];
        queue.truncateDirtyLogicFiles(cut);
        row.put("truncated", row("at", cut, "state", state(queue)));
        return row;
    }

    static List<Long> state(ConsumeQueue queue) {
        return Arrays.asList(queue.getMinOffsetInQueue(), queue.getMaxOffsetInQueue(), queue.getMaxPhysicOffset());
    }

    static Map<String, Object> index() throws Exception {
        IndexService index = new IndexService(store);
        List<Object> puts = new ArrayList<>();
        long time = START;
        for (int i = 0; i < 70; i++) {
            String topic = i % 3 == 0 ? "TopicTest" : i % 3 == 1 ? "%RETRY%group" : "t";
            String unique = i % 7 == 6 ? null : "7F000001ABCD00000000" + String.format("%012X", i * 77L);
            String keys = switch (i % 5) {
                case 0 -> "order" + i % 4;
                case 1 -> "order" + i % 4 + "  \u6d4b\u8bd5 " + "long".repeat(30);
                case 2 -> "polygenelubricants";
                case 3 -> "";
                default -> null;
            };
            Map<String, String> properties = new HashMap<>();
            if (unique != null) {
                properties.put(MessageConst.PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX, unique);
            }
            time += RANDOM.nextInt(4000);
            puts.add(row("topic", topic, "unique", unique, "keys", keys, "offset", i * 500L, "time", time));
            index.buildIndex(new DispatchRequest(topic, 0, i * 500L, 500, 0, time, i, keys, unique, 0, 0, properties));
            Thread.sleep(3);
        }
        List<Object> queries = new ArrayList<>();
        for (String topic : List.of("TopicTest", "%RETRY%group", "t")) {
            for (String key : List.of("order0", "order1", "order2", "order3", "\u6d4b\u8bd5", "long".repeat(30),
                "polygenelubricants", "absent", "7F000001ABCD00000000" + String.format("%012X", 77L * 33))) {
                for (long[] range : new long[][] {{0, Long.MAX_VALUE}, {START + 30_000, START + 80_000},
                    {START + 100_000, START + 100_001}, {0, START}, {time, Long.MAX_VALUE}}) {
                    for (int most : new int[] {64, 2}) {
                        QueryOffsetResult found = index.queryOffset(topic, key, most, range[0], range[1]);
                        queries.add(row("topic", topic, "key", key, "max", most, "begin", range[0], "end", range[1],
                            "found", found.getPhyOffsets()));
                    }
                }
            }
        }
        return row("slots", 13, "entries", 40, "puts", puts, "queries", queries,
            "files", new ArrayList<>(filesOf(scratch.resolve("store").resolve("index")).values()));
    }
}
