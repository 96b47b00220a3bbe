import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * Tests of `Adapter.java`, in Java alone: `javac -d classes *.java && java -ea -cp classes AdapterTest`. What an adapter does is
 * tested on the process of `Echo`; the conformance suite does so at length.
 */
final class AdapterTest {
    public static void main(String[] none) throws Exception {
        boolean asserting = false;
        assert asserting = true;
        if (!asserting) throw new IllegalStateException("run it with -ea");
        readsJsonAndNothingElse();
        keepsWhatItRead();
        writesLinesThatAnyHostReads();
        endsEachTurnOnceAndInOrder();
        approvesOnAnExplicitYesAlone();
        stopsTheTurnThatRunsAndNoOther();
        goesOnAfterNoise();
        System.out.println("7 tests passed");
    }

    private static void readsJsonAndNothingElse() {
        String noise = "{|{}{}|[1]|1|null|{\"a\":01}|{\"a\":1.}|{\"a\":.5}|{\"a\":+1}|{\"a\":NaN}|{\"a\":1,}|{'a':1}|{\"a\" 1}"
            + "|{\"a\":\"\\x\"}|{\"a\":\"\\u00g0\"}|{\"a\":\"\t\"}|{\"a\":tru}|{\"a\":[1,]}|{\"a\":\"";
        for (String line : noise.split("\\|")) assert read(line) == null : line;
        assert Json.read(new byte[] {'{', '"', (byte) 0xff, '"', ':', '1', '}'}) == null : "not UTF-8";
        String deep = "[".repeat(20_000) + "]".repeat(20_000);
        assert read("{\"a\":" + deep + "}") == null : "too deep";
    }

    private static void keepsWhatItRead() {
        Map<String, Object> read = read("\ufeff {\"a\":1,\"a\":[-0.5e1,true,null,{}],\"b\":\"\\u00e4\\n\\ud83d\\ude00\"} ");
        assert read.get("a").equals(java.util.Arrays.asList(-5.0, true, null, Map.of())) : "the last of duplicates counts: " + read;
        assert read.get("b").equals("ä\n😀") : read;
        assert read("{\"a\":1e999}").get("a").equals(Double.POSITIVE_INFINITY);
    }

    private static void writesLinesThatAnyHostReads() {
        String written = Json.write(Json.object("t", "\"\\\u0001\u2028ä\ud800", "n", 2.0, "h", 0.5, "l", List.of(1, true), "m", Map.of()));
        assert written.equals("{\"t\":\"\\\"\\\\\\u0001\\u2028ä\ufffd\",\"n\":2,\"h\":0.5,\"l\":[1,true],\"m\":{}}") : written;
    }

    private static void endsEachTurnOnceAndInOrder() throws Exception {
        try (Adapted echo = new Adapted()) {
            echo.say("a", "session.start", "").say("b", "session.start", "");
            for (String text : List.of("/sleep 600", "one", "two", "three")) { // three wait for the first
                echo.say("a", "user.input", "\"content\":\"" + text + "\"");
                echo.say("b", "user.input", "\"content\":\"" + text + "\"");
            }
            List<Map<String, Object>> lines = echo.say("a", "stop", "").say("b", "stop", "").turns(8);
            for (String id : List.of("a", "b")) {
                StringBuilder seen = new StringBuilder();
                for (Map<String, Object> line : lines)
                    if (id.equals(line.get("session_id")))
                        seen.append(line.get("type").equals("output") ? line.get("content") : "|");
                String all = seen.toString();
                assert all.chars().filter(c -> c == '|').count() == 4 : all;
                assert all.matches("(?s)\\|.*one.*\\|.*two.*\\|.*three.*\\|") : all;
            }
        }
    }

    private static void approvesOnAnExplicitYesAlone() throws Exception {
        try (Adapted echo = new Adapted()) {
            echo.say("a", "session.start", "");
            for (String answer : List.of("true", "false", "\"true\"", "1", "null")) {
                echo.say("a", "user.input", "\"content\":\"/tool rm\"");
                Object request = echo.until("permission.request").get("request_id");
                echo.say("a", "permission.response", "\"request_id\":\"other\",\"approved\":true");
                echo.say("a", "permission.response", "\"request_id\":\"" + request + "\",\"approved\":" + answer);
                Object said = echo.until("output").get("content");
                assert said.equals(answer.equals("true") ? "ran rm" : "denied rm") : answer + ": " + said;
                echo.until("turn.complete");
            }
        }
    }

    private static void stopsTheTurnThatRunsAndNoOther() throws Exception {
        try (Adapted echo = new Adapted()) {
            echo.say("a", "session.start", "\"protocol\":1,\"extensions\":[\"turns\"]");
            echo.say("a", "user.input", "\"turn_id\":\"t1\",\"content\":\"/sleep 600\"");
            echo.say("a", "user.input", "\"turn_id\":\"t2\",\"content\":\"next\"");
            echo.say("a", "stop", "\"turn_id\":\"t0\"").say("a", "stop", "\"turn_id\":\"t1\"");
            Map<String, Object> first = echo.until("turn.complete");
            assert first.get("turn_id").equals("t1") && first.get("status").equals("stopped") : first;
            Map<String, Object> second = echo.until("turn.complete");
            assert second.get("turn_id").equals("t2") && second.get("status").equals("completed") : second;
        }
    }

    private static void goesOnAfterNoise() throws Exception {
        try (Adapted echo = new Adapted()) {
            echo.say("a", "session.start", "").line("noise").line("{\"type\":7,\"session_id\":\"a\"}");
            echo.say("a", "user.input", "\"content\":\"" + "x".repeat(16 << 20) + "\""); // too long
            echo.say("c", "user.input", "\"content\":\"to no one\"").say("a", "user.input", "\"content\":\"still here\"");
            Map<String, Object> said = echo.until("output");
            assert ((String) said.get("content")).contains("still here") && said.get("session_id").equals("a") : said;
        }
    }

    private static Map<String, Object> read(String line) {
        return Json.read(line.getBytes(StandardCharsets.UTF_8));
    }

    /** The process of the example. Closing it ends its input, and checks how it ends. */
    private static final class Adapted implements AutoCloseable {
        private final Process process;
        private final OutputStream in;
        private final BufferedReader out;

        Adapted() throws IOException {
            String java = System.getProperty("java.home") + "/bin/java";
            process = new ProcessBuilder(java, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", System.getProperty("java.class.path"), "Echo")
                .redirectError(ProcessBuilder.Redirect.INHERIT).start();
            in = process.getOutputStream();
            out = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
            Thread late = new Thread(() -> {
                try {
                    if (!process.waitFor(60, TimeUnit.SECONDS)) process.destroyForcibly(); // its reader sees the end
                } catch (InterruptedException ended) {
                    // No one waits for it.
                }
            });
            late.setDaemon(true);
            late.start();
        }

        Adapted line(String line) throws IOException {
            in.write((line + "\n").getBytes(StandardCharsets.UTF_8));
            in.flush();
            return this;
        }

        Adapted say(String session, String type, String members) throws IOException {
            String more = members.isEmpty() ? "" : "," + members;
            return line("{\"type\":\"" + type + "\",\"session_id\":\"" + session + "\"" + more + "}");
        }

        Map<String, Object> until(String type) throws IOException {
            for (String line; (line = out.readLine()) != null; ) {
                Map<String, Object> message = read(line);
                assert message != null : "no message: " + line;
                if (message.get("type").equals(type)) return message;
            }
            throw new AssertionError("it has ended without " + type);
        }

        List<Map<String, Object>> turns(int left) throws IOException {
            List<Map<String, Object>> messages = new ArrayList<>();
            for (String line; left > 0 && (line = out.readLine()) != null; messages.add(read(line)))
                if (line.contains("\"turn.complete\"")) left--;
            return messages;
        }

        @Override
        public void close() throws Exception {
            in.close();
            while (out.readLine() != null) { }
            assert process.waitFor(10, TimeUnit.SECONDS) && process.exitValue() == 0 : "it ends by itself";
        }
    }
}
