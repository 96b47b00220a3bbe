import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

/** An adapter on Java 17 or later alone. Your agent goes into `answer`; the protocol is in `Adapter.java`. */
public final class Main extends Adapter {
    /**
     * One turn, in a thread of its own. Say as much as you like; the return ends the turn, and an exception is shown to
     * the user. `stop` and the end of the session interrupt the thread: let the InterruptedException pass.
     * `turn.say(text)` writes output; `turn.ask(tool, description, resource)` asks for permission: act only on true.
     * `turn.files` are the files that came with this input; `turn.file(path, mime)` sends one: write it into TMPDIR, and
     * leave it there. `turn.tool` tells of a tool call, `turn.send` of all else.
     */
    private static void answer(Turn turn) throws Exception {
        // To try it out, and for the recipes in conform.toml. Your agent replaces all of this.
        String[] words = turn.text.split(" ", 2);
        String rest = words.length > 1 ? words[1] : "";
        switch (words[0]) {
            case "/sleep" -> Thread.sleep((long) (Double.parseDouble(rest) * 1000));
            case "/touch" -> {
                if (turn.ask("touch", "Create " + rest, rest)) Files.writeString(Path.of(rest), "");
            }
            case "/fail" -> throw new IllegalStateException(rest);
            default -> { }
        }
        turn.say("You said: " + turn.text);
    }

    private static final boolean PROBING = "1".equals(System.getenv("CONFORM_PROBE")); // only the suite sets it

    @Override
    void turn(Turn turn) throws Exception {
        if (!PROBING || !probe(turn.session).obeys(turn.text, turn)) answer(turn);
    }

    @Override
    void heard(Session session, Map<String, Object> message) {
        if (PROBING) probe(session).note(message);
    }

    private static Probe probe(Session session) {
        if (session.state == null) session.state = new Probe();
        return (Probe) session.state;
    }

    public static void main(String[] arguments) {
        Main main = new Main();
        main.name = "adapter";
        main.version = "0.1.0";
        main.serve();
    }
}
