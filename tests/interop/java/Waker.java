import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * Makes clients of 5.x shut down at once. One that shuts down waits for a thread that sleeps up to
 * 3 s on its queue; here that thread is woken.
 */
final class Waker {
    private static final long LOOK_EVERY_MS = 20;

    private Waker() {
    }

    /** Watch a thread that shuts clients down, until the JVM ends. */
    static void watch(Thread stopper) {
        Thread waker = new Thread(() -> {
            while (true) {
                LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(LOOK_EVERY_MS));
                if (isStoppingServiceThread(stopper)) {
                    wakeEventThreads();
                }
            }
        }, "waker");
        waker.setDaemon(true);
        waker.start();
    }

    private static boolean isStoppingServiceThread(Thread stopper) {
        for (StackTraceElement frame : stopper.getStackTrace()) {
            if (frame.getClassName().endsWith(".ServiceThread")
                && frame.getMethodName().equals("shutdown")) {
                return true;
            }
        }
        return false;
    }

    private static void wakeEventThreads() {
        for (Thread thread : Thread.getAllStackTraces().keySet()) {
            if (thread.getName().equals("NettyEventExecutor")) {
                thread.interrupt();
            }
        }
    }
}
