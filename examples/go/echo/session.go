package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

var stdout = log.New(os.Stdout, "", 0) // one line at a time, whole
var asks atomic.Int64
var serving sync.WaitGroup

type turn struct { // has goroutines of its own, which end where they wait when it is done
	context.Context
	stop  context.CancelFunc
	out   chan fields // to its session, which alone writes
	asked sync.Map    // request_id -> chan bool
}

func wait[T any](t *turn, event <-chan T) (got T) {
	select {
	case got = <-event:
	case <-t.Done():
		runtime.Goexit()
	}
	return got
}

func (t *turn) send(kind string, message fields) {
	message["type"] = kind
	select {
	case t.out <- message:
	case <-t.Done():
		runtime.Goexit()
	}
}

func (t *turn) ask(tool, description, resource string) bool {
	id, verdict := fmt.Sprint("ask-", asks.Add(1)), make(chan bool, 1)
	t.asked.Store(id, verdict)
	t.send("permission.request", fields{"request_id": id, "tool": tool, "description": description, "resource": resource})
	return wait(t, verdict)
}

func (t *turn) answer(text string) {
	command, word, _ := strings.Cut(text, " ")
	if pause, _ := time.ParseDuration(word + "s"); command == "/sleep" && pause > 0 {
		wait(t, time.After(pause))
	} else if command == "/tool" && word != "" {
		text = map[bool]string{true: "ran ", false: "denied "}[t.ask(word, "Run "+word, word)] + word
	}
	t.send("output", fields{"content": text, "channel": "stdout"})
}

func serve(id string, messages <-chan fields) {
	defer serving.Done()
	open, end := context.WithCancel(context.Background())
	defer end()
	var seen probe      // for the conformance suite
	var inputs []string // the first is the running turn's
	t := &turn{stop: func() {}}
	write := func(message fields) {
		message["session_id"] = id
		line, _ := json.Marshal(message) // escapes U+2028
		stdout.Println(string(line))
	}
	for messages != nil || len(inputs) > 0 {
		if t.out == nil && len(inputs) > 0 {
			t = &turn{out: make(chan fields)}
			t.Context, t.stop = context.WithCancel(open)
			go func(t *turn, text string) {
				defer close(t.out)
				if obeyed, err := seen.obeys(text, t.send, t.ask, t.Done()); err != nil {
					t.send("output", fields{"content": err.Error(), "channel": "system"})
				} else if !obeyed {
					t.answer(text)
				}
			}(t, inputs[0])
		}
		select {
		case message, more := <-t.out:
			if !more {
				t.stop() // frees it
				message, inputs, t = fields{"type": "turn.complete"}, inputs[1:], &turn{stop: t.stop}
			}
			write(message)
		case m, more := <-messages:
			seen.note(m)
			switch content, text := m["content"].(string); {
			case !more: // stdin has ended: short turns finish
				messages = nil
				time.AfterFunc(50*time.Millisecond, end)
			case m["type"] == "user.input" && (text || m["content"] == nil):
				inputs = append(inputs, content)
			case m["type"] == "permission.response":
				request, _ := m["request_id"].(string)
				if verdict, asked := t.asked.LoadAndDelete(request); asked {
					verdict.(chan bool) <- m["approved"] == true
				}
			case m["type"] == "stop":
				t.stop()
			case m["type"] == "session.close":
				return
			}
		}
	}
}
