package wave

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"
)

const session, turn = "step", "turn"

// Runner runs each step in a session of a host of its own.
type Runner struct {
	// Command starts the host. Its sessions may set `cwd` and what else steps ask for. Empty: Serve().
	Command []string
	// Agents are the ids of agents by Wave's names of adapters. A name that is not here is an id itself.
	Agents map[string]string
	// InWorkspace starts the host in the workspace, for agents that do not know `cwd`: paths in Command are absolute then, and the
	// agents' configuration has no `work_dir`.
	InWorkspace bool
	// Sandboxed says that the agents have a `sandbox` in their configuration.
	Sandboxed bool
	// Grace is how long a turn may take to stop; unset: 3 s. Then its session is closed, and its processes end.
	Grace time.Duration
	// Log gets what has no place in Wave's types; unset: package log.
	Log func(line string)
}

// Serve is the command of a host: `trunkline serve` with these arguments, such as "--config", "trunkline.json". What it lets a step
// set can run programs: Wave is trusted as the operator is.
func Serve(arguments ...string) []string {
	return append([]string{"trunkline", "serve", "--session-may", "cwd,env,allowed_tools,allowed_domains,skills"}, arguments...)
}

// Run runs a step to its end. A step that fails has a result with its FailureReason and no error. A step that is out of time, is
// cancelled, or loses its host has an error as well; one that cannot be carried has an error alone.
func (r *Runner) Run(ctx context.Context, cfg AdapterRunConfig) (*AdapterResult, error) {
	start, asked, err := r.start(cfg)
	if err != nil {
		return nil, fmt.Errorf("trunkline does not take the step: %w", err)
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 10 * time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	command := r.Command
	if len(command) == 0 {
		command = Serve()
	}
	folder := map[bool]string{true: cfg.WorkspacePath}[r.InWorkspace]
	host, err := open(command, folder)
	if err != nil {
		return nil, fmt.Errorf("the host could not be started: %w", err)
	}
	step := &step{cfg: cfg, host: host, log: r.say, asked: asked, tools: map[string]string{}, unknown: map[string]int{}}
	if names := unsaid(cfg); len(names) > 0 {
		step.warn("no host has a place for " + strings.Join(names, ", "))
	}
	prompt := cfg.Prompt
	if cfg.ContractPrompt != "" {
		prompt += "\n\n" + cfg.ContractPrompt
	}
	host.send(start) // one that has gone is seen where it is read
	host.send(fields{"type": "user.input", "session_id": session, "turn_id": turn, "message_id": "prompt", "content": prompt})
	err = r.follow(ctx, step)
	host.send(fields{"type": "session.close", "session_id": session})
	if left := host.close(); left != nil && !errors.Is(err, errEnded) {
		step.warn(fmt.Sprintf("the host ended with %v: %s", left, &host.words))
	} else if errors.Is(err, errEnded) {
		err = fmt.Errorf("%w, with %v: %s", err, left, &host.words)
	}
	return step.result(err), err
}

var errEnded = errors.New("the host ended before the turn did")

// follow takes what the host says until the turn has ended, or cannot be waited for.
func (r *Runner) follow(ctx context.Context, step *step) error {
	grace := r.Grace
	if grace == 0 {
		grace = 3 * time.Second
	}
	late, stopped := (<-chan time.Time)(nil), ctx.Done()
	for {
		select {
		case m, more := <-step.host.lines:
			if !more {
				return errors.Join(ctx.Err(), errEnded)
			}
			if ended := step.take(m); ended && step.end.Status == "completed" {
				return nil // whatever was said meanwhile
			} else if ended {
				return ctx.Err()
			}
		case <-stopped:
			reason := "user"
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				reason = "timeout"
			}
			step.host.send(fields{"type": "stop", "session_id": session, "turn_id": turn, "reason": reason})
			late, stopped = time.After(grace), nil
		case <-late:
			step.warn("the turn did not stop in time: its session is closed")
			return ctx.Err()
		}
	}
}

func (r *Runner) say(line string) {
	if r.Log != nil {
		r.Log(line)
	} else {
		log.Print("trunkline: ", line)
	}
}
