import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.exception.RequestTimeoutException;

/**
 * Runs clients of every kind in one JVM, since starting a JVM costs more than most scenarios. A line
 * of input is a JSON object: "do" names the command, the rest are its arguments. The answer is one
 * line: {"answer": ...}, or {"error": class, "code": of RocketMQ or absent, "text": message} for
 * what the client threw. ProducerCommands, TransactionCommands, PushCommands, PullCommands,
 * LiteCommands, AdminCommands and TraceCommands say what there is to do.
 *
 * Usage: ClientShell NAMESRV
 */
public final class ClientShell {
    /** One thing that clients can be told to do. */
    interface Command {
        Object run(JSONObject arguments) throws Exception;
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, "UTF-8");
        System.setOut(System.err); // what clients print themselves is not an answer
        Map<String, Command> commands = new LinkedHashMap<>();
        ClientSettings settings = new ClientSettings(args[0]);
        new ProducerCommands(settings).addTo(commands);
        new TransactionCommands(settings).addTo(commands);
        new PushCommands(settings).addTo(commands);
        new PullCommands(settings).addTo(commands);
        new LiteCommands(settings).addTo(commands);
        new AdminCommands(settings).addTo(commands);
        new TraceCommands(settings).addTo(commands);
        Waker.watch(Thread.currentThread());
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JSONObject answer = run(commands, JSON.parseObject(line));
            answers.println(answer.toString(SerializerFeature.DisableCircularReferenceDetect,
                SerializerFeature.WriteMapNullValue));
        }
        Runtime.getRuntime().halt(0); // whoever closed our input has no use for these clients
    }

    private static JSONObject run(Map<String, Command> commands, JSONObject arguments) {
        JSONObject answer = new JSONObject();
        try {
            answer.put("answer", commands.get(arguments.getString("do")).run(arguments));
        } catch (Exception thrown) {
            thrown.printStackTrace();
            return error(thrown);
        }
        return answer;
    }

    /** What is known of something thrown, in the form of an answer. */
    static JSONObject error(Throwable thrown) {
        JSONObject answer = new JSONObject(true);
        answer.put("error", thrown.getClass().getSimpleName());
        if (thrown instanceof MQBrokerException) {
            answer.put("code", ((MQBrokerException) thrown).getResponseCode());
            answer.put("text", ((MQBrokerException) thrown).getErrorMessage());
        } else if (thrown instanceof MQClientException) {
            answer.put("code", ((MQClientException) thrown).getResponseCode());
            answer.put("text", ((MQClientException) thrown).getErrorMessage());
        } else if (thrown instanceof RequestTimeoutException) {
            answer.put("code", ((RequestTimeoutException) thrown).getResponseCode());
        }
        if (answer.getString("text") == null) {
            answer.put("text", String.valueOf(thrown.getMessage()));
        }
        return answer;
    }
}
