import java.io.File;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.jar.JarFile;
import org.apache.rocketmq.remoting.CommandCustomHeader;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * Prints the ext fields that the Java peer writes for each of its header classes, as JSON: once for a
 * header as its constructor leaves it, and once with every field set.
 *
 * <p>Usage: java -cp "LIB/*" FillHeaders.java JAR filled-VERSION.json, where JAR holds the header classes.
 * It writes the file itself because the peer logs to the standard output.
 */
public class FillHeaders {
    public static void main(String[] args) throws Exception {
        Map<String, String> lines = new TreeMap<>();
        try (JarFile jar = new JarFile(new File(args[0]))) {
            for (var entries = jar.entries(); entries.hasMoreElements(); ) {
                String name = entries.nextElement().getName();
                if (name.contains("/protocol/header/") && name.endsWith(".class")) {
                    Class<?> type = Class.forName(name.substring(0, name.length() - 6).replace('/', '.'));
                    if (CommandCustomHeader.class.isAssignableFrom(type) && hasDefaultConstructor(type)) {
                        lines.put(type.getSimpleName(), line(type));
                    }
                }
            }
        }
        List<String> members = new ArrayList<>();
        lines.forEach((name, line) -> members.add('"' + name + "\": " + line));
        Files.writeString(Path.of(args[1]), "{\n" + String.join(",\n", members) + "\n}\n");
    }

    private static boolean hasDefaultConstructor(Class<?> type) {
        for (Constructor<?> constructor : type.getConstructors()) {
            if (constructor.getParameterCount() == 0) {
                return true;
            }
        }
        return false;
    }

    private static String line(Class<?> type) throws Exception {
        CommandCustomHeader header = (CommandCustomHeader) type.getDeclaredConstructor().newInstance();
        String fresh = ext(header);
        for (Class<?> part = type; part != Object.class; part = part.getSuperclass()) {
            for (Field field : part.getDeclaredFields()) {
                if (!Modifier.isStatic(field.getModifiers())) {
                    field.setAccessible(true);
                    field.set(header, sample(field));
                }
            }
        }
        return "{\n  \"fresh\": " + fresh + ",\n  \"filled\": " + ext(header) + "}";
    }

    private static Object sample(Field field) {
        Class<?> type = field.getType();
        if (type == int.class || type == Integer.class) {
            return -field.getName().length();
        }
        if (type == long.class || type == Long.class) {
            return (1L << 40) + field.getName().length();
        }
        if (type == boolean.class || type == Boolean.class) {
            return true;
        }
        if (type.isEnum()) {
            return type.getEnumConstants()[1];
        }
        return type == String.class ? "text of " + field.getName() : null;
    }

    private static String ext(CommandCustomHeader header) {
        RemotingCommand command = RemotingCommand.createRequestCommand(0, header);
        command.makeCustomHeaderToNet();
        List<String> members = new ArrayList<>();
        new TreeMap<>(command.getExtFields()).forEach((name, value) -> members.add(
            '"' + name + "\": \"" + (isNow(value) ? "now" : value) + '"'));
        return "{" + String.join(", ", members) + "}";
    }

    private static boolean isNow(String value) {
        return value.matches("\\d{13}") && Math.abs(System.currentTimeMillis() - Long.parseLong(value)) < 60_000;
    }
}
