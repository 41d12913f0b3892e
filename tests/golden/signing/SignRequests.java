import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.HashMap;
import java.util.TreeMap;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * Signs the requests of questions.json with the client hook of the RocketMQ on the class path.
 *
 * <p>java -cp "$ROCKETMQ_HOME/lib/*" SignRequests.java questions.json signed_5.5.0.json
 *
 * <p>The answers are the ext fields of each request after signing.
 */
public class SignRequests {
    public static void main(String[] args) throws Exception {
        JSONArray answers = new JSONArray();
        for (Object each : JSON.parseArray(Files.readString(Path.of(args[0])))) {
            answers.add(new TreeMap<>(sign((JSONObject) each)));
        }
        Files.writeString(Path.of(args[1]), JSON.toJSONString(answers, true) + "\n");
    }

    static HashMap<String, String> sign(JSONObject question) {
        RemotingCommand request = RemotingCommand.createRequestCommand(10, null);
        request.setExtFields(new HashMap<>());
        question.getJSONObject("ext").forEach((key, value) -> request.addExtField(key, (String) value));
        if (question.getString("body") != null) {
            request.setBody(Base64.getDecoder().decode(question.getString("body")));
        }
        SessionCredentials credentials = new SessionCredentials(question.getString("accessKey"),
            question.getString("secretKey"), question.getString("securityToken"));
        new AclClientRPCHook(credentials).doBeforeRequest("127.0.0.1:10911", request);
        return request.getExtFields();
    }
}
