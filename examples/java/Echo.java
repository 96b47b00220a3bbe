import java.nio.file.Path;
import java.util.List;
import java.util.Map;

/**
 * An adapter on `Adapter.java`: an echo with stop, permissions, files, a model to choose, and a word that it keeps in what a session
 * is resumed with.
 */
final class Echo extends Adapter {
    private static final boolean PROBING = "1".equals(System.getenv("CONFORM_PROBE")); // only the suite sets it

    /** What a session keeps: the word is in the hands of the host, too. */
    private static final class Kept {
        final Probe probe = new Probe(); // for the conformance suite alone
        volatile String word = "";
    }

    @Override
    void start(Session session) {
        if (session.resume != null) {
            boolean known = session.resume.get("params") instanceof Map<?, ?> params && params.get("word") instanceof String;
            if (known) kept(session).word = (String) ((Map<?, ?>) session.resume.get("params")).get("word");
            session.info(Map.of("context", known ? "kept" : "lost"));
        }
        if (session.option("model") == null) session.info(Map.of("model", "plain"));
    }

    @Override
    void turn(Turn turn) throws Exception {
        Kept kept = kept(turn.session);
        turn.finish(Map.of("session_params", Map.of("word", kept.word)));
        if (PROBING && kept.probe.obeys(turn.text, turn)) return;
        String[] words = turn.text.split(" ", 2);
        String word = words.length > 1 ? words[1] : "";
        if (words[0].equals("/tool") && !word.isEmpty()) {
            turn.say((turn.ask(word, "Run " + word, word) ? "ran " : "denied ") + word);
            return;
        }
        if (words[0].equals("/sleep") && word.matches("[0-9.]+")) Thread.sleep((long) (Double.parseDouble(word) * 1000));
        if (words[0].equals("/remember")) turn.finish(Map.of("session_params", Map.of("word", kept.word = word)));
        if (words[0].equals("/recall")) turn.say(kept.word);
        if (words[0].equals("/model")) turn.say(String.valueOf(turn.session.option("model")));
        for (Sent file : turn.files) turn.say("got " + Path.of(file.path()).getFileName() + "\n");
        turn.say(turn.text);
    }

    private static Kept kept(Session session) {
        synchronized (session) {
            if (session.state == null) session.state = new Kept();
            return (Kept) session.state;
        }
    }

    @Override
    void heard(Session session, Map<String, Object> message) {
        if (PROBING) kept(session).probe.note(message);
    }

    public static void main(String[] arguments) {
        Echo echo = new Echo();
        echo.name = "echo";
        echo.version = "1.0.0";
        echo.resumes = true;
        echo.honours = List.of("model");
        echo.serve();
    }
}
