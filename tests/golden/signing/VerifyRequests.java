import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.embedded.EmbeddedChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.HashMap;
import org.apache.rocketmq.acl.common.AclSigner;
import org.apache.rocketmq.auth.authentication.builder.DefaultAuthenticationContextBuilder;
import org.apache.rocketmq.auth.authentication.context.DefaultAuthenticationContext;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * Computes the signature that a RocketMQ 5.5.0 broker expects of each request, by client version.
 *
 * <p>java -cp "$ROCKETMQ_HOME/lib/*" VerifyRequests.java questions.json expected_5.5.0.json
 *
 * <p>The answers are, per request with its AccessKey set, the signatures for versions 0, 399, 400 and 515.
 */
public class VerifyRequests {
    private static final int[] VERSIONS = {0, 399, 400, 515};

    public static void main(String[] args) throws Exception {
        JSONArray answers = new JSONArray();
        for (Object each : JSON.parseArray(Files.readString(Path.of(args[0])))) {
            JSONObject signatures = new JSONObject(true);
            for (int version : VERSIONS) {
                signatures.put(String.valueOf(version), expect((JSONObject) each, version));
            }
            answers.add(signatures);
        }
        Files.writeString(Path.of(args[1]), JSON.toJSONString(answers, true) + "\n");
    }

    static String expect(JSONObject question, int version) {
        ChannelInboundHandlerAdapter handler = new ChannelInboundHandlerAdapter();
        ChannelHandlerContext channel = new EmbeddedChannel(handler).pipeline().context(handler);
        RemotingCommand request = RemotingCommand.createRequestCommand(10, null);
        request.setVersion(version);
        request.setExtFields(new HashMap<>());
        question.getJSONObject("ext").forEach((key, value) -> request.addExtField(key, (String) value));
        request.addExtField("AccessKey", question.getString("accessKey"));
        if (question.getString("body") != null) {
            request.setBody(Base64.getDecoder().decode(question.getString("body")));
        }
        DefaultAuthenticationContext context =
            new DefaultAuthenticationContextBuilder().build(channel, request);
        return AclSigner.calSignature(context.getContent(), question.getString("secretKey"));
    }
}
