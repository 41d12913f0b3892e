import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.util.Arrays;

/**
 * Runs another main class, and ends the JVM at once when standard input closes: whoever started
 * it holds the other end, so that no server outlives a killed test run.
 */
public final class Leash {
    public static void main(String[] args) throws Exception {
        Thread watcher = new Thread(Leash::haltAtEndOfInput, "leash");
        watcher.setDaemon(true);
        watcher.start();
        String[] rest = Arrays.copyOfRange(args, 1, args.length);
        try {
            Class.forName(args[0]).getMethod("main", String[].class).invoke(null, (Object) rest);
        } catch (InvocationTargetException failure) {
            failure.getCause().printStackTrace();
            System.exit(1);
        }
    }

    private static void haltAtEndOfInput() {
        try {
            while (System.in.read() >= 0) {
                // Nothing is ever said on this pipe; only its end matters.
            }
        } catch (IOException broken) {
            // As good as closed.
        }
        Runtime.getRuntime().halt(137);
    }
}
