import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.common.BoundaryType;

/**
 * Prints how the Java peer reads ext fields of each type from odd texts, as JSON; null where it fails.
 *
 * <p>Usage: java -cp "LIB/*" ReadTexts.java > texts.json
 */
public class ReadTexts {
    private static final String[] TEXTS = {
        "0", "5", "-5", "+5", "-0", "+0", "007", "-007", " 5", "5 ", "1.0", "1e3", "1_0", "0x10", "5L", "--5", "+-5",
        "+", "-", "null", "NULL", "NaN", "true", "TRUE", "tRuE", " true", "yes", "1", "false", "FALSE", "on",
        "2147483647", "2147483648", "-2147483648", "-2147483649", "9223372036854775807", "9223372036854775808",
        "-9223372036854775808", "-9223372036854775809", "18446744073709551616", "00000000000000000000000000000000001",
        "\u0665", "-\u0665", "\uff15", "\u00b2", "\u2164", "LOWER", "lower", "UPPER", "upper", "uPPer", "Upper ", "x",
    };

    public static void main(String[] args) {
        List<String> lines = new ArrayList<>();
        for (String text : TEXTS) {
            lines.add(String.format("{\"text\": \"%s\", \"i32\": %s, \"i64\": %s, \"bool\": %s, \"boundary\": \"%s\"}",
                ascii(text), i32(text), i64(text), Boolean.parseBoolean(text), BoundaryType.getType(text)));
        }
        System.out.println("[\n" + String.join(",\n", lines) + "\n]");
    }

    private static Integer i32(String text) {
        try {
            return Integer.parseInt(text);
        } catch (NumberFormatException error) {
            return null;
        }
    }

    private static Long i64(String text) {
        try {
            return Long.parseLong(text);
        } catch (NumberFormatException error) {
            return null;
        }
    }

    private static String ascii(String text) {
        StringBuilder out = new StringBuilder();
        text.chars().forEach(c -> out.append(c < 128 ? String.valueOf((char) c) : String.format("\\u%04x", c)));
        return out.toString();
    }
}
