// Command echo is an adapter on the standard library alone: many sessions, stop, a permission demo.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"
)

type fields map[string]any

var stdout = log.New(os.Stdout, "", 0) // one line at a time, whole
var asks atomic.Int64

func send(id, kind string, message fields) {
	message["type"], message["session_id"] = kind, id
	line, _ := json.Marshal(message) // escapes U+2028
	stdout.Println(string(line))
}

func serve(id string, messages <-chan fields) {
	var inputs []string // the first is the running turn's
	var ask string
	var timer <-chan time.Time
	finish := func(output ...string) { // without output: stopped
		for _, text := range output {
			send(id, "output", fields{"content": text, "channel": "stdout"})
		}
		send(id, "turn.complete", fields{})
		inputs, ask, timer = inputs[1:], "", nil
	}
	for {
		for len(inputs) > 0 && ask == "" && timer == nil {
			command, word, _ := strings.Cut(inputs[0], " ")
			if pause, _ := time.ParseDuration(word + "s"); command == "/sleep" && pause > 0 {
				timer = time.After(pause)
			} else if command == "/tool" && word != "" {
				ask = fmt.Sprint("ask-", asks.Add(1))
				send(id, "permission.request", fields{"request_id": ask, "tool": word, "description": "Run " + word, "resource": word})
			} else {
				finish(inputs[0])
			}
		}
		select {
		case <-timer:
			finish(inputs[0])
		case m := <-messages:
			switch content, text := m["content"].(string); {
			case m["type"] == "user.input" && (text || m["content"] == nil):
				inputs = append(inputs, content)
			case m["type"] == "permission.response" && ask != "" && m["request_id"] == ask:
				verdict := map[bool]string{true: "ran ", false: "denied "}[m["approved"] == true]
				finish(verdict + inputs[0][len("/tool "):])
			case m["type"] == "stop" && len(inputs) > 0:
				finish()
			case m["type"] == "session.close":
				return
			}
			for m == nil && len(inputs) > 0 { // stdin has ended
				finish()
			}
		}
	}
}

func main() {
	pipe, feed := io.Pipe()
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGPIPE) // both are like the end of stdin
	go func() { io.Copy(feed, os.Stdin); end <- os.Interrupt }()
	go func() { <-end; feed.Close(); time.Sleep(2 * time.Second); os.Exit(0) }() // at the latest
	sessions, stdin := map[string]chan fields{}, bufio.NewReader(pipe)
	for err := error(nil); err == nil; {
		var line []byte
		var m fields // keys are exact, the last of duplicates counts
		if line, err = stdin.ReadBytes('\n'); utf8.Valid(line) {
			json.Unmarshal(bytes.TrimPrefix(line, []byte("\ufeff")), &m)
		}
		id, _ := m["session_id"].(string)
		if session := sessions[id]; session != nil {
			session <- m
		} else if m["type"] == "session.start" && id != "" && len(id) <= 256 {
			sessions[id] = make(chan fields)
			go serve(id, sessions[id])
		}
		if m["type"] == "session.close" {
			delete(sessions, id)
		}
	}
	for _, session := range sessions {
		session <- nil // ends its turns
		session <- nil // is taken when they have ended
	}
}
