// Command adapter is an adapter on the standard library of Go 1.21 or later. Your agent goes into answer; the protocol is in the
// folder trunkline.
package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"time"

	"adapter/trunkline"
)

// answer is one turn. Say as much as you like; its return ends the turn, and an error is shown to the user.
//
// ctx ends with stop and with the session: hand it to whatever you wait for. t.Output writes output; t.Permission asks for
// permission: act only on true. t.Files are the files that came with this input; t.File sends one: write it into TMPDIR, and
// leave it there. t.Tool tells of a tool call, t.Send of all else.
func answer(ctx context.Context, t *trunkline.Turn) error {
	// To try it out, and for the recipes in conform.toml. Your agent replaces all of this.
	command, rest, _ := strings.Cut(t.Text, " ")
	switch command {
	case "/sleep":
		pause, err := time.ParseDuration(rest + "s")
		if err != nil {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	case "/touch":
		if t.Permission("touch", "Create "+rest, rest) {
			if err := os.WriteFile(rest, nil, 0o600); err != nil {
				return err
			}
		}
	case "/fail":
		return errors.New(rest)
	}
	t.Output("You said: " + t.Text)
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
		Name: "adapter", Version: "0.1.0",
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
