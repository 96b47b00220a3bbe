import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/**
 * The conformance suite's probe. Where the environment says CONFORM_PROBE=1, an input whose content is
 * `{"$probe": 1, "do": [[operation, ...], ...]}` is a script that stands in for the agent. One for each session:
 * `note` takes each message that it is sent, `obeys` each input when its turn begins.
 */
final class Probe {
    private static final List<String> OPERATIONS = List.of(
        "hello say echo burst sleep until_stop report set get ask file complete fail exit abort".split(" "));
    private static final int TICK = 50;

    private final List<Object> inputs = new ArrayList<>();
    private final List<Map<String, Object>> files = new ArrayList<>();
    private final List<Object> permissions = new ArrayList<>();
    private final Map<String, Object> values = new HashMap<>();

    synchronized void note(Map<String, Object> message) {
        if ("file.input".equals(message.get("type")) && message.get("file_path") instanceof String path) {
            files.add(Json.object(
                "name", message.get("file_name"), "mime", message.get("file_mime_type"), "path", path));
        } else if ("permission.response".equals(message.get("type"))) {
            boolean approved = Boolean.TRUE.equals(message.get("approved"));
            permissions.add(Json.object("request_id", message.get("request_id"), "approved", approved));
        }
    }

    /** Does what an input says, all of the turn but its `turn.complete`; false: it is no script. */
    boolean obeys(String text, Adapter.Turn turn) throws Exception {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        synchronized (this) {
            inputs.add(Json.object("bytes", bytes.length, "sha256", hex(sha256().digest(bytes))));
        }
        if (!text.startsWith("{")) return false;
        Map<String, Object> script = Json.read(bytes);
        if (script == null || !script.containsKey("$probe")) return false;
        if (!(script.getOrDefault("do", List.of()) instanceof List<?> steps)) return false;
        for (Object step : steps) {
            if (!(step instanceof List<?> words) || words.isEmpty()) continue;
            List<Object> given = new ArrayList<>(words.subList(1, words.size()));
            if ("echo".equals(words.get(0)) && given.isEmpty()) given.add(script.get("text"));
            if (!does(asText(words.get(0)), given, turn)) break;
        }
        return true;
    }

    /** Does one operation; false: it is the last. */
    private boolean does(String operation, List<Object> given, Adapter.Turn turn) throws Exception {
        Object first = given.isEmpty() ? null : given.get(0);
        Object second = given.size() < 2 ? null : given.get(1);
        Object third = given.size() < 3 ? null : given.get(2);
        switch (operation) {
            case "hello" -> tell(turn, "ops", OPERATIONS, "adapter", "adapter (Java)", "version", "0");
            case "say" -> say(turn, asText(first), second == null ? "stdout" : asText(second));
            case "echo" -> say(turn, asText(first), "stdout");
            case "burst" -> {
                String fill = (third == null ? "x" : asText(third)).repeat(Math.max(0, number(second) - 9));
                for (int piece = 1; piece <= number(first); piece++)
                    say(turn, String.format("%08d ", piece) + fill, "stdout");
            }
            case "sleep" -> busy(turn, number(first));
            case "until_stop" -> busy(turn, Long.MAX_VALUE / 2);
            case "report" -> report(turn);
            case "set" -> values.put(asText(first), second);
            case "get" -> tell(turn, "key", first, "value", values.get(asText(first)));
            case "ask" -> askAll(turn, given);
            case "file" -> {
                Path path = Files.createTempFile(Path.of(System.getenv("TMPDIR")), "probe", "");
                Files.writeString(path, "x".repeat(number(third)));
                turn.send("file.output",
                    Json.object("file_name", first, "file_mime_type", second, "file_path", path.toString()));
            }
            case "complete" -> {
                return false;
            }
            case "fail" -> throw new IllegalStateException(asText(first));
            case "exit" -> Runtime.getRuntime().halt(number(first));
            case "abort" -> {
                // Java has no abort of its own: the signal comes from outside.
                new ProcessBuilder("kill", "-ABRT", String.valueOf(ProcessHandle.current().pid())).start();
                Thread.sleep(10_000);
            }
            default -> {
                tell(turn, "unsupported", operation);
                return false;
            }
        }
        return true;
    }

    private static void say(Adapter.Turn turn, String text, String channel) throws InterruptedException {
        turn.send("output", Json.object("content", text, "channel", channel));
    }

    private static void tell(Adapter.Turn turn, Object... answer) throws InterruptedException {
        Map<String, Object> told = Json.object("$probe", 1);
        told.putAll(Json.object(answer));
        turn.say(Json.write(told));
    }

    private static void busy(Adapter.Turn turn, long millis) throws InterruptedException {
        long until = System.nanoTime() / 1_000_000 + millis;
        for (long left; (left = until - System.nanoTime() / 1_000_000) > 0; ) {
            Thread.sleep(Math.min(left, TICK));
            if (left >= TICK) turn.say("tick");
        }
    }

    private void report(Adapter.Turn turn) throws InterruptedException {
        List<Object> seen = new ArrayList<>();
        List<Map<String, Object>> sent;
        List<Object> told;
        List<Object> answers;
        synchronized (this) {
            sent = List.copyOf(files);
            told = List.copyOf(inputs);
            answers = List.copyOf(permissions);
        }
        for (Map<String, Object> file : sent) {
            Map<String, Object> judged = Json.object();
            judged.putAll(file);
            judged.putAll(judged((String) file.get("path")));
            seen.add(judged);
        }
        tell(turn, "count", told.size(), "inputs", told, "files", seen, "permissions", answers);
    }

    /** What a file holds; it may be anything or nothing. */
    private static Map<String, Object> judged(String path) {
        try {
            if (!Files.isRegularFile(Path.of(path))) throw new IOException("not a regular file");
            MessageDigest digest = sha256();
            long size = 0;
            try (InputStream file = Files.newInputStream(Path.of(path))) {
                byte[] chunk = new byte[1 << 16];
                for (int read; (read = file.read(chunk)) > 0; size += read) digest.update(chunk, 0, read);
            }
            return Json.object("bytes", size, "sha256", hex(digest.digest()));
        } catch (IOException | RuntimeException error) {
            return Json.object("error", String.valueOf(error));
        }
    }

    /** Asks for all at once: they may be answered in any order. */
    private static void askAll(Adapter.Turn turn, List<Object> asked) throws Exception {
        ExecutorService threads = Executors.newCachedThreadPool();
        try {
            List<Callable<Void>> all = new ArrayList<>();
            for (Object one : asked) all.add(() -> ask(turn, (Map<?, ?>) one));
            for (Future<Void> each : threads.invokeAll(all)) each.get();
        } catch (ExecutionException error) {
            throw error.getCause() instanceof Exception cause ? cause : error;
        } finally {
            threads.shutdownNow();
        }
    }

    private static Void ask(Adapter.Turn turn, Map<?, ?> what) throws Exception {
        String resource = asText(what.get("resource"));
        boolean approved = turn.ask(asText(what.get("tool")), asText(what.get("description")), resource);
        if (approved && what.get("effect") instanceof String effect) Files.writeString(Path.of(effect), "");
        tell(turn, "asked", Json.object("resource", resource, "approved", approved));
        return null;
    }

    private static String asText(Object value) {
        return value == null ? "" : value instanceof String text ? text : Json.write(value);
    }

    private static int number(Object value) {
        return value instanceof Double number ? number.intValue() : 0;
    }

    private static MessageDigest sha256() {
        try {
            return MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException impossible) {
            throw new IllegalStateException(impossible); // every Java has it
        }
    }

    private static String hex(byte[] bytes) {
        return HexFormat.of().formatHex(bytes);
    }
}
