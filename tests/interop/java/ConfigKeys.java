import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.TreeSet;

/**
 * Prints what the peer's broker can be configured with: a line "class, key, type, default" for each
 * field, separated by tabs, and "setter, key" for each key that is read under another name.
 */
public final class ConfigKeys {
    private static final String[] CLASSES = {
        "org.apache.rocketmq.common.BrokerConfig",
        "org.apache.rocketmq.store.config.MessageStoreConfig",
        "org.apache.rocketmq.remoting.netty.NettyServerConfig",
        "org.apache.rocketmq.remoting.netty.NettyClientConfig",
        "org.apache.rocketmq.auth.config.AuthConfig", // since 5.3
    };

    public static void main(String[] args) throws Exception {
        for (String name : CLASSES) {
            try {
                print(Class.forName(name));
            } catch (ClassNotFoundException older) {
                // This version has no such part.
            }
        }
        System.exit(0);
    }

    private static void print(Class<?> config) throws Exception {
        Object made = config.getConstructor().newInstance();
        TreeSet<String> setters = new TreeSet<>();
        for (Method method : config.getMethods()) {
            String name = method.getName();
            if (name.startsWith("set") && method.getParameterTypes().length == 1) {
                setters.add(name.substring(3, 4).toLowerCase() + name.substring(4));
            }
        }
        Deque<Class<?>> classes = new ArrayDeque<>();
        for (Class<?> part = config; part != Object.class; part = part.getSuperclass()) {
            classes.push(part);
        }
        for (Class<?> part : classes) {
            for (Field field : part.getDeclaredFields()) {
                if (!Modifier.isStatic(field.getModifiers())) {
                    field.setAccessible(true);
                    setters.remove(field.getName());
                    System.out.printf("%s\t%s\t%s\t%s%n", config.getSimpleName(), field.getName(),
                        field.getType().getSimpleName(), field.get(made));
                }
            }
        }
        for (String setter : setters) {
            System.out.printf("setter\t%s%n", setter);
        }
    }
}
