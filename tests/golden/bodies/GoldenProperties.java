import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONWriter.Feature;
import java.io.PrintStream;
import java.io.StringReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.Random;
import java.util.TreeMap;

/**
 * Random tricky properties texts and what java.util.Properties reads from them: a JSON array of
 * [text, entries] pairs, with null for a text that it refuses.
 *
 *   java -cp "<5.5.0>/lib/*" GoldenProperties.java properties.json
 */
public class GoldenProperties {
    private static final String[] PIECES = {
        "a", "b", "=", ":", " ", "\t", "\f", "\\", "\\", "\n", "\r", "\r\n", "#", "!", "u", "00e9",
        "\\u00e9", "\\ud83d\\ude00", "\u00e9", "n", "\\\n",
    };

    public static void main(String[] arguments) throws Exception {
        Random random = new Random(7);
        List<Object> cases = new ArrayList<>();
        while (cases.size() < 400) {
            StringBuilder text = new StringBuilder();
            for (int i = 2 + random.nextInt(12); i > 0; i--) {
                text.append(PIECES[random.nextInt(PIECES.length)]);
            }
            Object entries = load(text.toString());
            // Half a surrogate pair has no UTF-8, and an empty key is of no use to anybody.
            String shown = String.valueOf(entries);
            boolean whole = shown.equals(new String(shown.getBytes("UTF-8"), "UTF-8"));
            if (whole && !hasEmptyKey(entries)) {
                List<Object> pair = new ArrayList<>();
                pair.add(text.toString());
                pair.add(entries);
                cases.add(pair);
            }
        }
        StringBuilder json = new StringBuilder("[\n");
        for (Object pair : cases) {
            json.append(json.length() > 2 ? ",\n" : "");
            json.append(JSON.toJSONString(pair, Feature.WriteNulls));
        }
        new PrintStream(arguments[0], "UTF-8").print(json.append("\n]\n"));
    }

    private static boolean hasEmptyKey(Object entries) {
        return entries instanceof TreeMap && ((TreeMap<?, ?>) entries).containsKey("");
    }

    private static Object load(String text) throws Exception {
        Properties properties = new Properties();
        try {
            properties.load(new StringReader(text));
        } catch (IllegalArgumentException e) {
            return null;
        }
        return new TreeMap<Object, Object>(properties);
    }
}
