package trunkline

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestMain is the adapter as well: each test has a real process and its pipes.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "adapter" {
		Serve(Adapter{Turn: answer})
	}
	os.Exit(m.Run())
}

func answer(ctx context.Context, t *Turn) error {
	switch t.Text {
	case "wait":
		t.Output("waiting")
		<-ctx.Done()
	case "hang":
		t.Output("hanging")
		select {}
	case "flood":
		for piece := 0; piece < 2000; piece++ {
			t.Output(fmt.Sprintf("%04d%s", piece, strings.Repeat("x", 1000)))
		}
	case "long":
		t.Output(strings.Repeat("ü", 3*piece))
		t.Output(fmt.Sprint(t.Permission("tool", strings.Repeat("x", piece), "r")))
	case "huge":
		t.Finish(Fields{"result": strings.Repeat("x", 2<<20), "summary": func() {}})
	case "panic":
		t.Tool("tool", nil)
		panic("on purpose")
	}
	return nil
}

type adapter struct {
	*testing.T
	in  *json.Encoder
	out *bufio.Reader
}

func start(t *testing.T) adapter {
	process := exec.Command(os.Args[0], "adapter")
	stdin, _ := process.StdinPipe()
	stdout, _ := process.StdoutPipe()
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	hung := time.AfterFunc(time.Minute, func() { process.Process.Kill() })
	t.Cleanup(func() {
		stdin.Close()
		if err := process.Wait(); err != nil {
			t.Errorf("it ended with %v", err)
		}
		hung.Stop()
	})
	a := adapter{t, json.NewEncoder(stdin), bufio.NewReader(stdout)}
	a.in.Encode(Fields{"type": "session.start", "session_id": "s", "protocol": 1, "extensions": []string{"turns", "events"}})
	a.until("session.ready")
	return a
}

func (a adapter) input(turn, text string) {
	a.in.Encode(Fields{"type": "user.input", "session_id": "s", "turn_id": turn, "content": text})
}

// until reads to the next message of a type; it, and the output before it.
func (a adapter) until(kind string) (m Fields, output string) {
	a.Helper()
	var said strings.Builder
	for {
		line, err := a.out.ReadBytes('\n')
		if err != nil {
			a.Fatal(err)
		}
		if len(line) > 1<<20 {
			a.Errorf("a line of %d bytes", len(line))
		}
		m = nil
		if err := json.Unmarshal(line, &m); err != nil {
			a.Fatal(err)
		}
		if m["type"] == "output" {
			said.WriteString(m["content"].(string))
		}
		if m["type"] == kind {
			return m, said.String()
		}
	}
}

func (a adapter) ends(turn, status string) (m Fields, output string) {
	a.Helper()
	m, output = a.until("turn.complete")
	if m["turn_id"] != turn || m["status"] != status {
		a.Fatalf("%v, and not %s %s", m, turn, status)
	}
	return m, output
}

func TestMoreInputsThanMayWaitFailAndEachEnds(t *testing.T) {
	a := start(t)
	a.input("first", "wait")
	a.until("output")
	for turn := 0; turn <= inputs; turn++ {
		a.input(fmt.Sprint(turn), "x")
	}
	a.in.Encode(Fields{"type": "stop", "session_id": "s"})
	a.ends("first", "stopped")
	for turn := 0; turn < inputs; turn++ {
		a.ends(fmt.Sprint(turn), "completed")
	}
	m, _ := a.ends(fmt.Sprint(inputs), "failed")
	if m["error"].(Fields)["category"] != "busy" {
		t.Error(m)
	}
}

func TestAHandlerThatHeedsNothingIsEndedWithoutAndTheNextRuns(t *testing.T) {
	a := start(t)
	a.input("1", "hang")
	a.until("output")
	a.input("2", "x")
	a.in.Encode(Fields{"type": "stop", "session_id": "s"})
	a.ends("1", "stopped")
	a.ends("2", "completed")
}

func TestAHostThatReadsLateGetsAllOfIt(t *testing.T) {
	a := start(t)
	a.input("1", "flood")
	a.in.Encode(Fields{"type": "session.start", "session_id": "other"}) // the adapter reads meanwhile
	_, output := a.ends("1", "completed")
	for piece := 0; piece < 2000; piece++ {
		if !strings.HasPrefix(output[piece*1004:], fmt.Sprintf("%04dx", piece)) {
			t.Fatalf("piece %d is not in its place", piece)
		}
	}
}

func TestNoLineIsLongerThanEveryHostReads(t *testing.T) {
	a := start(t)
	a.input("1", "long")
	if _, output := a.ends("1", "completed"); output != strings.Repeat("ü", 3*piece)+"false" {
		t.Errorf("%d bytes", len(output))
	}
	a.input("2", "huge")
	if m, _ := a.until("turn.complete"); m["turn_id"] != "2" || m["truncated"] != true {
		t.Error(m)
	}
}

func TestAPanicFailsItsTurnAndEndsItsTools(t *testing.T) {
	a := start(t)
	a.input("1", "panic")
	if m, _ := a.until("tool.end"); m["is_error"] != true {
		t.Error(m)
	}
	a.ends("1", "failed")
}
