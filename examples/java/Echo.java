import java.nio.file.Path;
import java.util.Map;

/** An adapter on `Adapter.java`: an echo with stop, permissions and files. */
final class Echo extends Adapter {
    private static final boolean PROBING = "1".equals(System.getenv("CONFORM_PROBE")); // only the suite sets it

    @Override
    void turn(Turn turn) throws Exception {
        if (PROBING && probe(turn.session).obeys(turn.text, turn)) return;
        String[] words = turn.text.split(" ", 2);
        String word = words.length > 1 ? words[1] : "";
        if (words[0].equals("/tool") && !word.isEmpty()) {
            turn.say((turn.ask(word, "Run " + word, word) ? "ran " : "denied ") + word);
            return;
        }
        if (words[0].equals("/sleep") && word.matches("[0-9.]+")) Thread.sleep((long) (Double.parseDouble(word) * 1000));
        for (Sent file : turn.files) turn.say("got " + Path.of(file.path()).getFileName() + "\n");
        turn.say(turn.text);
    }

    /** For the conformance suite alone. */
    private static Probe probe(Session session) {
        if (session.state == null) session.state = new Probe();
        return (Probe) session.state;
    }

    @Override
    void heard(Session session, Map<String, Object> message) {
        if (PROBING) probe(session).note(message);
    }

    public static void main(String[] arguments) {
        Echo echo = new Echo();
        echo.name = "echo";
        echo.version = "1.0.0";
        echo.serve();
    }
}
