import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The adapter protocol in one file, on Java 17 or later alone: copy it next to your program. You write one method, `turn`;
 * sessions, queues, stops, permissions, files, resuming and the lines are done here. `new YourAdapter().serve()` serves the
 * host on stdin and stdout.
 */
abstract class Adapter {
    /**
     * One turn, in a thread of its own. Its return ends the turn, an exception ends it as failed. A stop and the end of the
     * session interrupt the thread: let the InterruptedException pass. A turn that has not returned 2 s later ends without it.
     */
    abstract void turn(Turn turn) throws Exception;

    /** Comes before the first turn of a session. Its exception fails every turn of the session. */
    void start(Session session) throws Exception { }

    /** Called once when a session has been closed and its last turn has returned. */
    void close(Session session) { }

    /** Sees each message of a session before it is taken. It must be quick. */
    void heard(Session session, Map<String, Object> message) { }

    String name = "adapter";
    String version = "0";
    /** Whether `start` goes on with `session.resume` where that is not null. */
    boolean resumes;
    /** The options of a session that `turn` obeys; read them by `session.option` in each turn, since some may change. */
    List<String> honours = List.of();

    /** The longest line that is read, in bytes; a longer one is skipped. */
    private static final int LONGEST = 16 << 20;
    /** The longest text in one line: escaped, it is shorter than the 1 MiB that every host reads. */
    private static final int PIECE = 128 << 10;
    /** The inputs of a session that may wait; the texts of more are dropped, and their turns fail. */
    private static final int INPUTS = 1000;
    /** The lines that may wait for a slow host before its turns wait as well, and before nothing more is read. */
    private static final int BACKLOG = 64;
    private static final int BACKLOG_IN = 4096;
    private static final long GRACE = 2000;
    /** Unknown fields may nest deeply, and reading them recurses. */
    private static final long STACK = 64 << 20;
    /** The options that may change. */
    private static final List<String> CHANGING =
        List.of("model", "reasoning_effort", "mode", "permission_mode", "allowed_tools", "denied_tools");
    /** Where messages beyond the core belong, and members of a turn's end and of what is known of a session. */
    private static final Map<String, String> EXTENSION = new HashMap<>();

    static {
        for (String kind : "thinking message tool.start tool.update tool.end plan progress log error custom".split(" "))
            EXTENSION.put(kind, "events");
        for (String name : "native_session_id session_params clear_session context display_id".split(" "))
            EXTENSION.put(name, "resume");
        for (String name : "models modes commands".split(" ")) EXTENSION.put(name, "options");
        for (String name : CHANGING) EXTENSION.put(name, "options");
        for (String kind : "usage context.usage compaction rate_limit".split(" ")) EXTENSION.put(kind, "usage");
    }

    private final Map<String, Session> sessions = new ConcurrentHashMap<>();
    private final AtomicLong names = new AtomicLong(); // for ids of requests and tool calls
    private final Outbox outbox = new Outbox();

    /** A file that the user sent. It is the host's: read it, and leave it there. */
    record Sent(String name, String mime, String path) { }

    /** A failure of a category of the protocol, such as auth or rate_limit. Other exceptions are of category other. */
    static final class Failure extends Exception {
        final String category;

        Failure(String category, String message) {
            super(message);
            this.category = category;
        }
    }

    /** A conversation. What is private belongs to who holds its lock. */
    final class Session {
        final String id;
        /** What to go on with: `native_session_id`, `params`; null begins anew. */
        final Map<?, ?> resume;
        /** Yours. */
        volatile Object state;
        private final Map<String, Object> options;
        private final List<String> agreed = new ArrayList<>();
        private final Deque<Turn> queue = new ArrayDeque<>();
        private final Object starting = new Object();
        private boolean started;
        private Exception refusal;
        private List<Sent> files = new ArrayList<>(); // of the next input
        private Turn running;
        private boolean closed;
        private int live; // handlers that have not returned

        private Session(String id, Map<String, Object> start) {
            this.id = id;
            options = start;
            List<?> offer = start.get("extensions") instanceof List<?> list ? list : List.of();
            if (!offer.stream().allMatch(String.class::isInstance)) offer = List.of();
            for (String ours : List.of("turns", "events", "usage", "resume", "options"))
                if (offer.contains(ours) && (resumes || !ours.equals("resume"))
                    && (!honours.isEmpty() || !ours.equals("options"))) agreed.add(ours);
            resume = has("resume") && start.get("resume") instanceof Map<?, ?> old ? old : null;
            if (start.get("protocol") instanceof Double version && version < 1) {
                agreed.clear();
                refusal = new Exception("no side serves version 0 of the protocol; this is version 1");
                write(null, "output", Json.object("content", refusal.getMessage(), "channel", "system"));
            }
            if (agreed.isEmpty()) return;
            Map<String, Object> ready = Json.object("protocol", 1, "extensions", agreed, "max_line", LONGEST,
                "adapter", Json.object("name", name, "version", version),
                "capabilities", Json.object("turn_completion", true, "resume_attach", resumes));
            if (has("turns")) ready.put("input_modes", List.of("queue"));
            if (has("options")) ready.put("options_applied", honours);
            write(null, "session.ready", ready);
        }

        private boolean has(String extension) {
            return agreed.contains(extension);
        }

        /** An option of the session as it is now; null: it was not set. */
        synchronized Object option(String name) {
            return options.get(name);
        }

        /** Tells what is known of the session by now, such as native_session_id, context, or the model where none was asked for. */
        synchronized void info(Map<String, Object> fields) {
            Map<String, Object> told = new LinkedHashMap<>(fields);
            for (String name : CHANGING) if (told.containsKey(name)) options.put(name, told.get(name));
            told.keySet().removeIf(name -> EXTENSION.containsKey(name) && !has(EXTENSION.get(name)));
            if (!agreed.isEmpty() && !told.isEmpty()) write(null, "session.info", told);
        }

        /** Changes options; what is in force now. */
        private Map<String, Object> update(Map<String, Object> message) {
            Map<String, Object> now = Json.object();
            for (String name : CHANGING) {
                if (!honours.contains(name)) continue;
                Object value = message.get(name);
                boolean fits = name.endsWith("_tools")
                    ? value instanceof List<?> list && list.stream().allMatch(String.class::isInstance)
                    : value instanceof String;
                if (fits) options.put(name, value);
                if (options.get(name) != null) now.put(name, options.get(name));
            }
            return now;
        }

        /** Writes one line; the caller holds the session. */
        private void write(Turn turn, String kind, Map<String, Object> fields) {
            String belongs = EXTENSION.get(kind);
            if (closed || (turn != null && turn.over) || (belongs != null && !has(belongs))) return;
            Map<String, Object> message = Json.object("type", kind, "session_id", id);
            if (turn != null && turn.id != null && has("turns")) message.put("turn_id", turn.id);
            message.putAll(fields);
            byte[] line = Json.line(message);
            if (line.length > 1 << 20) {
                for (String large : "input locations data diffs artifacts result summary session_params".split(" "))
                    if (message.remove(large) != null) message.put("truncated", true);
                line = Json.line(message);
            }
            if (line.length <= 1 << 20) outbox.push(line);
            else System.err.println("a " + kind + " of " + line.length + " bytes is not written");
        }

        /** Takes a message; what is unknown or of the wrong type is ignored. */
        private synchronized void take(Map<String, Object> message) {
            for (String name : List.of("request_id", "turn_id", "message_id"))
                if (message.get(name) instanceof String id && !fits(id)) return;
            heard(this, message);
            Object content = message.get("content");
            switch (message.get("type") instanceof String type ? type : "") {
                case "user.input" -> {
                    if (content == null || content instanceof String) input((String) content, message);
                }
                case "file.input" -> {
                    if (message.get("file_path") instanceof String path && files.size() < INPUTS)
                        files.add(new Sent(text(message, "file_name"), text(message, "file_mime_type"), path));
                }
                case "permission.response" -> {
                    CompletableFuture<Boolean> asked =
                        running == null ? null : running.asked.remove(text(message, "request_id"));
                    if (asked != null) asked.complete(Boolean.TRUE.equals(message.get("approved"))); // all else denies
                }
                case "stop" -> stop(text(message, "turn_id"), text(message, "reason"));
                case "session.update" -> {
                    if (has("options")) write(null, "session.info", update(message));
                }
                case "session.close" -> {
                    closed = true;
                    outbox.count(-queue.size());
                    queue.clear();
                    if (running != null) running.stop(null);
                    leave();
                }
                default -> { }
            }
        }

        private void input(String content, Map<String, Object> message) {
            if ("steer".equals(message.get("mode")) && has("turns")) {
                Map<String, Object> answer =
                    Json.object("delivered", false, "reason", "this agent takes no input during a turn");
                if (text(message, "message_id") != null) answer.put("message_id", message.get("message_id"));
                write(running, "steer.result", answer);
                return;
            }
            boolean fits = queue.size() < INPUTS;
            Turn turn = new Turn(this, text(message, "turn_id"),
                content == null || !fits ? "" : Json.wellFormed(content), fits ? files : List.of(), !fits);
            files = new ArrayList<>();
            queue.add(turn);
            outbox.count(1);
            begin();
        }

        private void stop(String turn, String reason) {
            if (running != null && (turn == null || !has("turns") || turn.equals(running.id))) {
                running.stop(reason);
                return;
            }
            for (Turn waiting : queue)
                if (turn != null && turn.equals(waiting.id)) {
                    queue.remove(waiting);
                    waiting.stopped = true;
                    waiting.reason = reason;
                    waiting.complete(null);
                    return;
                }
        }

        private synchronized void shutdown() {
            List<Turn> waiting = List.copyOf(queue);
            queue.clear();
            if (running != null) running.stop("shutdown");
            for (Turn turn : waiting) {
                turn.stopped = true;
                turn.reason = "shutdown";
                turn.complete(null);
            }
        }

        /** Takes the next input, if no turn runs. */
        private void begin() {
            if (running != null || queue.isEmpty()) return;
            running = queue.remove();
            live++;
            running.thread.start();
        }

        private void leave() {
            if (closed && live == 0) new Thread(() -> Adapter.this.close(this)).start();
        }
    }

    /** One input and all that follows. */
    final class Turn {
        final Session session;
        final String text;
        final List<Sent> files;
        private final String id;
        private final boolean refused;
        private final Thread thread = new Thread(this::run);
        private final Map<String, CompletableFuture<Boolean>> asked = new HashMap<>();
        private final Set<String> tools = new HashSet<>(); // those that have not ended
        private Map<String, Object> end = Map.of();
        private String reason;
        private boolean stopped;
        private boolean over;

        private Turn(Session session, String id, String text, List<Sent> files, boolean refused) {
            this.session = session;
            this.id = id;
            this.text = text;
            this.files = files;
            this.refused = refused;
            thread.setDaemon(true);
        }

        /** A piece of the answer. */
        void say(String text) throws InterruptedException {
            send("output", Json.object("content", text, "channel", "stdout"));
        }

        /** Sends a file. Write it into TMPDIR first, and leave it there until the session closes. */
        void file(String path, String mime) throws InterruptedException {
            String name = Path.of(path).getFileName().toString();
            send("file.output", Json.object("file_path", path, "file_name", name, "file_mime_type", mime));
        }

        /** Tells of a tool call that begins; `toolEnd` tells of its end. What is left open, the turn ends as failed. */
        String tool(String name, Object input) throws InterruptedException {
            String call = "call-" + ProcessHandle.current().pid() + "-" + names.incrementAndGet();
            synchronized (session) {
                tools.add(call);
            }
            send("tool.start", Json.object("tool_call_id", call, "tool", name, "input", input));
            return call;
        }

        void toolEnd(String call, String content, boolean failed) throws InterruptedException {
            synchronized (session) {
                if (!tools.remove(call)) return;
            }
            send("tool.end", Json.object("tool_call_id", call, "content", content, "is_error", failed));
        }

        /**
         * Asks whether something may be done, and waits. Only an explicit yes approves: no answer, a stop and the end of the
         * session do not.
         */
        boolean ask(String tool, String description, String resource) throws InterruptedException {
            if (tool.length() + description.length() + resource.length() > PIECE / 4) return false; // never cut
            String request = "ask-" + ProcessHandle.current().pid() + "-" + names.incrementAndGet();
            CompletableFuture<Boolean> verdict = new CompletableFuture<>();
            outbox.room(BACKLOG);
            synchronized (session) {
                if (over || stopped) throw new InterruptedException("the turn is over");
                asked.put(request, verdict);
                session.write(this, "permission.request", Json.object(
                    "request_id", request, "tool", tool, "description", description, "resource", resource));
            }
            try {
                boolean approved = verdict.get();
                synchronized (session) {
                    return approved && !over && !stopped;
                }
            } catch (ExecutionException impossible) {
                throw new IllegalStateException(impossible);
            }
        }

        /** Says more of the turn's end: summary, result, artifacts, native_session_id, session_params. */
        void finish(Map<String, Object> fields) {
            synchronized (session) {
                end = fields;
            }
        }

        /**
         * Writes any message of the turn. It waits while the host is slow, and drops what the host does not know. Long texts go
         * in pieces.
         */
        void send(String kind, Map<String, Object> fields) throws InterruptedException {
            boolean isDelta = List.of("output", "thinking", "tool.update").contains(kind);
            String rest = fields.get("content") instanceof String content ? content : null;
            do {
                Map<String, Object> part = new LinkedHashMap<>(fields);
                if (rest != null) {
                    String piece = cut(rest);
                    part.put("content", piece);
                    rest = rest.substring(piece.length());
                    if (!isDelta && !rest.isEmpty()) part.put("truncated", true);
                }
                outbox.room(BACKLOG);
                synchronized (session) {
                    if (over || stopped) throw new InterruptedException("the turn is over");
                    session.write(this, kind, part);
                }
            } while (isDelta && rest != null && !rest.isEmpty());
        }

        private void run() {
            Exception failure = null;
            try {
                if (refused) throw new Failure("busy", "more than " + INPUTS + " inputs wait");
                synchronized (session.starting) { // the next turn waits for it, even where this one is ended before it is done
                    if (!session.started && session.refusal == null) {
                        session.refusal = new Exception("the session could not be started");
                        session.started = true;
                        try {
                            start(session);
                            session.refusal = null;
                        } catch (Exception error) {
                            session.refusal = error;
                        }
                    }
                    if (session.refusal != null) throw session.refusal;
                }
                turn(this);
            } catch (Exception error) {
                failure = error;
            } catch (Error error) {
                failure = new Exception(String.valueOf(error), error);
            }
            synchronized (session) {
                session.live--;
                complete(failure);
                session.leave();
            }
        }

        /** Ends the turn soon; the caller holds the session. */
        private void stop(String reason) {
            if (stopped || over) return;
            stopped = true;
            this.reason = reason;
            asked.clear();
            thread.interrupt();
            CompletableFuture.delayedExecutor(GRACE, java.util.concurrent.TimeUnit.MILLISECONDS).execute(() -> {
                synchronized (session) {
                    complete(null);
                }
            });
        }

        /** Ends the turn once, and begins the next; the caller holds the session. */
        private void complete(Exception failure) {
            if (over) return;
            for (String call : tools)
                session.write(this, "tool.end", Json.object("tool_call_id", call, "is_error", true));
            Map<String, Object> fields = Json.object();
            String message = failure == null ? null
                : cut(failure.getMessage() == null ? failure.toString() : failure.getMessage());
            end.forEach((name, value) -> {
                String belongs = name.equals("model") ? "turns" : EXTENSION.getOrDefault(name, "turns");
                if (session.has(belongs)) fields.put(name, value);
            });
            if (session.has("turns")) {
                fields.put("status", stopped ? "stopped" : failure == null ? "completed" : "failed");
                if (stopped && reason != null) fields.put("stop_reason", reason);
                if (!stopped && failure != null)
                    fields.put("error", Json.object("message", message,
                        "category", failure instanceof Failure known ? known.category : "other"));
            } else if (!stopped && failure != null) {
                session.write(this, "output", Json.object("content", message, "channel", "system"));
            }
            session.write(this, "turn.complete", fields);
            over = true;
            outbox.count(-1);
            if (session.running == this) session.running = null;
            session.begin();
        }
    }

    /** What fits into one line, up to the end of a character. */
    private static String cut(String text) {
        if (text.length() <= PIECE / 4) return text;
        return text.substring(0, PIECE / 4 - (Character.isHighSurrogate(text.charAt(PIECE / 4 - 1)) ? 1 : 0));
    }

    /** A string member; null: it is absent, empty or of another type. */
    private static String text(Map<String, Object> message, String name) {
        return message.get(name) instanceof String text && !text.isEmpty() ? text : null;
    }

    /** Whether a text may be an id. */
    private static boolean fits(String id) {
        return id.equals(Json.wellFormed(id)) && id.getBytes(StandardCharsets.UTF_8).length <= 256;
    }

    private void take(byte[] line) {
        Map<String, Object> message = Json.read(line);
        String id = message == null ? null : text(message, "session_id");
        if (message != null && "".equals(message.get("session_id"))) answer(message);
        if (id == null || !fits(id)) return; // noise
        boolean closes = "session.close".equals(message.get("type"));
        Session session = closes ? sessions.remove(id) : sessions.get(id);
        if (session != null) session.take(message);
        else if ("session.start".equals(message.get("type"))) sessions.put(id, new Session(id, message));
    }

    /** Answers a question about the pipe, not about a session. */
    private void answer(Map<String, Object> message) {
        String request = text(message, "request_id");
        if (resumes && "sessions.list".equals(message.get("type")) && request != null && fits(request))
            outbox.push(Json.line(Json.object("type", "sessions.list.result", "session_id", "", "request_id", request,
                "error", "this adapter keeps no list of its sessions")));
    }

    /** Reads stdin to its end. LF alone ends a line, and a line is decoded when it is whole. */
    private void read(InputStream stdin) throws IOException, InterruptedException {
        byte[] kept = new byte[1 << 16];
        byte[] chunk = new byte[1 << 16];
        int length = 0;
        boolean tooLong = false;
        for (int read; (read = stdin.read(chunk)) > 0; ) {
            for (int from = 0, end; from < read; from = end + 1) {
                for (end = from; end < read && chunk[end] != '\n'; ) end++;
                tooLong |= length + end - from > LONGEST;
                if (!tooLong) {
                    int needed = length + end - from;
                    if (needed > kept.length) kept = Arrays.copyOf(kept, Math.max(needed, 2 * kept.length));
                    System.arraycopy(chunk, from, kept, length, end - from);
                    length = needed;
                }
                if (end == read) continue;
                outbox.room(BACKLOG_IN);
                if (tooLong) System.err.println("a line of more than " + LONGEST + " bytes is skipped");
                else take(Arrays.copyOf(kept, length));
                if (kept.length > 1 << 20) kept = new byte[1 << 16]; // memory falls back after a long line
                length = 0;
                tooLong = false;
            }
        }
        if (!tooLong) take(Arrays.copyOf(kept, length));
    }

    /** Serves the host, and ends the process. What anything else prints lands on stderr. */
    final void serve() {
        System.setOut(System.err);
        daemon(() -> outbox.write(new FileOutputStream(FileDescriptor.out)));
        Thread reader = daemon(() -> {
            try {
                read(new FileInputStream(FileDescriptor.in));
            } catch (IOException | InterruptedException ended) {
                // As the end of stdin.
            }
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> { // SIGTERM is like the end of stdin
            try {
                if (!outbox.idle(100)) sessions.values().forEach(Session::shutdown); // short turns finish
                if (outbox.idle(3000)) outbox.drained(1000);
            } catch (InterruptedException hurried) {
                // At once, then.
            }
            Runtime.getRuntime().halt(0);
        }));
        try {
            reader.join();
        } catch (InterruptedException ended) {
            // As the end of stdin.
        }
        System.exit(0);
    }

    private static Thread daemon(Runnable work) {
        Thread thread = new Thread(null, work, "trunkline", STACK);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    /** The lines on their way to the host, and how many turns have not ended. */
    private static final class Outbox {
        private final Deque<byte[]> lines = new ArrayDeque<>();
        private boolean busy;
        private int turns;

        synchronized void push(byte[] line) {
            lines.add(line);
            notifyAll();
        }

        synchronized void count(int more) {
            turns += more;
            notifyAll();
        }

        /** Waits until fewer than so many lines wait. */
        synchronized void room(int most) throws InterruptedException {
            while (lines.size() >= most) wait();
        }

        synchronized boolean idle(long millis) throws InterruptedException {
            for (long until = now() + millis; turns > 0 && now() < until; ) wait(Math.max(1, until - now()));
            return turns == 0;
        }

        synchronized void drained(long millis) throws InterruptedException {
            for (long until = now() + millis; (busy || !lines.isEmpty()) && now() < until; )
                wait(Math.max(1, until - now()));
        }

        private static long now() {
            return System.nanoTime() / 1_000_000;
        }

        void write(OutputStream stdout) {
            try {
                while (true) {
                    byte[] line;
                    synchronized (this) {
                        busy = false;
                        notifyAll();
                        while (lines.isEmpty()) wait();
                        line = lines.remove();
                        busy = true;
                    }
                    stdout.write(line);
                }
            } catch (IOException | InterruptedException gone) {
                Runtime.getRuntime().halt(0); // no one reads any more
            }
        }
    }
}

/** JSON as RFC 8259 has it, and nothing more. */
final class Json {
    /** Deeper values make a line noise. */
    private static final int DEEPEST = 12_000;

    private final String text;
    private int at;
    private int depth;

    private Json(String text) {
        this.text = text;
    }

    /** The object in a line; null: it is not UTF-8, or not one JSON object. */
    @SuppressWarnings("unchecked")
    static Map<String, Object> read(byte[] line) {
        try {
            String text = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(line)).toString();
            return parse(text) instanceof Map<?, ?> object ? (Map<String, Object>) object : null;
        } catch (CharacterCodingException | IllegalArgumentException | StackOverflowError noise) {
            return null;
        }
    }

    /** A value: Map, List, String, Double, Boolean or null. */
    static Object parse(String text) {
        Json json = new Json(text);
        if (text.startsWith("\ufeff")) json.at = 1;
        Object value = json.value();
        json.blank();
        if (json.at < text.length()) throw json.bad();
        return value;
    }

    static Map<String, Object> object(Object... members) {
        Map<String, Object> object = new LinkedHashMap<>();
        for (int place = 0; place < members.length; place += 2) object.put((String) members[place], members[place + 1]);
        return object;
    }

    private IllegalArgumentException bad() {
        return new IllegalArgumentException("no JSON at " + at);
    }

    private char next() {
        if (at >= text.length()) throw bad();
        return text.charAt(at++);
    }

    private void blank() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) at++;
    }

    private boolean takes(char wanted) {
        blank();
        boolean is = at < text.length() && text.charAt(at) == wanted;
        if (is) at++;
        return is;
    }

    private Object value() {
        blank();
        if (++depth > DEEPEST) throw bad();
        Object value = switch (next()) {
            case '{' -> members();
            case '[' -> elements();
            case '"' -> string();
            case 't' -> word("rue", true);
            case 'f' -> word("alse", false);
            case 'n' -> word("ull", null);
            default -> number();
        };
        depth--;
        return value;
    }

    private Map<String, Object> members() {
        Map<String, Object> members = new LinkedHashMap<>();
        if (takes('}')) return members;
        do {
            if (!takes('"')) throw bad();
            String name = string();
            if (!takes(':')) throw bad();
            members.put(name, value()); // of duplicates the last counts
        } while (takes(','));
        if (!takes('}')) throw bad();
        return members;
    }

    private List<Object> elements() {
        List<Object> elements = new ArrayList<>();
        if (takes(']')) return elements;
        do elements.add(value()); while (takes(','));
        if (!takes(']')) throw bad();
        return elements;
    }

    private Object word(String rest, Object value) {
        if (!text.startsWith(rest, at)) throw bad();
        at += rest.length();
        return value;
    }

    private int digits() {
        int from = at;
        while (at < text.length() && text.charAt(at) >= '0' && text.charAt(at) <= '9') at++;
        if (at == from) throw bad();
        return at - from;
    }

    private Double number() {
        int from = --at;
        if (text.charAt(at) == '-') at++;
        boolean isZero = at < text.length() && text.charAt(at) == '0';
        if (digits() > 1 && isZero) throw bad();
        if (at < text.length() && text.charAt(at) == '.') {
            at++;
            digits();
        }
        if (at < text.length() && (text.charAt(at) | 0x20) == 'e') {
            at++;
            if (at < text.length() && "+-".indexOf(text.charAt(at)) >= 0) at++;
            digits();
        }
        return Double.valueOf(text.substring(from, at)); // of any length and size
    }

    private String string() {
        StringBuilder string = new StringBuilder();
        for (char c; (c = next()) != '"'; ) {
            if (c < ' ') throw bad();
            string.append(c == '\\' ? escape() : c);
        }
        return string.toString();
    }

    private char escape() {
        char c = next();
        int known = "\"\\/bfnrt".indexOf(c);
        if (known >= 0) return "\"\\/\b\f\n\r\t".charAt(known);
        if (c != 'u') throw bad();
        int unit = 0;
        for (int digit = 0; digit < 4; digit++) {
            int value = "0123456789abcdef".indexOf(Character.toLowerCase(next()));
            if (value < 0) throw bad();
            unit = unit * 16 + value;
        }
        return (char) unit;
    }

    /** A text with U+FFFD for each half of a surrogate pair: JSON can spell it, UTF-8 cannot. */
    static String wellFormed(String text) {
        if (text.chars().noneMatch(unit -> Character.isSurrogate((char) unit))) return text;
        StringBuilder whole = new StringBuilder(text.length());
        text.codePoints().forEach(c -> whole.appendCodePoint(c >= 0xd800 && c <= 0xdfff ? 0xfffd : c));
        return whole.toString();
    }

    /** A message and its LF. */
    static byte[] line(Map<String, Object> message) {
        return (write(message) + "\n").getBytes(StandardCharsets.UTF_8);
    }

    static String write(Object value) {
        StringBuilder line = new StringBuilder();
        write(value, line);
        return line.toString();
    }

    private static void write(Object value, StringBuilder to) {
        if (value instanceof Map<?, ?> members) {
            String before = "{";
            for (Map.Entry<?, ?> member : members.entrySet()) {
                quote(to.append(before), (String) member.getKey());
                write(member.getValue(), to.append(':'));
                before = ",";
            }
            to.append(members.isEmpty() ? "{}" : "}");
        } else if (value instanceof List<?> elements) {
            to.append('[');
            for (int place = 0; place < elements.size(); place++) {
                if (place > 0) to.append(',');
                write(elements.get(place), to);
            }
            to.append(']');
        } else if (value instanceof String text) {
            quote(to, text);
        } else if (value instanceof Double number && number == Math.rint(number) && Math.abs(number) < 1e15) {
            to.append(number.longValue());
        } else {
            to.append(value); // a number, true, false or null
        }
    }

    private static void quote(StringBuilder to, String text) {
        to.append('"');
        String whole = wellFormed(text);
        for (int place = 0; place < whole.length(); place++) {
            char c = whole.charAt(place);
            if (c == '"' || c == '\\') to.append('\\').append(c);
            else if (c < ' ' || c == 0x2028 || c == 0x2029) to.append(String.format("\\u%04x", (int) c));
            else to.append(c);
        }
        to.append('"');
    }
}
