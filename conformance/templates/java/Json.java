import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

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
