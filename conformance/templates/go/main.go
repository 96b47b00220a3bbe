// Command adapter is an adapter on the standard library of Go 1.21 or later. Your agent goes into answer.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"
)

// answer is one turn. Say as much as you like; its return ends the turn, and an error is shown to the user.
//
// ctx ends with stop and with the session: hand it to whatever you wait for. t.Say writes output; t.May asks for
// permission: act only on true.
func answer(ctx context.Context, t *turn, text string) error {
	t.Say("You said: " + text)
	return nil
}

// What follows is the protocol. Nothing below here needs to change.

type fields map[string]any

// stdout writes one line at a time, whole.
var stdout = log.New(os.Stdout, "", 0)

type session struct {
	id     string
	mu     sync.Mutex
	inputs []string
	turn   *turn
	closed bool
}

type turn struct {
	session *session
	cancel  context.CancelFunc
	over    bool
	asked   map[string]chan bool
	asks    int
}

// send writes a message of a turn, unless the turn is over; the caller holds the session.
func (t *turn) send(kind string, message fields) {
	if t.over || t.session.closed {
		return
	}
	message["type"], message["session_id"] = kind, t.session.id
	line, _ := json.Marshal(message) // escapes U+2028
	stdout.Println(string(line))
}

// Say writes output.
func (t *turn) Say(text string) { t.say(text, "stdout") }

func (t *turn) say(text, channel string) {
	t.session.mu.Lock()
	defer t.session.mu.Unlock()
	t.send("output", fields{"content": text, "channel": channel})
}

// May asks for permission and waits for the answer; the end of the turn denies.
func (t *turn) May(ctx context.Context, tool, description, resource string) bool {
	verdict := make(chan bool, 1)
	t.session.mu.Lock()
	t.asks++
	ask := fmt.Sprintf("%p-%d", t, t.asks)
	t.asked[ask] = verdict
	t.send("permission.request", fields{"request_id": ask, "tool": tool, "description": description, "resource": resource})
	t.session.mu.Unlock()
	select {
	case approved := <-verdict:
		return approved
	case <-ctx.Done():
		return false
	}
}

// end ends a turn once and begins the next; the caller holds the session.
func (t *turn) end() {
	if t.over {
		return
	}
	t.send("turn.complete", fields{})
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
	text := s.inputs[0]
	s.inputs = s.inputs[1:]
	ctx, cancel := context.WithCancel(context.Background())
	t := &turn{session: s, cancel: cancel, asked: map[string]chan bool{}}
	s.turn = t
	go func() {
		if err := guarded(ctx, t, text); err != nil {
			t.say(err.Error(), "stderr")
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
	return answer(ctx, t, text)
}

// handle takes a message of an open session; what is unknown or of the wrong type is ignored.
func (s *session) handle(m fields) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch content, isText := m["content"].(string); {
	case m["type"] == "user.input" && (isText || m["content"] == nil):
		s.inputs = append(s.inputs, content)
		s.begin()
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

// parse reads a line; nil is noise.
func parse(line []byte) fields {
	var m fields
	line = bytes.TrimPrefix(line, []byte("\ufeff"))
	if !utf8.Valid(line) || !json.Valid(line) {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber() // numbers of any size do no harm
	if decoder.Decode(&m) != nil {
		return nil
	}
	return m
}

func main() {
	ended, sessions := make(chan struct{}, 1), sync.Map{}
	go func() {
		stdin := bufio.NewReader(os.Stdin)
		for err := error(nil); err == nil; {
			var line []byte
			line, err = stdin.ReadBytes('\n') // LF alone ends a line
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
