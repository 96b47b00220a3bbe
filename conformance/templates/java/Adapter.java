import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicLong;

/** An adapter on Java 17 or later alone. Your agent goes into `answer`. */
public final class Adapter {
    /**
     * One turn, in a thread of its own. Say as much as you like; the return ends the turn, and an exception is shown to
     * the user. `stop` and the end of the session interrupt the thread: let the InterruptedException pass.
     * `turn.say(text)` writes output; `turn.ask(tool, description, resource)` asks for permission: act only on true.
     * `turn.files` are the files that came with this input; `turn.file(path, mime)` sends one: write it into TMPDIR, and
     * leave it there.
     */
    static void answer(Turn turn, String text) throws Exception {
        // To try it out, and for the recipes in conform.toml. Your agent replaces all of this.
        String[] words = text.split(" ", 2);
        String rest = words.length > 1 ? words[1] : "";
        switch (words[0]) {
            case "/sleep" -> Thread.sleep((long) (Double.parseDouble(rest) * 1000));
            case "/touch" -> {
                if (turn.ask("touch", "Create " + rest, rest)) Files.writeString(Path.of(rest), "");
            }
            case "/fail" -> throw new IllegalStateException(rest);
            default -> { }
        }
        turn.say("You said: " + text);
    }

    // What follows is the protocol. For its core nothing below here needs to change.

    /** The longest line, in bytes; a longer one is skipped. */
    private static final int LONGEST = 16 << 20;
    /** Lines that may wait for a slow host before turns wait as well. */
    private static final int BACKLOG = 64;
    /** Unknown fields may nest deeply, and reading them recurses. */
    private static final long STACK = 64 << 20;

    private static final boolean PROBING = "1".equals(System.getenv("CONFORM_PROBE")); // only the suite sets it
    private static final Map<String, Session> sessions = new ConcurrentHashMap<>();
    private static final LinkedBlockingQueue<byte[]> outbox = new LinkedBlockingQueue<>();
    private static final AtomicLong requests = new AtomicLong();
    private static final Thread writer = new Thread(() -> writeAll(new FileOutputStream(FileDescriptor.out)));

    /** A file that the user sent. */
    record Sent(String name, String mime, String path) { }

    record Input(String text, List<Sent> files) { }

    /** A conversation. Its fields belong to who holds its lock. */
    static final class Session {
        final String id;
        final Deque<Input> inputs = new ArrayDeque<>();
        List<Sent> files = new ArrayList<>(); // of the next input
        final Probe probe = PROBING ? new Probe() : null;
        Turn turn;
        boolean closed;

        Session(String id) {
            this.id = id;
        }

        /** Takes a message; what is unknown or of the wrong type is ignored. */
        synchronized void handle(Map<String, Object> message) {
            if (probe != null) probe.note(message);
            Object content = message.get("content");
            switch (message.get("type") instanceof String type ? type : "") {
                case "user.input" -> {
                    if (content != null && !(content instanceof String)) return;
                    inputs.add(new Input(content == null ? "" : Json.wellFormed((String) content), files));
                    files = new ArrayList<>();
                    begin();
                }
                case "file.input" -> {
                    if (message.get("file_path") instanceof String path)
                        files.add(new Sent(text(message, "file_name"), text(message, "file_mime_type"), path));
                }
                case "permission.response" -> {
                    CompletableFuture<Boolean> asked =
                        turn == null ? null : turn.asked.remove(text(message, "request_id"));
                    if (asked != null) asked.complete(Boolean.TRUE.equals(message.get("approved"))); // all else denies
                }
                case "stop" -> {
                    if (turn != null) turn.end();
                }
                case "session.close" -> {
                    closed = true;
                    inputs.clear();
                    if (turn != null) turn.end();
                }
                default -> { }
            }
        }

        /** Takes the next input, if no turn runs. */
        private void begin() {
            if (turn != null || inputs.isEmpty()) return;
            turn = new Turn(this, inputs.remove());
            turn.thread.start();
        }
    }

    /** One input and all that follows. */
    static final class Turn {
        final Map<String, CompletableFuture<Boolean>> asked = new HashMap<>();
        final List<Sent> files;
        private final Session session;
        private final Thread thread;

        Turn(Session session, Input input) {
            this.session = session;
            files = input.files();
            thread = new Thread(() -> run(input.text()));
            thread.setDaemon(true);
        }

        void say(String text) throws InterruptedException {
            send("output", Json.object("content", text, "channel", "stdout"));
        }

        void file(String path, String mime) throws InterruptedException {
            String name = Path.of(path).getFileName().toString();
            send("file.output", Json.object("file_path", path, "file_name", name, "file_mime_type", mime));
        }

        boolean ask(String tool, String description, String resource) throws InterruptedException {
            String request = "ask-" + requests.incrementAndGet();
            CompletableFuture<Boolean> verdict = new CompletableFuture<>();
            synchronized (session) {
                asked.put(request, verdict);
            }
            send("permission.request", Json.object(
                "request_id", request, "tool", tool, "description", description, "resource", resource));
            try {
                return verdict.get();
            } catch (ExecutionException impossible) {
                throw new IllegalStateException(impossible);
            }
        }

        /** Writes a message, unless the turn is over; waits while the host is slow. */
        void send(String type, Map<String, Object> fields) throws InterruptedException {
            while (outbox.size() > BACKLOG) Thread.sleep(2);
            synchronized (session) {
                if (session.turn != this) throw new InterruptedException("the turn is over");
                write(type, fields);
            }
        }

        private void write(String type, Map<String, Object> fields) {
            if (session.closed) return;
            Map<String, Object> message = Json.object("type", type, "session_id", session.id);
            message.putAll(fields);
            outbox.add((Json.write(message) + "\n").getBytes(StandardCharsets.UTF_8));
        }

        private void run(String text) {
            try {
                if (session.probe == null || !session.probe.obeys(text, this)) answer(this, text);
            } catch (InterruptedException stopped) {
                // `end` has been called, or the agent gave up.
            } catch (Exception | StackOverflowError error) { // a failure ends its turn like any other end
                synchronized (session) {
                    if (session.turn == this)
                        write("output", Json.object("content", String.valueOf(error), "channel", "system"));
                }
            } finally {
                end();
            }
        }

        /** Ends the turn, once, and begins the next. */
        void end() {
            synchronized (session) {
                if (session.turn != this) return;
                write("turn.complete", Map.of());
                session.turn = null;
                thread.interrupt();
                session.begin();
            }
        }
    }

    private static String text(Map<String, Object> message, String name) {
        return message.get(name) instanceof String text ? text : null;
    }

    private static void take(byte[] line) {
        Map<String, Object> message = Json.read(line);
        String id = message == null ? null : text(message, "session_id");
        if (id == null) return; // noise
        Session session = sessions.get(id);
        boolean isFit = !id.isEmpty() && id.equals(Json.wellFormed(id))
            && id.getBytes(StandardCharsets.UTF_8).length <= 256;
        if (session != null) {
            if ("session.close".equals(message.get("type"))) sessions.remove(id);
            session.handle(message);
        } else if (isFit && "session.start".equals(message.get("type"))) {
            sessions.put(id, new Session(id));
        }
    }

    /** Reads stdin to its end. LF alone ends a line, and a line is decoded when it is whole. */
    private static void read(InputStream stdin) throws IOException {
        byte[] kept = new byte[1 << 16];
        byte[] chunk = new byte[1 << 16];
        int length = 0;
        boolean tooLong = false;
        for (int read; (read = stdin.read(chunk)) > 0; ) {
            for (int from = 0; from < read; ) {
                int end = from;
                while (end < read && chunk[end] != '\n') end++;
                tooLong |= length + end - from > LONGEST;
                if (!tooLong) {
                    int needed = length + end - from;
                    if (needed > kept.length) kept = Arrays.copyOf(kept, Math.max(needed, 2 * kept.length));
                    System.arraycopy(chunk, from, kept, length, end - from);
                    length = needed;
                }
                if (end < read) {
                    if (!tooLong) take(Arrays.copyOf(kept, length));
                    if (kept.length > 1 << 20) kept = new byte[1 << 16]; // memory falls back after a long line
                    length = 0;
                    tooLong = false;
                }
                from = end + 1;
            }
        }
        if (!tooLong) take(Arrays.copyOf(kept, length));
    }

    private static void writeAll(OutputStream stdout) {
        try {
            while (true) {
                byte[] line = outbox.take();
                if (line.length == 0) return;
                stdout.write(line);
            }
        } catch (IOException | InterruptedException gone) {
            Runtime.getRuntime().halt(0); // no one reads any more
        }
    }

    public static void main(String[] arguments) throws InterruptedException {
        System.setOut(System.err); // what a library prints is not a message
        writer.setDaemon(true);
        writer.start();
        Thread reader = new Thread(null, () -> {
            try {
                read(new FileInputStream(FileDescriptor.in));
            } catch (IOException ended) {
                // As the end of stdin.
            }
        }, "stdin", STACK);
        reader.setDaemon(true);
        reader.start();
        Thread leaving = new Thread(Adapter::leave); // SIGTERM is like the end of stdin
        Runtime.getRuntime().addShutdownHook(leaving);
        reader.join();
        System.exit(0);
    }

    private static void leave() {
        try {
            finish();
        } catch (InterruptedException hurried) {
            // At once, then.
        }
        Runtime.getRuntime().halt(0);
    }

    private static void finish() throws InterruptedException {
        Thread.sleep(50); // running turns get a moment
        for (Session session : sessions.values())
            synchronized (session) {
                while (session.turn != null) session.turn.end();
            }
        outbox.add(new byte[0]);
        writer.join(2000);
    }
}
