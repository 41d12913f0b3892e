import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** What all push consumers of a shell have received, in the order of its coming. */
final class Received {
    private final List<JSONObject> messages = new ArrayList<>();

    synchronized void add(JSONObject message) {
        messages.add(message);
        notifyAll();
    }

    /** Wait for so many messages of these consumers, but no longer than told; give all there are. */
    synchronized List<JSONObject> await(Collection<String> names, int count, long timeoutMs)
        throws InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMs);
        List<JSONObject> found = of(names);
        while (found.size() < count) {
            long leftMs = TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime());
            if (leftMs <= 0) {
                break;
            }
            wait(leftMs);
            found = of(names);
        }
        return found;
    }

    private List<JSONObject> of(Collection<String> names) {
        List<JSONObject> found = new ArrayList<>();
        for (JSONObject message : messages) {
            if (names.contains(message.getString("consumer"))) {
                found.add(message);
            }
        }
        return found;
    }
}
