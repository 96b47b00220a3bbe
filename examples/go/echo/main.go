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

// The loop in main owns all state: it runs these one by one.
var events = make(chan func())
var sessions, outbox, asks, leaving = map[string]*session{}, [][]byte{}, 0, false

func (s *session) send(kind string, message fields) {
	message["type"], message["session_id"] = kind, s.id
	line := new(bytes.Buffer)
	encoder := json.NewEncoder(line) // escapes U+2028, ends with LF
	encoder.SetEscapeHTML(false)
	encoder.Encode(message)
	outbox = append(outbox, line.Bytes())
}

func (s *session) begin() {
	if s.turn != nil || len(s.inputs) == 0 {
		return
	}
	t, text := new(turn), s.inputs[0]
	s.turn, s.inputs = t, s.inputs[1:]
	command, word, _ := strings.Cut(text, " ")
	pause := time.Duration(0)
	if command == "/tool" && !leaving {
		asks++
		t.ask, t.tool = fmt.Sprint("ask-", asks), word
		s.send("permission.request", fields{"request_id": t.ask, "tool": word, "description": "Run " + word, "resource": word})
		return
	} else if command == "/sleep" && !leaving {
		pause, _ = time.ParseDuration(word + "s")
	}
	time.AfterFunc(pause, func() {
		events <- func() {
			if s.turn == t { // neither stopped nor closed
				s.finish(fields{"content": text, "channel": "stdout"})
			}
		}
	})
}

func (s *session) finish(output fields) { // nil: stopped
	if s.turn = nil; output != nil {
		s.send("output", output)
	}
	s.send("turn.complete", fields{})
	s.begin()
}

func handle(line []byte) {
	var m map[string]json.RawMessage // exact keys; what is not read is not judged
	if !utf8.Valid(line) || json.Unmarshal(line, &m) != nil {
		return // noise
	}
	var kind, id, content, ask string
	for key, value := range map[string]*string{"type": &kind, "session_id": &id, "content": &content, "request_id": &ask} {
		...
	}
}
