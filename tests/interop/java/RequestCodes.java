import java.lang.reflect.Field;
import java.lang.reflect.Modifier;

/** Prints "CODE NAME" for every request code that the peer knows. */
public final class RequestCodes {
    private static final String[] HOMES = {
        "org.apache.rocketmq.remoting.protocol.RequestCode",
        "org.apache.rocketmq.common.protocol.RequestCode", // until 4.9
    };

    public static void main(String[] args) throws Exception {
        for (Field field : find().getFields()) {
            if (Modifier.isStatic(field.getModifiers()) && field.getType() == int.class) {
                System.out.printf("%d %s%n", field.getInt(null), field.getName());
            }
        }
        System.exit(0);
    }

    private static Class<?> find() throws ClassNotFoundException {
        for (String home : HOMES) {
            try {
                return Class.forName(home);
            } catch (ClassNotFoundException elsewhere) {
                // The next one, then.
            }
        }
        throw new ClassNotFoundException(String.join(" or ", HOMES));
    }
}
