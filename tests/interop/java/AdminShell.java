import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs mqadmin commands one after another in one JVM, since starting a JVM costs more than any
 * command. A line of input holds the arguments of a command, separated by U+001F. The answer is a
 * line "done OUT ERR" with the number of bytes that the command wrote to standard output and to
 * standard error, followed by these bytes. A command that ends the JVM is answered with "exit".
 */
public final class AdminShell {
    private static final String SEPARATOR = "\u001f";

    private static final PrintStream ANSWERS = System.out;
    private static final ByteArrayOutputStream OUT = new ByteArrayOutputStream();
    private static final ByteArrayOutputStream ERR = new ByteArrayOutputStream();
    private static volatile boolean busy;

    public static void main(String[] unused) throws Exception {
        BufferedReader commands =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        System.setOut(new PrintStream(OUT, true, "UTF-8"));
        System.setErr(new PrintStream(ERR, true, "UTF-8"));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            if (busy) {
                answer("exit");
            }
        }));
        Waker.watch(Thread.currentThread());
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            run(line.isEmpty() ? new String[0] : line.split(SEPARATOR, -1));
        }
        // Clients of finished commands may have left threads behind that would keep the JVM.
        Runtime.getRuntime().halt(0);
    }

    private static void run(String[] arguments) throws Exception {
        forgetLastCommand();
        busy = true;
        MQAdminStartup.main0(arguments, null);
        busy = false;
        answer("done");
    }

    /** mqadmin expects to run once: -n stays in a property, the table of commands only grows. */
    private static void forgetLastCommand() throws Exception {
        System.clearProperty("rocketmq.namesrv.addr");
        for (Field field : MQAdminStartup.class.getDeclaredFields()) {
            if (Modifier.isStatic(field.getModifiers()) && List.class == field.getType()) {
                field.setAccessible(true);
                ((List<?>) field.get(null)).clear();
            }
        }
    }

    private static void answer(String state) {
        byte[] out = OUT.toByteArray();
        byte[] err = ERR.toByteArray();
        OUT.reset();
        ERR.reset();
        byte[] header = (state + " " + out.length + " " + err.length + "\n")
            .getBytes(StandardCharsets.US_ASCII);
        ANSWERS.write(header, 0, header.length);
        ANSWERS.write(out, 0, out.length);
        ANSWERS.write(err, 0, err.length);
        ANSWERS.flush();
    }
}
