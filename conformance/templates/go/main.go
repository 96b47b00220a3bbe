// Command adapter is an adapter on the standard library of Go 1.21 or later. Your agent goes into answer.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"
)

// answer is one turn. Say as much as you like; its return ends the turn, and an error is shown to the user.
//
// ctx ends with stop and with the session: hand it to whatever you wait for. t.Say writes output; t.Ask asks for
// permission: act only on true. t.Files are the files that came with this input; t.File sends one: write it into TMPDIR, and
// leave it there.
func answer(ctx context.Context, t *turn, text string) error {
	// To try it out, and for the recipes in conform.toml. Your agent replaces all of this.
	command, rest, _ := strings.Cut(text, " ")
	switch command {
	case "/sleep":
		pause, err := time.ParseDuration(rest + "s")
		if err != nil {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	case "/touch":
		if t.Ask("touch", "Create "+rest, rest) {
			if err := os.WriteFile(rest, nil, 0o600); err != nil {
				return err
			}
		}
	case "/fail":
		return errors.New(rest)
	}
	t.Say("You said: " + text)
	return nil
}

// What follows is the protocol. For its core nothing below here needs to change.

type fields = map[string]any

// stdout writes one line at a time, whole.
var stdout = log.New(os.Stdout, "", 0)

type session struct {
	id     string
	mu     sync.Mutex
	inputs []input
	files  []file // of the next input
	turn   *turn
	closed bool
	probe  probe // for the conformance suite; without CONFORM_PROBE=1 it obeys nothing
}

type input struct {
	text  string
	files []file
}

// file is one that the user sent.
type file struct{ name, mime, path string }

type turn struct {
	session *session
	ctx     context.Context
	cancel  context.CancelFunc
	over    bool
	asked   map[string]chan bool
	asks    int
	Files   []file
}

// write writes a message of a turn, unless the turn is over; the caller holds the session.
func (t *turn) write(kind string, message fields) {
	if t.over || t.session.closed {
		return
	}
	message["type"], message["session_id"] = kind, t.session.id
	line, _ := json.Marshal(message) // escapes U+2028
	stdout.Println(string(line))
}

func (t *turn) send(kind string, message fields) {
	t.session.mu.Lock()
	defer t.session.mu.Unlock()
	t.write(kind, message)
}

// Say writes output.
func (t *turn) Say(text string) { t.send("output", fields{"content": text, "channel": "stdout"}) }

// File sends a file.
func (t *turn) File(path, mime string) {
	t.send("file.output", fields{"file_path": path, "file_name": filepath.Base(path), "file_mime_type": mime})
}

// Ask asks for permission and waits for the answer; the end of the turn denies.
func (t *turn) Ask(tool, description, resource string) bool {
	verdict := make(chan bool, 1)
	t.session.mu.Lock()
	t.asks++
	request := fmt.Sprintf("%p-%d", t, t.asks)
	t.asked[request] = verdict
	message := fields{"request_id": request, "tool": tool, "description": description, "resource": resource}
	t.write("permission.request", message)
	t.session.mu.Unlock()
	select {
	case approved := <-verdict:
		return approved && t.ctx.Err() == nil
	case <-t.ctx.Done():
		return false
	}
}

// end ends a turn once and begins the next; the caller holds the session.
func (t *turn) end() {
	if t.over {
		return
	}
	t.write("turn.complete", fields{})
	t.over = true
	t.cancel()
	t.session.turn = nil
	t.session.begin()
}

// begin takes the next input, if no turn runs; the caller holds the session.
func (s *session) begin() {
	if s.turn != nil || s.closed || len(s.inputs) == 0 {
		return
	}
	in := s.inputs[0]
	s.inputs = s.inputs[1:]
	ctx, cancel := context.WithCancel(context.Background())
	t := &turn{session: s, ctx: ctx, cancel: cancel, asked: map[string]chan bool{}, Files: in.files}
	s.turn = t
	go func() {
		if err := guarded(ctx, t, in.text); err != nil {
			t.send("output", fields{"content": err.Error(), "channel": "system"})
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		t.end()
	}()
}

// guarded makes an error of a panic: a failure ends its turn like any other end.
func guarded(ctx context.Context, t *turn, text string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	if obeyed, err := t.session.probe.obeys(text, t.send, t.Ask, ctx.Done()); obeyed {
		return err
	}
	return answer(ctx, t, text)
}

// handle takes a message of an open session; what is unknown or of the wrong type is ignored.
func (s *session) handle(m fields) {
	s.probe.note(m)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch content, isText := m["content"].(string); {
	case m["type"] == "user.input" && (isText || m["content"] == nil):
		s.inputs = append(s.inputs, input{content, s.files})
		s.files = nil
		s.begin()
	case m["type"] == "file.input":
		name, _ := m["file_name"].(string)
		mime, _ := m["file_mime_type"].(string)
		if path, isText := m["file_path"].(string); isText {
			s.files = append(s.files, file{name, mime, path})
		}
	case m["type"] == "permission.response" && s.turn != nil:
		ask, _ := m["request_id"].(string)
		if verdict := s.turn.asked[ask]; verdict != nil {
			delete(s.turn.asked, ask)
			verdict <- m["approved"] == true // anything but true denies
		}
	case m["type"] == "stop" && s.turn != nil:
		s.turn.end()
	case m["type"] == "session.close":
		s.closed = true
		if s.turn != nil {
			s.turn.end()
		}
	}
}

// parse reads a line; nil is noise. It is json.Unmarshal, but a field that is not read may nest deeper than the 10,000
// levels which that allows: of an array only the strings in it are kept, of an object nothing. Keep more where an
// extension of yours reads more. The last of duplicate keys counts.
func parse(line []byte) fields {
	line = bytes.TrimPrefix(line, []byte("\ufeff"))
	message, tokens := fields{}, json.NewDecoder(bytes.NewReader(line))
	tokens.UseNumber() // numbers of any size do no harm
	start, _ := tokens.Token()
	for utf8.Valid(line) && start == json.Delim('{') && tokens.More() {
		key, _ := tokens.Token()
		value, err := tokens.Token()
		if _, nested := value.(json.Delim); nested && err == nil {
			list, depth := []string{}, 1
			for depth > 0 && err == nil {
				var inner json.Token
				switch inner, err = tokens.Token(); inner {
				case json.Delim('['), json.Delim('{'):
					depth++
				case json.Delim(']'), json.Delim('}'):
					depth--
				default:
					if text, isText := inner.(string); isText && depth == 1 && value == json.Delim('[') {
						list = append(list, text)
					}
				}
			}
			value = list
		}
		name, named := key.(string)
		if err != nil || !named {
			return nil
		}
		message[name] = value
	}
	end, _ := tokens.Token()
	if _, err := tokens.Token(); end != json.Delim('}') || err != io.EOF {
		return nil
	}
	return message
}

// longest is the longest line, in bytes; a longer one is skipped.
const longest = 16 << 20

// readLine reads up to an LF, which alone ends a line. Of a line that is too long nothing is kept.
func readLine(from *bufio.Reader) (line []byte, err error) {
	for length := 0; ; {
		piece, err := from.ReadSlice('\n')
		if length += len(piece); length > longest+1 {
			line = nil
		} else {
			line = append(line, piece...)
		}
		if err != bufio.ErrBufferFull {
			return line, err
		}
	}
}

func main() {
	ended, sessions := make(chan struct{}, 1), sync.Map{}
	go func() {
		stdin := bufio.NewReader(os.Stdin)
		for err := error(nil); err == nil; {
			var line []byte
			line, err = readLine(stdin)
			m := parse(line)
			id, _ := m["session_id"].(string)
			if s, open := sessions.Load(id); open {
				if m["type"] == "session.close" {
					sessions.Delete(id)
				}
				s.(*session).handle(m)
			} else if m["type"] == "session.start" && id != "" && len(id) <= 256 {
				sessions.Store(id, &session{id: id})
			}
			if err != nil && err != io.EOF {
				break
			}
		}
		ended <- struct{}{}
	}()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGPIPE) // both are like the end of stdin
	select {
	case <-ended:
	case <-signals:
	}
	go func() { time.Sleep(2 * time.Second); os.Exit(0) }() // at the latest
	time.Sleep(50 * time.Millisecond)                       // running turns get a moment
	sessions.Range(func(_, open any) bool {
		s := open.(*session)
		s.mu.Lock()
		defer s.mu.Unlock()
		for s.turn != nil {
			s.turn.end()
		}
		return true
	})
}
