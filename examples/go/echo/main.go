// Command echo is an adapter on the standard library alone: many sessions, stop, a permission demo. It shows what the
// protocol asks of a program, so it reads for itself; ../trunkline is the file to copy, which does more.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
	"unicode/utf8"
)

type fields = map[string]any

// parse is json.Unmarshal, but any field that is not read may nest deeper than the 10,000 levels which that allows: of
// an array or an object only its first token is kept. Keys are exact, the last of duplicates counts.
func parse(line []byte) fields {
	message, tokens := fields{}, json.NewDecoder(bytes.NewReader(line))
	tokens.UseNumber()
	start, _ := tokens.Token()
	for utf8.Valid(line) && start == json.Delim('{') && tokens.More() {
		key, _ := tokens.Token()
		value, err := tokens.Token()
		_, nested := value.(json.Delim)
		for depth := 1; nested && err == nil && depth > 0; {
			var inner json.Token
			switch inner, err = tokens.Token(); inner {
			case json.Delim('['), json.Delim('{'):
				depth++
			case json.Delim(']'), json.Delim('}'):
				depth--
			}
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

func main() {
	pipe, feed := io.Pipe()
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGPIPE) // both are like the end of stdin
	go func() { io.Copy(feed, os.Stdin); end <- os.Interrupt }()
	go func() { <-end; feed.Close(); time.Sleep(2 * time.Second); os.Exit(0) }() // at the latest
	sessions, stdin := map[string]chan fields{}, bufio.NewReader(pipe)
	for err := error(nil); err == nil; {
		var line []byte
		line, err = stdin.ReadBytes('\n')
		m := parse(bytes.TrimPrefix(line, []byte("\ufeff"))) // noise is nothing
		id, _ := m["session_id"].(string)
		if session := sessions[id]; session != nil {
			session <- m
		} else if m["type"] == "session.start" && id != "" && len(id) <= 256 {
			sessions[id] = make(chan fields)
			serving.Add(1)
			go serve(id, sessions[id])
		}
		if m["type"] == "session.close" {
			delete(sessions, id)
		}
	}
	for _, session := range sessions {
		close(session)
	}
	serving.Wait()
}
