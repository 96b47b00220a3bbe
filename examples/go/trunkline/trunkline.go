// Package trunkline is the adapter protocol in one file, on the standard library of Go 1.21 or later: copy it next to your
// program. You write one handler; sessions, turns, stops, permissions, files, resuming and the lines are done here.
//
//	func main() {
//		trunkline.Serve(trunkline.Adapter{Name: "parrot", Version: "1.0.0", Turn: func(_ context.Context, t *trunkline.Turn) error {
//			t.Output(t.Text)
//			return nil
//		}})
//	}
package trunkline

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
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"
)

// Fields are the members of a message. As they are read, an array or an object is a json.RawMessage; see Get.
type Fields = map[string]any

// Adapter is what you write. Only Turn must be there.
type Adapter struct {
	Name, Version string
	// Turn is one turn; its return ends it, and an error or a panic ends it as failed. ctx ends with a stop and with the
	// session: hand it to whatever waits. A turn that has not returned 2 s later ends without it.
	Turn func(ctx context.Context, t *Turn) error
	// Start comes before the first turn of a session. Its error fails every turn of the session.
	Start func(s *Session) error
	// Close is called once when a session has been closed and its last turn has returned.
	Close func(s *Session)
	// Heard sees each message of a session before it is taken. It must be quick.
	Heard func(s *Session, message Fields)
	// Resumes says that Start goes on with Session.Resume where that is not nil.
	Resumes bool
	// Honours names the options of a session that the handler obeys; read them by Session.Option in each turn, since some may
	// change.
	Honours []string
}

const (
	longest   = 16 << 20  // the longest line that is read, in bytes; a longer one is skipped
	piece     = 128 << 10 // the longest text in one line: escaped, it is shorter than the 1 MiB that every host reads
	inputs    = 1000      // the inputs of a session that may wait; the texts of more are dropped, and their turns fail
	backlog   = 64        // the lines that may wait for a slow host before its turns wait as well
	backlogIn = 4096      // and before nothing more is read
	grace     = 2 * time.Second
)

// extension says where messages beyond the core belong, and members of a turn's end and of what is known of a session.
var extension = map[string]string{"thinking": "events", "message": "events", "tool.start": "events", "tool.update": "events",
	"tool.end": "events", "plan": "events", "progress": "events", "log": "events", "error": "events", "custom": "events",
	"usage": "usage", "context.usage": "usage", "compaction": "usage", "rate_limit": "usage",
	"native_session_id": "resume", "session_params": "resume", "clear_session": "resume", "context": "resume", "display_id": "resume",
	"model": "options", "reasoning_effort": "options", "mode": "options", "permission_mode": "options", "allowed_tools": "options",
	"denied_tools": "options", "models": "options", "modes": "options", "commands": "options"}

// changing are the options that may change.
var changing = []string{"model", "reasoning_effort", "mode", "permission_mode", "allowed_tools", "denied_tools"}

var names atomic.Int64 // for ids of requests and tool calls

// Session is one conversation.
type Session struct {
	ID     string
	Resume *Resume // what to go on with; nil begins anew
	State  any     // yours

	adapter *Adapter
	options Fields
	agreed  []string
	out     *outbox
	mu      sync.Mutex // guards what follows, and keeps the order of what is written
	started sync.Once
	refusal error
	files   []File // of the next input
	queue   []*Turn
	running *Turn
	closed  bool
	live    int // handlers that have not returned
}

// Resume is what an earlier session left.
type Resume struct {
	NativeSessionID string          `json:"native_session_id"`
	Params          json.RawMessage `json:"params"`
}

// File is one that the user sent. It is the host's: read it, and leave it there.
type File struct{ Name, Mime, Path string }

// Turn is one input and all that follows.
type Turn struct {
	Session *Session
	Text    string
	Files   []File

	id      string
	ctx     context.Context
	cancel  context.CancelFunc
	reason  string // of the stop
	stopped bool
	refused bool // too many waited
	over    bool
	asked   map[string]chan bool
	tools   map[string]bool // those that have not ended
	end     Fields
}

// Failure is an error of a category of the protocol, such as auth or rate_limit. Other errors are of category other.
type Failure struct{ Category, Message string }

func (f Failure) Error() string { return f.Message }

// Get reads a member of a message; false: it is absent or of another type.
func Get(m Fields, name string, into any) bool {
	raw, err := json.Marshal(m[name])
	return err == nil && m[name] != nil && json.Unmarshal(raw, into) == nil
}

func text(m Fields, name string) string { s, _ := m[name].(string); return s }

// Option reads an option of the session as it is now; false: it was not set.
func (s *Session) Option(name string, into any) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Get(s.options, name, into)
}

// Info tells what is known of the session by now, such as native_session_id, context, or the model where none was asked for.
func (s *Session) Info(m Fields) {
	s.mu.Lock()
	defer s.mu.Unlock()
	told := Fields{}
	for name, value := range m {
		if slices.Contains(changing, name) {
			s.options[name] = value
		}
		if extension[name] == "" || s.has(extension[name]) {
			told[name] = value
		}
	}
	if len(s.agreed) > 0 && len(told) > 0 {
		s.write(nil, "session.info", told)
	}
}

func (s *Session) has(extension string) bool { return slices.Contains(s.agreed, extension) }

// write writes one line; the caller holds the session.
func (s *Session) write(t *Turn, kind string, m Fields) {
	if s.closed || (t != nil && t.over) || (extension[kind] != "" && !s.has(extension[kind])) {
		return
	}
	m["type"], m["session_id"] = kind, s.ID
	if t != nil && t.id != "" && s.has("turns") {
		m["turn_id"] = t.id
	}
	line, err := json.Marshal(m) // escapes U+2028, and puts U+FFFD for broken characters
	if err != nil || len(line) > 1<<20 {
		for _, large := range []string{"input", "locations", "data", "diffs", "artifacts", "result", "summary", "session_params"} {
			if m[large] != nil {
				delete(m, large)
				m["truncated"] = true
			}
		}
		line, err = json.Marshal(m)
	}
	if kind == "turn.complete" && (err != nil || len(line) > 1<<20) { // a turn ends in any case
		line, err = json.Marshal(Fields{"type": kind, "session_id": s.ID, "turn_id": m["turn_id"], "truncated": true})
	}
	if err != nil || len(line) > 1<<20 {
		log.Printf("trunkline: a %s of %d bytes is not written: %v", kind, len(line), err)
		return
	}
	s.out.push(append(line, '\n'))
}

// Send writes any message of the turn. It waits while the host is slow, and drops what comes once the turn is over or what
// the host does not know. Long texts go in pieces.
func (t *Turn) Send(kind string, m Fields) {
	rest, isText := m["content"].(string)
	isDelta := isText && (kind == "output" || kind == "thinking" || kind == "tool.update")
	for more := true; more; more = isDelta && rest != "" && t.ctx.Err() == nil {
		part := Fields{}
		for name, value := range m {
			part[name] = value
		}
		if isText {
			part["content"] = cut(rest)
			if rest = rest[len(cut(rest)):]; rest != "" && !isDelta {
				part["truncated"] = true
			}
		}
		t.Session.out.room(backlog)
		t.Session.mu.Lock()
		t.Session.write(t, kind, part)
		t.Session.mu.Unlock()
	}
}

// cut is what fits into one line, up to the end of a character.
func cut(text string) string {
	end := min(len(text), piece)
	for end < len(text) && end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// Output is a piece of the answer.
func (t *Turn) Output(text string) { t.Send("output", Fields{"content": text, "channel": "stdout"}) }

// File sends a file. Write it into TMPDIR first, and leave it there until the session closes.
func (t *Turn) File(path, mime string) {
	t.Send("file.output", Fields{"file_path": path, "file_name": filepath.Base(path), "file_mime_type": mime})
}

// Finish says more of the turn's end: summary, result, artifacts, native_session_id, session_params.
func (t *Turn) Finish(m Fields) {
	t.Session.mu.Lock()
	defer t.Session.mu.Unlock()
	t.end = m
}

// Tool tells of a tool call that begins. The returned function tells of its end; without it the turn ends the call as failed.
func (t *Turn) Tool(name string, input any) (id string, end func(content string, failed bool)) {
	id = fmt.Sprintf("call-%d-%d", os.Getpid(), names.Add(1))
	t.Session.mu.Lock()
	t.tools[id] = true
	t.Session.mu.Unlock()
	t.Send("tool.start", Fields{"tool_call_id": id, "tool": name, "input": input})
	return id, func(content string, failed bool) {
		t.Session.mu.Lock()
		open := t.tools[id]
		delete(t.tools, id)
		t.Session.mu.Unlock()
		if open {
			t.Send("tool.end", Fields{"tool_call_id": id, "content": content, "is_error": failed})
		}
	}
}

// Permission asks whether something may be done, and waits. Only an explicit yes approves: no answer, a stop and the end of
// the session deny.
func (t *Turn) Permission(tool, description, resource string) bool {
	if len(tool)+len(description)+len(resource) > piece {
		return false // what a person decides by is never cut
	}
	verdict, s := make(chan bool, 1), t.Session
	request := fmt.Sprintf("ask-%d-%d", os.Getpid(), names.Add(1))
	s.out.room(backlog)
	s.mu.Lock()
	if !t.over && !t.stopped {
		t.asked[request] = verdict
		s.write(t, "permission.request",
			Fields{"request_id": request, "tool": tool, "description": description, "resource": resource})
	}
	s.mu.Unlock()
	select {
	case <-t.ctx.Done():
		return false
	case approved := <-verdict:
		return approved && t.ctx.Err() == nil
	}
}

// stop ends a turn soon; the caller holds the session.
func (t *Turn) stop(reason string) {
	if t.stopped || t.over {
		return
	}
	t.stopped, t.reason, t.asked = true, reason, map[string]chan bool{}
	t.cancel()
	time.AfterFunc(grace, func() {
		t.Session.mu.Lock()
		defer t.Session.mu.Unlock()
		t.complete(nil)
	})
}

// complete ends a turn once, and begins the next; the caller holds the session.
func (t *Turn) complete(err error) {
	if t.over {
		return
	}
	s, m := t.Session, Fields{}
	for id := range t.tools {
		s.write(t, "tool.end", Fields{"tool_call_id": id, "is_error": true})
	}
	for name, value := range t.end {
		if belongs := extension[name]; s.has(belongs) || (belongs == "" || name == "model") && s.has("turns") {
			m[name] = value
		}
	}
	if s.has("turns") {
		m["status"] = "completed"
	}
	switch failure := (Failure{"other", ""}); {
	case t.stopped && s.has("turns"):
		if m["status"] = "stopped"; t.reason != "" {
			m["stop_reason"] = t.reason
		}
	case t.stopped || err == nil:
	case s.has("turns"):
		if !errors.As(err, &failure) {
			failure.Message = err.Error()
		}
		m["status"], m["error"] = "failed", Fields{"category": failure.Category, "message": cut(failure.Message)}
	default:
		s.write(t, "output", Fields{"content": cut(err.Error()), "channel": "system"})
	}
	s.write(t, "turn.complete", m)
	t.over = true
	t.cancel()
	s.out.count(-1)
	if s.running == t {
		s.running = nil
	}
	s.begin()
}

// begin takes the next input, if no turn runs; the caller holds the session.
func (s *Session) begin() {
	if s.running != nil || len(s.queue) == 0 {
		return
	}
	t := s.queue[0]
	s.queue, s.running = s.queue[1:], t
	s.live++
	go func() {
		err := t.handle()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.live--
		t.complete(err)
		s.leave()
	}()
}

// handle makes an error of a panic.
func (t *Turn) handle() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	s := t.Session
	if t.refused {
		return Failure{"busy", fmt.Sprintf("more than %d inputs wait", inputs)}
	}
	s.started.Do(func() { // the next turn waits for it, even where this one is ended before it is done
		if s.adapter.Start != nil && s.refusal == nil {
			s.refusal = errors.New("the session could not be started") // where it panics
			s.refusal = s.adapter.Start(s)
		}
	})
	if s.refusal != nil {
		return s.refusal
	}
	return s.adapter.Turn(t.ctx, t)
}

// leave calls Close when a closed session has no handler any more; the caller holds the session.
func (s *Session) leave() {
	if s.closed && s.live == 0 && s.adapter.Close != nil {
		go s.adapter.Close(s)
	}
}

// begun is a session that begins: it agrees on extensions.
func begun(a *Adapter, out *outbox, id string, m Fields) *Session {
	s, offer := &Session{ID: id, adapter: a, out: out, options: m}, []string{}
	if !Get(m, "extensions", &offer) {
		offer = nil
	}
	ours := map[string]bool{"turns": true, "events": true, "usage": true, "resume": a.Resumes,
		"options": len(a.Honours) > 0}
	for _, name := range offer {
		if ours[name] && !s.has(name) {
			s.agreed = append(s.agreed, name)
		}
	}
	if m["protocol"] == json.Number("0") {
		s.agreed, s.refusal = nil, errors.New("no side serves version 0 of the protocol; this is version 1")
		s.write(nil, "output", Fields{"content": s.refusal.Error(), "channel": "system"})
	}
	if resume := (Resume{}); s.has("resume") && Get(m, "resume", &resume) {
		s.Resume = &resume
	}
	if len(s.agreed) > 0 {
		ready := Fields{"protocol": 1, "extensions": s.agreed, "max_line": longest,
			"capabilities": Fields{"turn_completion": true, "resume_attach": a.Resumes}}
		if a.Name != "" {
			ready["adapter"] = Fields{"name": a.Name, "version": a.Version}
		}
		if s.has("turns") {
			ready["input_modes"] = []string{"queue"}
		}
		if s.has("options") {
			ready["options_applied"] = append([]string{}, a.Honours...)
		}
		s.write(nil, "session.ready", ready)
	}
	return s
}

// take takes a message of an open session; what is unknown or of the wrong type is ignored.
func (s *Session) take(m Fields) {
	for _, name := range []string{"request_id", "turn_id", "message_id"} {
		if len(text(m, name)) > 256 {
			return
		}
	}
	if s.adapter.Heard != nil {
		s.adapter.Heard(s, m)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	content, isText := m["content"].(string)
	path, isPath := m["file_path"].(string)
	switch kind := m["type"]; {
	case kind == "user.input" && (isText || m["content"] == nil):
		s.input(content, m)
	case kind == "file.input" && isPath && len(s.files) < inputs:
		s.files = append(s.files, File{text(m, "file_name"), text(m, "file_mime_type"), path})
	case kind == "permission.response" && s.running != nil:
		if verdict := s.running.asked[text(m, "request_id")]; verdict != nil {
			delete(s.running.asked, text(m, "request_id"))
			verdict <- m["approved"] == true // anything but true denies
		}
	case kind == "stop":
		s.stop(text(m, "turn_id"), text(m, "reason"))
	case kind == "session.update" && s.has("options"):
		s.write(nil, "session.info", s.update(m))
	case kind == "session.close":
		s.closed = true
		s.out.count(-len(s.queue))
		s.queue = nil
		if s.running != nil {
			s.running.stop("")
		}
		s.leave()
	}
}

// update changes options, and is what is in force now.
func (s *Session) update(m Fields) Fields {
	now := Fields{}
	for _, name := range changing {
		if !slices.Contains(s.adapter.Honours, name) {
			continue
		}
		var one string
		var many []string
		if isList := name == "allowed_tools" || name == "denied_tools"; !isList && Get(m, name, &one) || isList && Get(m, name, &many) {
			s.options[name] = m[name]
		}
		if s.options[name] != nil {
			now[name] = s.options[name]
		}
	}
	return now
}

func (s *Session) input(content string, m Fields) {
	if m["mode"] == "steer" && s.has("turns") {
		answer := Fields{"delivered": false, "reason": "this agent takes no input during a turn"}
		if message := text(m, "message_id"); message != "" {
			answer["message_id"] = message
		}
		s.write(s.running, "steer.result", answer)
		return
	}
	t := &Turn{Session: s, Text: content, Files: s.files, id: text(m, "turn_id"), tools: map[string]bool{},
		asked: map[string]chan bool{}}
	if t.ctx, t.cancel = context.WithCancel(context.Background()); len(s.queue) >= inputs {
		t.Text, t.Files, t.refused = "", nil, true
	}
	s.files, s.queue = nil, append(s.queue, t)
	s.out.count(1)
	s.begin()
}

func (s *Session) stop(id, reason string) {
	if s.running != nil && (id == "" || !s.has("turns") || id == s.running.id) {
		s.running.stop(reason)
		return
	}
	for place, t := range s.queue {
		if id != "" && t.id == id {
			s.queue = slices.Delete(s.queue, place, place+1)
			t.stopped, t.reason = true, reason
			t.complete(nil)
			return
		}
	}
}

// outbox are the lines on their way to the host, and what is waited for at the end.
type outbox struct {
	mu    sync.Mutex
	moved *sync.Cond
	lines [][]byte
	busy  bool // a line is being written
	turns int  // that have not ended
}

func (o *outbox) count(turns int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.turns += turns
	o.moved.Broadcast()
}

// idle waits until no turn runs or waits.
func (o *outbox) idle() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.turns > 0 {
		o.moved.Wait()
	}
}

func (o *outbox) push(line []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines = append(o.lines, line)
	o.moved.Broadcast()
}

// room waits until fewer than so many lines wait.
func (o *outbox) room(most int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.lines) >= most || most == 1 && o.busy {
		o.moved.Wait()
	}
}

func (o *outbox) write(to io.Writer) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		for len(o.lines) == 0 {
			o.moved.Wait()
		}
		line := o.lines[0]
		o.lines, o.busy = o.lines[1:], true
		o.moved.Broadcast()
		o.mu.Unlock()
		_, err := to.Write(line)
		o.mu.Lock()
		o.busy = false
		o.moved.Broadcast()
		if err != nil {
			return err
		}
	}
}

// parse reads a line; nil is noise. It is json.Unmarshal, but a field may nest deeper than the 10,000 levels which that allows,
// and keys are exact. The last of duplicate keys counts.
func parse(line []byte) Fields {
	line = bytes.TrimPrefix(line, []byte("\ufeff"))
	message, tokens := Fields{}, json.NewDecoder(bytes.NewReader(line))
	tokens.UseNumber() // numbers of any size do no harm
	start, _ := tokens.Token()
	for utf8.Valid(line) && start == json.Delim('{') && tokens.More() {
		key, _ := tokens.Token()
		value, err := tokens.Token()
		if _, nested := value.(json.Delim); nested && err == nil {
			from := tokens.InputOffset() - 1
			for depth := 1; depth > 0 && err == nil; {
				var inner json.Token
				switch inner, err = tokens.Token(); inner {
				case json.Delim('['), json.Delim('{'):
					depth++
				case json.Delim(']'), json.Delim('}'):
					depth--
				}
			}
			value = json.RawMessage(line[from:tokens.InputOffset()])
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
			if length > longest+1 {
				log.Printf("trunkline: a line of %d bytes is skipped", length)
			}
			return line, err
		}
	}
}

// Serve serves the host on stdin and stdout, and ends the process. What anything else prints lands on stderr.
func Serve(a Adapter) {
	stdout, out, ended := os.Stdout, &outbox{}, make(chan struct{}, 2)
	os.Stdout, out.moved = os.Stderr, sync.NewCond(&out.mu)
	sessions := sync.Map{}
	go func() {
		out.write(stdout)
		os.Exit(0) // no one reads any more
	}()
	go func() {
		stdin := bufio.NewReader(os.Stdin)
		for err := error(nil); err == nil; {
			var line []byte
			line, err = readLine(stdin)
			out.room(backlogIn)
			m := parse(line)
			id, _ := m["session_id"].(string)
			if s, open := sessions.Load(id); open {
				if m["type"] == "session.close" {
					sessions.Delete(id)
				}
				s.(*Session).take(m)
			} else if m["type"] == "session.start" && id != "" && len(id) <= 256 {
				sessions.Store(id, begun(&a, out, id, m))
			} else if request := text(m, "request_id"); a.Resumes && m["type"] == "sessions.list" && request != "" && id == "" {
				answer, _ := json.Marshal(Fields{"type": "sessions.list.result", "session_id": "", "request_id": request,
					"error": "this adapter keeps no list of its sessions"})
				out.push(append(answer, '\n'))
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
	time.AfterFunc(4*time.Second, func() { os.Exit(0) }) // at the latest
	idle := make(chan struct{})
	go func() { out.idle(); close(idle) }()
	select {
	case <-idle: // short turns finish
	case <-time.After(100 * time.Millisecond):
		sessions.Range(func(_, open any) bool {
			s := open.(*Session)
			s.mu.Lock()
			defer s.mu.Unlock()
			waiting := s.queue
			s.queue = nil
			if s.running != nil {
				s.running.stop("shutdown")
			}
			for _, t := range waiting {
				t.stopped, t.reason = true, "shutdown"
				t.complete(nil)
			}
			return true
		})
		<-idle
	}
	out.room(1)
	os.Exit(0)
}
