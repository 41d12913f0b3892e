import java.lang.reflect.Method;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.remoting.RPCHook;

/** What all clients of a shell have in common: where the name server is, and short intervals. */
final class ClientSettings {
    private static final int HEARTBEAT_MS = 1000;
    private static final int ROUTE_MS = 500;

    private final String nameServers;
    private int clients;

    ClientSettings(String nameServers) {
        this.nameServers = nameServers;
    }

    /** Set a client up that is about to start; its instance is its own, as in most programs. */
    void apply(ClientConfig client, String name) {
        clients++;
        client.setNamesrvAddr(nameServers);
        client.setInstanceName(name + "-" + clients);
        // A client of 5.x skips the heartbeat after a rebalance when another is under way; the
        // broker then refuses its pulls until the next, which is 30 s later by default.
        client.setHeartbeatBrokerInterval(HEARTBEAT_MS);
        client.setPollNameServerInterval(ROUTE_MS);
    }

    /** A hook that signs every request; null when nothing is to be signed. */
    static RPCHook signing(boolean signed) {
        return signed ? new AclClientRPCHook(new SessionCredentials("AccessKey", "SecretKey")) : null;
    }

    /** Call a setter whose enum has another package in each version. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    static void setEnum(Object client, String setter, String value) throws Exception {
        for (Method method : client.getClass().getMethods()) {
            if (method.getName().equals(setter)) {
                Class type = method.getParameterTypes()[0];
                method.invoke(client, Enum.valueOf(type, value));
                return;
            }
        }
        throw new NoSuchMethodException(setter);
    }
}
