package main

// The conformance suite's probe for an adapter in Go: copy this file.
//
// Where the environment says CONFORM_PROBE=1, an input whose content is {"$probe": 1, "do": [[operation, ...], ...]}
// is a script that stands in for the agent. Each session has a probe: note takes each message that it is sent, obeys
// each input when its turn begins. It needs what an adapter already has: send waits while the host is slow and drops what
// comes once the turn is over, ask is true when it is approved, stopped is closed when the turn is to end. An error is the
// script's failure: end the turn as you end one whose agent has failed, by an output on system, or by status failed where
// turns is agreed on.

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

var probing = os.Getenv("CONFORM_PROBE") == "1"

var operations = strings.Fields("hello say echo burst sleep until_stop report set get ask file complete fail exit abort")

type object = map[string]any

// probe is what a session was sent, for report, and the scripts that it is sent.
type probe struct {
	sync.Mutex
	inputs, files, permissions []object
	values                     object
}

// note takes each message of the session that the adapter reads; most of them say nothing to it.
func (p *probe) note(message object) {
	p.Lock()
	defer p.Unlock()
	path, isPath := message["file_path"].(string)
	if message["type"] == "file.input" && isPath {
		p.files = append(p.files, object{"name": message["file_name"], "mime": message["file_mime_type"], "path": path})
	} else if message["type"] == "permission.response" {
		answer := object{"request_id": message["request_id"], "approved": message["approved"] == true}
		p.permissions = append(p.permissions, answer)
	}
}

// obeys does what an input says, all of the turn but its turn.complete; false: it is not a script. The error is that of
// a script that fails.
func (p *probe) obeys(
	text string,
	send func(kind string, message object),
	ask func(tool, description, resource string) bool,
	stopped <-chan struct{},
) (obeyed bool, err error) {
	if !probing {
		return false, nil
	}
	p.Lock()
	hash := sha256.Sum256([]byte(text))
	p.inputs = append(p.inputs, object{"bytes": len(text), "sha256": hex.EncodeToString(hash[:])})
	p.Unlock()
	var script struct {
		Version any     `json:"$probe"`
		Steps   [][]any `json:"do"`
		Text    any     `json:"text"`
	}
	if json.Unmarshal([]byte(text), &script) != nil || script.Version == nil {
		return false, nil
	}
	run := scripted{p, send, ask, stopped}
	for _, step := range script.Steps {
		if run.over() {
			return true, nil
		}
		if len(step) == 0 {
			continue
		}
		operation := asText(step[0])
		if operation == "echo" && len(step) == 1 {
			step = append(step, script.Text)
		}
		arguments := append(step[1:len(step):len(step)], nil, nil, nil)[:max(3, len(step)-1)]
		if more, err := run.do(operation, arguments); err != nil || !more {
			return true, err
		}
	}
	return true, nil
}

type scripted struct {
	*probe
	send    func(kind string, message object)
	ask     func(tool, description, resource string) bool
	stopped <-chan struct{}
}

func (s scripted) do(operation string, given []any) (more bool, err error) {
	switch operation {
	case "hello":
		s.tell(object{"ops": operations, "adapter": "adapter (Go)", "version": "0"})
	case "say":
		s.say(asText(given[0]), asText(given[1]))
	case "echo":
		s.say(asText(given[0]), "")
	case "burst":
		letter := asText(given[2])
		if letter == "" {
			letter = "x"
		}
		fill := strings.Repeat(letter, max(0, number(given[1])-len("00000001 ")))
		for piece := 1; piece <= number(given[0]) && !s.over(); piece++ {
			s.say(fmt.Sprintf("%08d %s", piece, fill), "")
		}
	case "sleep":
		s.busy(time.After(time.Duration(number(given[0])) * time.Millisecond))
	case "until_stop":
		s.busy(nil)
	case "report":
		s.Lock()
		report := object{"count": len(s.inputs), "inputs": s.inputs, "permissions": append([]object{}, s.permissions...)}
		files := append([]object{}, s.files...)
		s.Unlock()
		for place, file := range files {
			files[place] = judged(file)
		}
		report["files"] = files
		s.tell(report)
	case "set":
		if s.values == nil {
			s.values = object{}
		}
		s.values[asText(given[0])] = given[1]
	case "get":
		s.tell(object{"key": given[0], "value": s.values[asText(given[0])]})
	case "ask": // all at once: they may be answered in any order
		var asking sync.WaitGroup
		failed := make(chan error, len(given))
		for _, asked := range given {
			if what, isObject := asked.(object); isObject {
				asking.Add(1)
				go func() { defer asking.Done(); failed <- s.askOne(what) }()
			}
		}
		asking.Wait()
		close(failed)
		for one := range failed {
			err = errors.Join(err, one)
		}
	case "file":
		file, err := os.CreateTemp("", "probe-") // in TMPDIR; a name is a label, not a path
		if err != nil {
			return false, err
		}
		_, err = file.Write(bytes.Repeat([]byte("x"), max(0, number(given[2]))))
		if err = errors.Join(err, file.Close()); err != nil {
			return false, err
		}
		s.send("file.output", object{"file_name": given[0], "file_mime_type": given[1], "file_path": file.Name()})
	case "complete":
		return false, nil
	case "fail":
		return false, errors.New(asText(given[0]))
	case "exit":
		os.Exit(number(given[0]))
	case "abort":
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	default:
		s.tell(object{"unsupported": operation})
		return false, nil
	}
	return true, err
}

func (s scripted) say(content, channel string) {
	if channel == "" {
		channel = "stdout"
	}
	s.send("output", object{"content": content, "channel": channel})
}

func (s scripted) tell(answer object) {
	answer["$probe"] = 1
	line, _ := json.Marshal(answer)
	s.say(string(line), "")
}

func (s scripted) over() bool {
	select {
	case <-s.stopped:
		return true
	default:
		return false
	}
}

func (s scripted) busy(over <-chan time.Time) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.say("tick", "")
		case <-over:
			return
		case <-s.stopped:
			return
		}
	}
}

func (s scripted) askOne(what object) error {
	resource := asText(what["resource"])
	approved := s.ask(asText(what["tool"]), asText(what["description"]), resource)
	if effect, isPath := what["effect"].(string); approved && isPath {
		if err := os.WriteFile(effect, nil, 0o600); err != nil {
			return err
		}
	}
	s.tell(object{"asked": object{"resource": resource, "approved": approved}})
	return nil
}

func asText(value any) string {
	if text, isText := value.(string); isText || value == nil {
		return text
	}
	line, _ := json.Marshal(value)
	return string(line)
}

func number(value any) int {
	float, _ := value.(float64)
	return int(float)
}

// judged says what a file holds; it may be anything or nothing.
func judged(file object) object {
	told, path := object{"name": file["name"], "mime": file["mime"], "path": file["path"]}, file["path"].(string)
	hash := sha256.New()
	state, err := os.Stat(path)
	if err == nil && !state.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err == nil {
		var opened *os.File
		if opened, err = os.Open(path); err == nil {
			defer opened.Close()
			told["bytes"], err = io.Copy(hash, opened)
		}
	}
	if err != nil {
		return object{"name": file["name"], "mime": file["mime"], "path": path, "error": err.Error()}
	}
	told["sha256"] = hex.EncodeToString(hash.Sum(nil))
	return told
}
