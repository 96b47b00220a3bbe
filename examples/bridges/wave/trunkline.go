// Package adapter stands for Wave's internal/adapter: TrunklineAdapter is an AdapterRunner of it.
package adapter

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"
)

const stepSession, stepTurn = "step", "turn"

// TrunklineAdapter runs each step in a session of a `trunkline serve` of its own.
type TrunklineAdapter struct {
	// Command starts the host with the agent that runs the steps.
	Command []string
	// InWorkspace starts the host in the workspace, for an agent that does not honour `cwd`. Paths in Command must be absolute
	// then, and the agent's configuration must have no `work_dir`.
	InWorkspace bool
	// Sandboxed declares that the agent's configuration has a `sandbox`: for steps that ask for one and name no domains.
	Sandboxed bool
	// Log gets what Wave's types have no place for; nil is package log.
	Log func(line string)
}

// NewTrunklineAdapter runs steps on an agent: an id of trunkline.json, or the name of a built-in adapter. Its sessions may set
// options that can run programs: Wave is trusted as its user is.
func NewTrunklineAdapter(agent string) *TrunklineAdapter {
	return &TrunklineAdapter{Command: []string{"trunkline", "serve", "--agent", agent,
		"--session-may", "cwd,env,allowed_tools,allowed_domains,skills"}}
}

// Run runs a step to its end. A step that failed has a result with its FailureReason and no error. A step that was cancelled, ran
// out of time, lost its host or failed before the agent did anything has an error as well; one that cannot start has only an error.
func (a *TrunklineAdapter) Run(ctx context.Context, cfg AdapterRunConfig) (*AdapterResult, error) {
	step := &runningStep{log: a.Log, tools: map[string]string{}}
	if step.log == nil {
		step.log = func(line string) { log.Print("trunkline: ", line) }
	}
	start, err := a.startMessage(&cfg, step)
	if err != nil {
		return nil, fmt.Errorf("trunkline cannot run the step: %w", err)
	}
	cancel := func() {}
	if cfg.Timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, cfg.Timeout)
	}
	defer cancel()
	folder := ""
	if a.InWorkspace {
		folder = cfg.WorkspacePath
	}
	if step.host, err = startHost(a.Command, folder); err != nil {
		return nil, fmt.Errorf("failed to start %s: %w", a.Command[0], err)
	}
	prompt := []string{cfg.Prompt}
	if contract := optionalField[string](cfg, "ContractPrompt"); contract != "" {
		prompt = append(prompt, contract)
	}
	// A host that has ended is noticed when it is read.
	step.host.send(start)
	step.host.send(jsonObject{"type": "user.input", "session_id": stepSession, "turn_id": stepTurn, "message_id": "prompt",
		"content": strings.Join(prompt, "\n\n")})
	err = step.follow(ctx)
	step.host.send(jsonObject{"type": "session.close", "session_id": stepSession})
	ended := step.host.close()
	if errors.Is(err, errHostEnded) {
		err = fmt.Errorf("%w (%v): %s", err, ended, &step.host.stderr)
	} else if ended != nil {
		step.warn(fmt.Sprintf("the host ended with %v: %s", ended, &step.host.stderr))
	}
	result := step.result(err)
	switch {
	case err != nil:
		err = NewStepError(result.FailureReason, err, result.TokensUsed, result.Subtype)
	case result.FailureReason == "general_error" && step.text.Len() == 0 && !step.isBetween:
		err = fmt.Errorf("the agent did nothing: %s", step.end.Error.Message) // Wave would go on to the contract
	}
	return result, err
}

var errHostEnded = errors.New("the host ended before the turn did")

// follow takes messages of the host until the turn has ended or the step cannot wait for it any longer: ProcessGrace after the
// stop the session is closed, and StdoutDrain later what it still reports is left.
func (s *runningStep) follow(ctx context.Context) error {
	cancelled := ctx.Done()
	var graceEnds, drainEnds <-chan time.Time
	for {
		select {
		case m, open := <-s.host.messages:
			if !open {
				return errors.Join(ctx.Err(), errHostEnded)
			}
			if s.take(m) {
				if s.end.Status == "completed" {
					return nil // although it was cancelled meanwhile
				}
				return ctx.Err()
			}
		case <-cancelled:
			reason := "user"
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				reason = "timeout"
			}
			s.host.send(jsonObject{"type": "stop", "session_id": stepSession, "turn_id": stepTurn, "reason": reason})
			cancelled, graceEnds = nil, time.After(s.durationOr("ProcessGrace", 3*time.Second))
		case <-graceEnds:
			s.warn("the turn did not stop in time: its session is closed")
			s.host.send(jsonObject{"type": "session.close", "session_id": stepSession})
			drainEnds = time.After(s.durationOr("StdoutDrain", time.Second))
		case <-drainEnds:
			return ctx.Err()
		}
	}
}

func (s *runningStep) durationOr(name string, otherwise time.Duration) time.Duration {
	if value := optionalField[time.Duration](s.cfg, name); value > 0 {
		return value
	}
	return otherwise
}
