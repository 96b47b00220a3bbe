// Command echo is an adapter on package trunkline: an echo with stop, permissions, tools and files.
package main

import (
	"context"
	"strings"
	"sync"
	"time"

	"trunkline"
)

func answer(ctx context.Context, t *trunkline.Turn) error {
	command, word, _ := strings.Cut(t.Text, " ")
	switch pause, _ := time.ParseDuration(word + "s"); {
	case command == "/sleep" && pause > 0:
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	case command == "/tool" && word != "":
		done := map[bool]string{true: "ran ", false: "denied "}[t.Permission(word, "Run "+word, word)]
		t.Output(done + word)
		return nil
	}
	for _, file := range t.Files {
		t.Output("got " + file.Name + "\n")
	}
	t.Output(t.Text)
	return nil
}

// probes are for the conformance suite alone: without CONFORM_PROBE=1 they obey nothing.
var probes sync.Map

func probed(s *trunkline.Session) *probe {
	seen, _ := probes.LoadOrStore(s, &probe{})
	return seen.(*probe)
}

func main() {
	trunkline.Serve(trunkline.Adapter{
		Name: "echo", Version: "1.0.0",
		Heard: func(s *trunkline.Session, message trunkline.Fields) { probed(s).note(message) },
		Close: func(s *trunkline.Session) { probes.Delete(s) },
		Turn: func(ctx context.Context, t *trunkline.Turn) error {
			if obeyed, err := probed(t.Session).obeys(t.Text, t.Send, t.Permission, ctx.Done()); obeyed {
				return err
			}
			return answer(ctx, t)
		},
	})
}
