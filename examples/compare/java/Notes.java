import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Map;
import java.util.UUID;

/** An adapter with tools, permission, stop and resume, on the file to copy for Java. */
final class Notes extends Adapter {
    @Override
    void start(Session session) {
        Object known = session.resume == null ? null : session.resume.get("native_session_id");
        String name = known instanceof String id ? id : UUID.randomUUID().toString();
        Path kept = Path.of(System.getenv("NOTES")).resolve(Path.of(name).getFileName());
        session.state = kept;
        session.info(Map.of(
            "native_session_id", kept.getFileName().toString(), "context", Files.exists(kept) ? "kept" : "lost"));
    }

    @Override
    void turn(Turn turn) throws Exception {
        Path kept = (Path) turn.session.state;
        String[] words = turn.text.split(" ", 2);
        switch (words[0]) {
            case "write" -> write(turn, words[1]);
            case "wait" -> {
                turn.say("waiting");
                Thread.sleep(3_600_000); // a stop ends it
            }
            case "recall" -> turn.say(Files.readString(kept));
            default -> {
                Files.writeString(kept, turn.text + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
                turn.say("noted");
            }
        }
    }

    private static void write(Turn turn, String path) throws Exception {
        String call = turn.tool("write", Map.of("path", path));
        boolean approved = turn.ask("write", "Write " + path, path);
        if (approved) Files.writeString(Path.of(path), "written");
        turn.toolEnd(call, approved ? "written" : "denied", !approved);
    }

    public static void main(String[] arguments) {
        Notes notes = new Notes();
        notes.name = "notes";
        notes.version = "1.0.0";
        notes.resumes = true;
        notes.serve();
    }
}
