// A client of the daemon with Go's standard library alone: opens a session, and follows its events over two connections.
//
// go run . URL, with a token of scope control in TRUNKLINE_TOKEN.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
)

type entry struct {
	Type    string `json:"type"`
	Seq     uint64 `json:"seq"`
	TurnID  string `json:"turn_id"`
	Content string `json:"content"`
}

type client struct{ url, token string }

func (c client) send(ctx context.Context, method, path string, body any, header http.Header) *http.Response {
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		must(err)
		sent = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, sent)
	must(err)
	for name, values := range header {
		request.Header[name] = values
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	response, err := http.DefaultClient.Do(request)
	must(err)
	return response
}

func (c client) ask(method, path string, body any, status int, into any) {
	response := c.send(context.Background(), method, path, body, nil)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(err)
	if response.StatusCode != status {
		log.Fatalf("%s %s: %s %s", method, path, response.Status, text)
	}
	if into != nil {
		must(json.Unmarshal(text, into))
	}
}

// events follows a session from behind an entry, until `each` says that it has enough, or the stream ends.
func (c client) events(id string, after uint64, each func(entry) bool) {
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	header := http.Header{"Last-Event-Id": {strconv.FormatUint(after, 10)}}
	response := c.send(ctx, "GET", "/v1/sessions/"+id+"/events", nil, header)
	defer response.Body.Close()
	if response.StatusCode != 200 || !strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		log.Fatalf("events: %s", response.Status)
	}
	var kind, number, data string
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "event":
			kind = value
		case "id":
			number = value
		case "data":
			data = value
		case "":
			if data == "" {
				continue
			}
			var heard entry
			must(json.Unmarshal([]byte(data), &heard))
			if heard.Type != kind || strconv.FormatUint(heard.Seq, 10) != number {
				log.Fatalf("an event of type %s and number %s holds %s", kind, number, data)
			}
			kind, number, data = "", "", ""
			if each(heard) {
				return
			}
		}
	}
}

func main() {
	log.SetFlags(0)
	c := client{os.Args[1], os.Getenv("TRUNKLINE_TOKEN")}
	var opened struct{ ID string }
	c.ask("POST", "/v1/sessions", map[string]any{}, 201, &opened)
	var taken struct {
		TurnID string `json:"turn_id"`
	}
	inputs := "/v1/sessions/" + opened.ID + "/inputs"
	for _, content := range []string{"one", "two", "three"} {
		c.ask("POST", inputs, map[string]any{"content": content}, 202, &taken)
	}
	// It goes away after the first turn, and comes back for what it has not had.
	var last uint64
	var said []string
	follow := func(enough func(entry) bool) {
		c.events(opened.ID, last, func(heard entry) bool {
			if heard.Seq != last+1 {
				log.Fatalf("%d follows %d", heard.Seq, last)
			}
			last = heard.Seq
			if heard.Type == "output" {
				said = append(said, heard.Content)
			}
			return enough(heard)
		})
	}
	follow(func(heard entry) bool { return heard.Type == "turn.complete" })
	follow(func(heard entry) bool { return heard.Type == "turn.complete" && heard.TurnID == taken.TurnID })
	if fmt.Sprint(said) != "[one two three]" {
		log.Fatalf("it said %q", said)
	}
	c.ask("DELETE", "/v1/sessions/"+opened.ID, nil, 204, nil)
	closed := false
	follow(func(heard entry) bool {
		closed = closed || heard.Type == "session.closed"
		return false
	})
	if !closed {
		log.Fatal("the stream ends before its session")
	}
	// Behind the last entry there is nothing to wait for.
	c.ask("GET", fmt.Sprintf("/v1/sessions/%s/events?after=%d", opened.ID, last), nil, 204, nil)
	fmt.Println("the client in Go: three turns over two connections")
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
