import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.apache.rocketmq.broker.filter.MessageEvaluationContext;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.Expression;
import org.apache.rocketmq.filter.expression.MQFilterException;

/**
 * Asks RocketMQ's own filter, and Java's own number parsers, for the answers that ours must give.
 *
 * <p>filters.json: per filter one letter per property map: T true, F false, N null, E error; or "-"
 * where the filter does not parse. numbers.json: per text its Integer, Long and Double (as bits in
 * hexadecimal) or null, and the ranges of characters that Integer.valueOf takes for digits.
 */
public class AnswerSql {
    public static void main(String[] args) throws Exception {
        JSONObject questions = JSON.parseObject(Files.readString(Path.of(args[0])));
        Path directory = Path.of(args[1]);
        writeFilters(questions, directory.resolve("filters.json"));
        writeNumbers(questions, directory.resolve("numbers.json"));
    }

    private static void writeFilters(JSONObject questions, Path path) throws Exception {
        List<Map<String, String>> properties = new ArrayList<>();
        for (Object each : questions.getJSONArray("properties")) {
            Map<String, String> map = new HashMap<>();
            ((JSONObject) each).forEach((key, value) -> map.put(key, (String) value));
            properties.add(map);
        }
        List<String> lines = new ArrayList<>();
        for (Object filter : questions.getJSONArray("filters")) {
            lines.add(JSON.toJSONString(List.of(filter, answer((String) filter, properties))));
        }
        write(path, "properties", questions.getJSONArray("properties"), "filters", lines);
    }

    private static String answer(String filter, List<Map<String, String>> properties) {
        Expression expression;
        try {
            expression = FilterFactory.INSTANCE.get("SQL92").compile(filter);
        } catch (MQFilterException e) {
            return "-";
        }
        StringBuilder letters = new StringBuilder();
        for (Map<String, String> map : properties) {
            letters.append(letter(expression, map));
        }
        return letters.toString();
    }

    private static char letter(Expression expression, Map<String, String> properties) {
        try {
            Object value = expression.evaluate(new MessageEvaluationContext(properties));
            return value == null ? 'N' : (Boolean) value ? 'T' : 'F';
        } catch (Throwable e) {
            return 'E';
        }
    }

    private static void writeNumbers(JSONObject questions, Path path) throws Exception {
        List<String> lines = new ArrayList<>();
        for (Object each : questions.getJSONArray("numbers")) {
            String text = (String) each;
            JSONArray row = new JSONArray();
            row.add(text);
            row.add(orNull(() -> Integer.valueOf(text)));
            row.add(orNull(() -> Long.valueOf(text)));
            row.add(orNull(() -> Long.toHexString(Double.doubleToLongBits(Double.valueOf(text)))));
            lines.add(JSON.toJSONString(row,
                com.alibaba.fastjson.serializer.SerializerFeature.WriteMapNullValue));
        }
        write(path, "digit_ranges", digitRanges(), "numbers", lines);
    }

    private static Object orNull(Callable<Object> read) throws Exception {
        try {
            return read.call();
        } catch (NumberFormatException e) {
            return null;
        }
    }

    private static List<List<Integer>> digitRanges() {
        List<List<Integer>> ranges = new ArrayList<>();
        for (int unit = 0; unit <= Character.MAX_VALUE; unit++) {
            if (Character.digit((char) unit, 10) == 0) {
                ranges.add(List.of(unit, unit + 9));
            }
        }
        return ranges;
    }

    private static void write(Path path, String name, Object value, String rowsName,
        List<String> rows) throws Exception {
        try (PrintWriter out = new PrintWriter(Files.newBufferedWriter(path))) {
            out.printf("{\"%s\": %s,%n\"%s\": [%n", name, JSON.toJSONString(value), rowsName);
            out.println(String.join(",\n", rows));
            out.println("]}");
        }
    }
}
