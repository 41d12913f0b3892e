import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Decodes "class TAB json" lines with the body classes of one RocketMQ release and prints what its
 * encoder makes of them, so that a body written by somebody else can be compared with the original.
 *
 *   java -cp "<release>/lib/*" ReadBodies.java bodies.tsv answers.tsv
 *
 * The class is fully qualified. A body that cannot be read gives "! " and the exception.
 */
public class ReadBodies {
    public static void main(String[] arguments) throws Exception {
        Class<?> codec = Class.forName("org.apache.rocketmq.remoting.protocol.RemotingSerializable");
        Method decode = codec.getMethod("decode", byte[].class, Class.class);
        Method encode = codec.getMethod("encode", Object.class);
        PrintStream out = new PrintStream(arguments[1], "UTF-8");
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] parts = line.split("\t", 2);
            String answer;
            try {
                Object body = decode.invoke(null, parts[1].getBytes("UTF-8"), Class.forName(parts[0]));
                answer = new String((byte[]) encode.invoke(null, body), "UTF-8");
            } catch (ReflectiveOperationException e) {
                answer = "! " + String.valueOf(e.getCause()).lines().findFirst().orElse("");
            }
            out.println(parts[0] + "\t" + answer);
        }
    }
}
