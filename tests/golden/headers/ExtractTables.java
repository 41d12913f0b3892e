import java.io.File;
import java.lang.annotation.Annotation;
import java.lang.reflect.Array;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Enumeration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;

/**
 * Prints what the Java peer declares about its codes, languages, versions and header classes, as JSON.
 *
 * <p>Usage: java -cp "LIB/*" ExtractTables.java LIB > peer-VERSION.json, where LIB holds the jars of one
 * RocketMQ release. The classes moved between 4.9 and 5.x, so everything is found by simple name.
 */
public class ExtractTables {
    private static final Map<String, String> CLASS_OF = new TreeMap<>();

    public static void main(String[] args) throws Exception {
        scan(new File(args[0]));
        StringBuilder out = new StringBuilder("{\n");
        out.append("\"request_codes\": ").append(codes("RequestCode")).append(",\n");
        out.append("\"response_codes\": ").append(codes("ResponseCode")).append(",\n");
        out.append("\"languages\": ").append(languages()).append(",\n");
        out.append("\"versions\": ").append(versions()).append(",\n");
        out.append("\"headers\": ").append(headers()).append("\n}\n");
        System.out.print(out);
    }

    private static void scan(File directory) throws Exception {
        for (File jar : directory.listFiles()) {
            if (!jar.getName().startsWith("rocketmq-")) {
                continue;
            }
            try (JarFile file = new JarFile(jar)) {
                for (Enumeration<JarEntry> all = file.entries(); all.hasMoreElements(); ) {
                    String name = all.nextElement().getName();
                    if (name.startsWith("org/apache/rocketmq/") && name.endsWith(".class")) {
                        String type = name.substring(0, name.length() - 6).replace('/', '.');
                        String simple = type.substring(type.lastIndexOf('.') + 1);
                        CLASS_OF.merge(simple, type, ExtractTables::preferProtocol);
                    }
                }
            }
        }
    }

    private static String preferProtocol(String one, String other) {
        return one.contains(".protocol") ? one : other;
    }

    private static Class<?> find(String simple) throws Exception {
        return Class.forName(CLASS_OF.get(simple));
    }

    private static String codes(String holder) throws Exception {
        // A superclass holds the remoting layer's own codes.
        Map<String, Object> all = new TreeMap<>();
        for (Class<?> type = find(holder); type != Object.class; type = type.getSuperclass()) {
            for (Field field : type.getDeclaredFields()) {
                boolean isNumber = field.getType() == int.class || field.getType() == short.class;
                if (Modifier.isStatic(field.getModifiers()) && isNumber) {
                    field.setAccessible(true);
                    all.put(field.getName(), field.get(null));
                }
            }
        }
        return object(all);
    }

    private static String languages() throws Exception {
        Map<String, Object> all = new TreeMap<>();
        for (Object constant : find("LanguageCode").getEnumConstants()) {
            byte code = (byte) constant.getClass().getMethod("getCode").invoke(constant);
            all.put(((Enum<?>) constant).name(), (int) code);
        }
        return object(all);
    }

    private static String versions() throws Exception {
        Class<?> holder = find("MQVersion");
        int count = find("MQVersion$Version").getEnumConstants().length;
        List<String> names = new ArrayList<>();
        for (int ordinal = 0; ordinal <= count; ordinal++) {
            names.add(text(holder.getMethod("getVersionDesc", int.class).invoke(null, ordinal)));
        }
        return "[" + String.join(", ", names) + "]";
    }

    private static String headers() throws Exception {
        Class<?> root = find("CommandCustomHeader");
        Map<String, Object> all = new TreeMap<>();
        for (Map.Entry<String, String> entry : CLASS_OF.entrySet()) {
            String type = entry.getValue();
            if (!type.contains(".protocol.header.")) {
                continue;
            }
            Class<?> header = Class.forName(type);
            if (root.isAssignableFrom(header) && !Modifier.isAbstract(header.getModifiers())) {
                all.put(header.getSimpleName(), new Raw(header(header)));
            }
        }
        return object(all);
    }

    private static String header(Class<?> header) throws Exception {
        Map<String, Object> result = new TreeMap<>();
        for (Annotation annotation : header.getAnnotations()) {
            if (annotation.annotationType().getSimpleName().equals("RocketMQAction")) {
                result.put("code", value(annotation, "value"));
                result.put("resource", value(annotation, "resource").toString());
                result.put("actions", actions(value(annotation, "action")));
            }
        }
        Constructor<?> constructor = null;
        for (Constructor<?> candidate : header.getConstructors()) {
            constructor = candidate.getParameterCount() == 0 ? candidate : constructor;
        }
        Object sample = constructor == null ? null : constructor.newInstance();
        List<String> fields = new ArrayList<>();
        for (Class<?> type = header; type != Object.class; type = type.getSuperclass()) {
            for (Field field : type.getDeclaredFields()) {
                // Java leaves out static fields and the synthetic reference of an inner class.
                if (!Modifier.isStatic(field.getModifiers()) && !field.getName().startsWith("this")) {
                    fields.add(field(field, sample));
                }
            }
        }
        Collections.sort(fields);
        result.put("fields", new Raw("[\n    " + String.join(",\n    ", fields) + "]"));
        return object(result).replace("\n", " ").replace("[     {", "[\n    {").replace("},     {", "},\n    {");
    }

    private static String field(Field field, Object sample) throws Exception {
        field.setAccessible(true);
        Map<String, Object> result = new TreeMap<>();
        result.put("name", field.getName());
        result.put("type", field.getType().getSimpleName());
        for (Annotation annotation : field.getAnnotations()) {
            if (annotation.annotationType().getSimpleName().equals("CFNotNull")) {
                result.put("required", true);
            }
            if (annotation.annotationType().getSimpleName().equals("RocketMQResource")) {
                result.put("resource", value(annotation, "value").toString());
            }
        }
        Object initial = sample == null ? null : field.get(sample);
        if (initial != null) {
            result.put("default", isNow(initial) ? "now" : initial);
        }
        return object(result).replace("\n", " ");
    }

    private static boolean isNow(Object initial) {
        return initial instanceof Long && System.currentTimeMillis() - (Long) initial < 60_000;
    }

    private static Object value(Annotation annotation, String name) throws Exception {
        return annotation.annotationType().getMethod(name).invoke(annotation);
    }

    private static Raw actions(Object array) {
        List<String> names = new ArrayList<>();
        for (int i = 0; i < Array.getLength(array); i++) {
            names.add(text(Array.get(array, i).toString()));
        }
        return new Raw("[" + String.join(", ", names) + "]");
    }

    private static String object(Map<String, Object> members) {
        List<String> lines = new ArrayList<>();
        members.forEach((name, value) -> lines.add(text(name) + ": " + text(value)));
        return "{" + String.join(",\n", lines) + "}";
    }

    private static String text(Object value) {
        if (value instanceof Number || value instanceof Boolean || value instanceof Raw) {
            return value.toString();
        }
        return '"' + value.toString().replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }

    /** Text that is JSON already. */
    private static final class Raw {
        private final String json;

        Raw(String json) {
            this.json = json;
        }

        @Override
        public String toString() {
            return json;
        }
    }
}
