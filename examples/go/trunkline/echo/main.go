// Command echo is an adapter on package trunkline: an echo with stop, permissions, files, a model to choose, and a word that it
// keeps in what a session is resumed with.
package main

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"trunkline"
)

// kept is what a session keeps, here in the hands of the host.
type kept struct {
	Known bool   `json:"known"` // so that nothing else is taken for it
	Word  string `json:"word"`
}

func start(s *trunkline.Session) error {
	keeps, context := &kept{}, "lost"
	if s.Resume != nil {
		if json.Unmarshal(s.Resume.Params, keeps) == nil && keeps.Known {
			context = "kept"
		}
		s.Info(trunkline.Fields{"context": context})
	}
	if model := ""; !s.Option("model", &model) {
		s.Info(trunkline.Fields{"model": "plain"})
	}
	s.State = keeps
	return nil
}

func answer(ctx context.Context, t *trunkline.Turn) error {
	command, word, _ := strings.Cut(t.Text, " ")
	keeps := t.Session.State.(*kept)
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
	switch command {
	case "/remember":
		keeps.Word = word
	case "/recall":
		t.Output(keeps.Word)
	case "/model":
		var model string
		t.Session.Option("model", &model)
		t.Output(model)
		return nil
	}
	t.Finish(trunkline.Fields{"session_params": kept{true, keeps.Word}})
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
		Name: "echo", Version: "1.0.0", Resumes: true, Honours: []string{"model"}, Start: start,
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
