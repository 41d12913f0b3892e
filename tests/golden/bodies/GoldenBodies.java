import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Fills every field of the body classes of one RocketMQ release with a distinct value and prints
 * what the release's own encoder makes of it, one "class TAB json" line each, to a file.
 *
 *   java -Duser.timezone=UTC -cp "<release>/lib/*" GoldenBodies.java classes-<release>.txt <release>.tsv
 *
 * Values depend only on the order of the fields, so a second run gives the same file.
 */
public class GoldenBodies {
    private static int counter;

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(arguments[1], "UTF-8");
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            if (line.isBlank() || line.startsWith("#")) {
                continue;
            }
            counter = 0;
            Class<?> type = Class.forName(line.strip());
            String body = new String(encode(fill(type)), "UTF-8");
            if (body.contains("\n") || body.contains("\t")) {
                throw new IllegalStateException(line);
            }
            out.println(type.getSimpleName() + "\t" + body);
        }
    }

    private static byte[] encode(Object body) throws Exception {
        Method encode = Class.forName("org.apache.rocketmq.remoting.protocol.RemotingSerializable")
            .getMethod("encode", Object.class);
        return (byte[]) encode.invoke(null, body);
    }

    private static Object fill(Class<?> type) throws Exception {
        Object body = construct(type);
        for (Class<?> c = type; c != Object.class; c = c.getSuperclass()) {
            for (Field field : c.getDeclaredFields()) {
                if (Modifier.isStatic(field.getModifiers()) || field.getType() == Random.class) {
                    continue;
                }
                field.setAccessible(true);
                Object value = value(field.getGenericType(), field.getName());
                if (value != null) {
                    field.set(body, value);
                }
            }
        }
        return body;
    }

    private static Object construct(Class<?> type) throws Exception {
        Constructor<?> shortest = null;
        for (Constructor<?> constructor : type.getDeclaredConstructors()) {
            boolean copies = List.of(constructor.getParameterTypes()).contains(type);
            if (!copies && (shortest == null
                || constructor.getParameterCount() < shortest.getParameterCount())) {
                shortest = constructor;
            }
        }
        Object[] parameters = new Object[shortest.getParameterCount()];
        for (int i = 0; i < parameters.length; i++) {
            parameters[i] = value(shortest.getGenericParameterTypes()[i], "p");
        }
        shortest.setAccessible(true);
        return shortest.newInstance(parameters);
    }

    private static Object value(Type type, String name) throws Exception {
        if (!(type instanceof Class || type instanceof ParameterizedType)) {
            return null;
        }
        if (type instanceof ParameterizedType) {
            ParameterizedType generic = (ParameterizedType) type;
            return collection((Class<?>) generic.getRawType(), generic.getActualTypeArguments(), name);
        }
        Class<?> c = (Class<?>) type;
        int n = ++counter;
        if (c == String.class) {
            return name + "-" + n;
        } else if (c == int.class || c == Integer.class) {
            return n;
        } else if (c == long.class || c == Long.class) {
            return name.endsWith("Id") || name.equals("key") ? n : 1_700_000_000_000L + n;
        } else if (c == boolean.class || c == Boolean.class) {
            return n % 2 == 0;
        } else if (c == double.class || c == Double.class) {
            return n + 0.5;
        } else if (c == float.class) {
            return n + 0.5f;
        } else if (c == AtomicLong.class) {
            return new AtomicLong(1_700_000_000_000L + n);
        } else if (c == AtomicInteger.class) {
            return new AtomicInteger(n);
        } else if (c == BitSet.class) {
            return BitSet.valueOf(new long[] {n * 37L});
        } else if (c == byte[].class) {
            return new byte[] {(byte) n, 0, -1};
        } else if (c == long[].class) {
            return new long[] {n, n + 1};
        } else if (c.isEnum()) {
            return c.getEnumConstants()[n % c.getEnumConstants().length];
        } else if (c == Properties.class) {
            Properties properties = new Properties();
            properties.setProperty("key-" + n, name);
            return properties;
        } else if (c.isInterface() || c.getName().startsWith("java.")) {
            return null;
        }
        return fill(c);
    }

    private static Object collection(Class<?> raw, Type[] parts, String name) throws Exception {
        if (Map.class.isAssignableFrom(raw)) {
            Map<Object, Object> map = raw.isAssignableFrom(LinkedHashMap.class) ? new LinkedHashMap<>()
                : raw.isAssignableFrom(ConcurrentHashMap.class) ? new ConcurrentHashMap<>()
                : raw.isAssignableFrom(ConcurrentSkipListMap.class) ? new ConcurrentSkipListMap<>()
                : new TreeMap<>();
            for (int i = 0; i < 2; i++) {
                map.put(value(parts[0], "key"), value(parts[1], name));
            }
            return map;
        }
        Collection<Object> items = raw.isAssignableFrom(ArrayList.class) ? new ArrayList<>()
            : raw.isAssignableFrom(LinkedHashSet.class) ? new LinkedHashSet<>()
            : raw == HashSet.class ? new HashSet<>() : new TreeSet<>();
        for (int i = 0; i < 2; i++) {
            items.add(value(parts[0], name));
        }
        return items;
    }
}
