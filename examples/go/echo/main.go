// Command echo is an adapter on the standard library alone: many sessions, stop, a permission demo.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"
)

type fields map[string]string
type turn struct{ ask, tool string } // waits for an answer, or else for a timer
type session struct {
	id     string
	inputs []string
	turn   *turn // nil while idle
}

var mu sync.Mutex // guards what follows, and every session
var wake = sync.NewCond(&mu)
var sessions, asks, leaving, outbox = map[string]*session{}, 0, false, new(bytes.Buffer)

func (s *session) send(kind string, message fields) { // never waits: write does
	message["type"], message["session_id"] = kind, s.id
	encoder := json.NewEncoder(outbox) // escapes U+2028, ends with LF
	encoder.SetEscapeHTML(false)
	encoder.Encode(message)
	wake.Signal()
}

func (s *session) serve() { // starts queued inputs until one has to wait
	for s.turn == nil && len(s.inputs) > 0 {
		text, t := s.inputs[0], new(turn)
		s.inputs, s.turn = s.inputs[1:], t
		command, word, _ := strings.Cut(text, " ")
		pause, _ := time.ParseDuration(word + "s")
		switch {
		case command == "/tool" && word != "":
			asks++
			t.ask, t.tool = fmt.Sprint("ask-", asks), word
			s.send("permission.request", fields{"request_id": t.ask, "tool": word, "description": "Run " + word, "resource": word})
		case command == "/sleep" && pause > 0:
			time.AfterFunc(pause, func() {
				mu.Lock()
				defer mu.Unlock()
				if s.turn == t { // neither stopped nor closed
					s.finish(text)
					s.serve()
				}
			})
		default:
			s.finish(text)
		}
	}
}

func (s *session) finish(output ...string) { // without output: stopped
	for _, text := range output {
		s.send("output", fields{"content": text, "channel": "stdout"})
	}
	s.send("turn.complete", fields{})
	s.turn = nil
}

func handle(line []byte) {
	var m map[string]json.RawMessage // exact keys; what is not read is not judged
	if !utf8.Valid(line) || json.Unmarshal(line, &m) != nil {
		return // noise
	}
	text := func(key string) (value string, ok bool) { // absent and null are ""
		ok = m[key] == nil || json.Unmarshal(m[key], &value) == nil
		return
	}
	kind, _ := text("type")
	id, _ := text("session_id")
	ask, _ := text("request_id")
	content, ok := text("content")
	mu.Lock()
	defer mu.Unlock()
	s := sessions[id]
	switch {
	case s == nil: // unknown or closed, but for a start
		if kind == "session.start" && id != "" && len(id) <= 256 {
			sessions[id] = &session{id: id}
		}
		return
	case kind == "user.input" && ok:
		s.inputs = append(s.inputs, content)
	case kind == "permission.response" && s.turn != nil && s.turn.ask != "" && s.turn.ask == ask:
		s.finish(map[bool]string{true: "ran ", false: "denied "}[string(m["approved"]) == "true"] + s.turn.tool)
	case kind == "stop" && s.turn != nil:
		s.finish()
	case kind == "session.close":
		delete(sessions, id)
		s.turn, s.inputs = nil, nil
	}
	s.serve()
}

func leave() { // ends every turn, then the process, in 2 s even when nobody reads
	mu.Lock()
	for _, s := range sessions {
		for ; s.turn != nil; s.serve() {
			s.finish()
		}
	}
	leaving = true
	wake.Signal()
	mu.Unlock()
	time.Sleep(2 * time.Second)
	os.Exit(0)
}

func write() {
	for {
		mu.Lock()
		for outbox.Len() == 0 && !leaving {
			wake.Wait()
		}
		lines, last := outbox, leaving
		outbox = new(bytes.Buffer)
		mu.Unlock()
		if _, err := lines.WriteTo(os.Stdout); err != nil || last {
			os.Exit(0)
		}
	}
}

func main() {
	signal.Ignore(syscall.SIGPIPE) // the write says so instead
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	go func() { <-term; leave() }()
	go write()
	stdin := bufio.NewReader(os.Stdin)
	for err := error(nil); err == nil; {
		var line []byte
		line, err = stdin.ReadBytes('\n') // of any length; splits at LF alone
		handle(bytes.TrimPrefix(line, []byte("\ufeff")))
	}
	leave()
}
