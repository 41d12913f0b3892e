import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Prints how the peer's own strategies share queues that are drawn at random from a seed. A line has
 * the name of the strategy, what it was made with, the topic, "broker:queues" of each broker, the
 * members, and for each member in their order the numbers of its queues in theirs; between these are
 * tabs, between parts of them blanks, and between members semicolons.
 */
public final class AllocationVectors {
    private static final String ROOM_ENDS = "-";
    private static final String[] ROOMS = {"r1", "r2", "r3", "\u00fc", "\uff5e", "\ud83d\ude80"};

    private final Random random;

    private AllocationVectors(long seed) {
        random = new Random(seed);
    }

    public static void main(String[] args) {
        AllocationVectors vectors = new AllocationVectors(Long.parseLong(args[0]));
        int cases = Integer.parseInt(args[1]);
        for (int kind = 0; kind < 6; kind++) {
            for (int number = 0; number < cases; number++) {
                vectors.print(kind);
            }
        }
        System.exit(0);
    }

    private void print(int kind) {
        List<String> brokers = drawBrokers(kind);
        String topic = "T" + random.nextInt(1000);
        List<MessageQueue> queues = new ArrayList<>();
        StringBuilder brokerText = new StringBuilder();
        for (String broker : brokers) {
            int count = 1 + random.nextInt(7);
            for (int id = 0; id < count; id++) {
                queues.add(new MessageQueue(topic, broker, id));
            }
            brokerText.append(brokerText.length() > 0 ? " " : "").append(broker).append(':').append(count);
        }
        List<String> members = drawMembers(kind);
        String memberText = String.join(" ", members);
        Collections.shuffle(queues, random);
        Collections.sort(queues);
        Collections.sort(members);
        StringBuilder made = new StringBuilder();
        AllocateMessageQueueStrategy strategy = make(kind, queues, made);
        StringBuilder shares = new StringBuilder();
        String between = "";
        for (String member : members) {
            shares.append(between);
            between = ";";
            appendNumbers(shares, queues, strategy.allocate("G", member, queues, members));
        }
        System.out.printf("%s\t%s\t%s\t%s\t%s\t%s%n", strategy.getName(), made, topic, brokerText,
            memberText, shares);
    }

    private List<String> drawBrokers(int kind) {
        Set<String> names = new TreeSet<>();
        int count = 1 + random.nextInt(4);
        while (names.size() < count) {
            String name = "b" + Integer.toString(random.nextInt(1296), 36);
            if (kind == 3) {
                name = draw(ROOMS) + draw("@", "@", "@", "", "@x@") + name + draw("", "", "", "@", "@@");
            } else if (kind == 4) {
                name = draw(ROOMS) + ROOM_ENDS + name;
            }
            names.add(name);
        }
        List<String> found = new ArrayList<>(names);
        Collections.shuffle(found, random);
        return found;
    }

    private List<String> drawMembers(int kind) {
        List<String> members = new ArrayList<>();
        int count = random.nextInt(4) == 0 ? 1 + random.nextInt(14) : 1 + random.nextInt(5);
        for (int number = 0; number < count; number++) {
            String id = Integer.toString(random.nextInt(46656), 36) + (random.nextInt(20) == 0 ? "\u00e9" : "");
            if (kind == 4) {
                id = ROOMS[random.nextInt(random.nextBoolean() ? 2 : ROOMS.length)] + ROOM_ENDS + id;
            }
            boolean again = number > 0 && random.nextInt(100) == 0; // an id that two clients share
            members.add(again ? members.get(0) : id);
        }
        return members;
    }

    private AllocateMessageQueueStrategy make(int kind, List<MessageQueue> queues, StringBuilder made) {
        switch (kind) {
            case 0:
                return new AllocateMessageQueueAveragely();
            case 1:
                return new AllocateMessageQueueAveragelyByCircle();
            case 2:
                AllocateMessageQueueByConfig fixed = new AllocateMessageQueueByConfig();
                fixed.setMessageQueueList(queues.subList(0, random.nextInt(queues.size() + 1)));
                appendNumbers(made, queues, fixed.getMessageQueueList());
                return fixed;
            case 3:
                AllocateMessageQueueByMachineRoom room = new AllocateMessageQueueByMachineRoom();
                Set<String> rooms = new TreeSet<>(List.of(draw(ROOMS), draw(ROOMS)));
                room.setConsumeridcs(rooms);
                made.append(String.join(" ", rooms));
                return room;
            case 4:
                made.append(random.nextBoolean() ? "AVG" : "AVG_BY_CIRCLE");
                return new AllocateMachineRoomNearby("AVG".contentEquals(made)
                    ? new AllocateMessageQueueAveragely() : new AllocateMessageQueueAveragelyByCircle(),
                    new Rooms());
            default:
                int nodes = random.nextInt(4) == 0 ? random.nextInt(30) : 10;
                made.append(nodes);
                return new AllocateMessageQueueConsistentHash(nodes);
        }
    }

    private String draw(String... choices) {
        return choices[random.nextInt(choices.length)];
    }

    private static void appendNumbers(StringBuilder text, List<MessageQueue> all, List<MessageQueue> some) {
        String between = "";
        for (MessageQueue queue : some) {
            text.append(between).append(all.indexOf(queue));
            between = " ";
        }
    }

    private static final class Rooms implements AllocateMachineRoomNearby.MachineRoomResolver {
        @Override
        public String brokerDeployIn(MessageQueue queue) {
            return queue.getBrokerName().split(ROOM_ENDS)[0];
        }

        @Override
        public String consumerDeployIn(String clientId) {
            return clientId.split(ROOM_ENDS)[0];
        }
    }
}
