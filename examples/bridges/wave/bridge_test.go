package adapter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"trunkline"
)

var options = strings.Fields("cwd model temperature system_prompt allowed_tools denied_tools allowed_domains env skills")

// TestMain is the agent as well, so that the host below each test starts a real process.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "agent" {
		honours := map[string][]string{"full": options, "plain": {"cwd", "model"}}[os.Args[2]]
		trunkline.Serve(trunkline.Adapter{Name: "fixture", Turn: answer, Honours: honours})
	}
	os.Exit(m.Run())
}

func answer(ctx context.Context, t *trunkline.Turn) error {
	word, rest, _ := strings.Cut(t.Text, " ")
	switch word {
	case "options":
		given := trunkline.Fields{}
		for _, name := range append([]string{"role"}, options...) {
			var value any
			if t.Session.Option(name, &value) {
				given[name] = value
			}
		}
		line, _ := json.Marshal(given)
		t.Output(string(line))
	case "work":
		t.Send("thinking", trunkline.Fields{"content": "so"})
		t.Output("first ")
		t.Send("usage", trunkline.Fields{"input_tokens": 100, "cache_read_tokens": 60, "output_tokens": 5})
		id, end := t.Tool("Read", trunkline.Fields{"file_path": "/srv/notes.txt"})
		for range [3]int{} {
			t.Send("tool.update", trunkline.Fields{"tool_call_id": id, "content": "a line"})
		}
		end("3 lines", false)
		report := filepath.Join(os.TempDir(), "report.txt")
		if err := os.WriteFile(report, []byte("done"), 0o600); err != nil {
			return err
		}
		t.File(report, "text/plain")
		t.Output("second")
		t.Finish(trunkline.Fields{"artifacts": []any{"plan.md", trunkline.Fields{"path": "out/a.bin"}}, "summary": "read the notes",
			"usage": trunkline.Fields{"input_tokens": 210, "cache_read_tokens": 60, "output_tokens": 20}})
	case "warn": // as Claude's adapter does
		t.Send("error", trunkline.Fields{"message": "`temperature` is not applied: claude takes none", "fatal": false})
	case "messages": // as Claude reports what it writes before a tool, in a sub-agent, and at last
		t.Send("output", trunkline.Fields{"content": "I will look.", "message_id": "m1"})
		t.Send("output", trunkline.Fields{"content": "It ", "message_id": "m3"})
		t.Send("output", trunkline.Fields{"content": "is so.", "message_id": "m3"})
		_, end := t.Tool("Read", trunkline.Fields{})
		end("no text of its own follows", false)
		t.Send("output", trunkline.Fields{"content": "Inside.", "message_id": "m2", "parent_tool_call_id": "c"})
	case "data":
		t.Output("as data:")
		t.Finish(trunkline.Fields{"result": trunkline.Fields{"ok": true}})
	case "ask":
		tool, resource, _ := strings.Cut(rest, " ")
		t.Output(fmt.Sprint(t.Permission(tool, "Do it", resource)))
	case "wait":
		t.Output("waiting")
		<-ctx.Done()
		return ctx.Err()
	case "hang": // ignores the stop; its library ends the turn 2 s later
		t.Output("waiting")
		select {}
	case "fail":
		t.Output("half an ")
		category, text, _ := strings.Cut(rest, " ")
		return trunkline.Failure{Category: category, Message: text}
	case "refuse": // as Claude does without the programs of its sandbox
		return trunkline.Failure{Category: "other", Message: "no socat"}
	case "where":
		folder, err := os.Getwd()
		t.Output(folder)
		return err
	case "die":
		fmt.Fprintln(os.Stderr, "last words")
		os.Exit(3)
	default:
		t.Output(t.Text)
	}
	return nil
}

// bench runs steps on a real host with an agent that honours all options (`full`), two (`plain`) or none (`none`).
type bench struct {
	TrunklineAdapter
	t      *testing.T
	mark   string // in the command lines of the host and the agent
	mu     sync.Mutex
	lines  []string
	events []StreamEvent
	config AdapterRunConfig
}

func newBench(t *testing.T, kind string) *bench {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, mark: t.TempDir(), TrunklineAdapter: *NewTrunklineAdapter("none")}
	b.Command = append([]string{"trunkline", "serve", "--adapter", fmt.Sprintf("'%s' agent %s '%s'", self, kind, b.mark)}, b.Command[4:]...)
	b.Log = func(line string) { b.mu.Lock(); b.lines = append(b.lines, line); b.mu.Unlock() }
	b.config = AdapterRunConfig{WorkspacePath: t.TempDir(), Timeout: time.Minute,
		OnStreamEvent: func(event StreamEvent) { b.events = append(b.events, event) }}
	return b
}

// onText calls f at the first text of the agent.
func (b *bench) onText(f func()) {
	once := sync.OnceFunc(f)
	b.config.OnStreamEvent = func(event StreamEvent) {
		if event.Type == "text" {
			once()
		}
	}
}

func (b *bench) run(prompt string) *AdapterResult {
	b.t.Helper()
	b.config.Prompt = prompt
	result, err := b.Run(context.Background(), b.config)
	if err != nil {
		b.t.Fatalf("%v; %q", err, b.lines)
	}
	return result
}

func (b *bench) hasLogged(text string) bool {
	return slices.ContainsFunc(b.lines, func(line string) bool { return strings.Contains(line, text) })
}

func (b *bench) setField(name string, value any) bool {
	field := reflect.ValueOf(&b.config).Elem().FieldByName(name)
	if field.IsValid() {
		field.Set(reflect.ValueOf(value))
	}
	return field.IsValid()
}

func stdout(t *testing.T, result *AdapterResult) string {
	t.Helper()
	text, err := io.ReadAll(result.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func equal(t *testing.T, got, wanted any) {
	t.Helper()
	if !reflect.DeepEqual(got, wanted) {
		t.Errorf("got %#v, wanted %#v", got, wanted)
	}
}

func TestAResultHasAllThatTheTurnReported(t *testing.T) {
	b := newBench(t, "full")
	result := b.run("work")
	equal(t, stdout(t, result), "first \n\nsecond")
	equal(t, result.ResultContent, "second")
	equal(t, []int{result.ExitCode, result.TokensIn, result.TokensOut, result.TokensUsed}, []int{0, 150, 20, 170})
	equal(t, result.Artifacts, []string{"report.txt", "plan.md", "out/a.bin"})
	equal(t, []string{result.Subtype, result.FailureReason}, []string{"success", ""})
	kept, err := os.ReadFile(filepath.Join(b.config.WorkspacePath, "report.txt"))
	equal(t, string(kept), "done")
	equal(t, err, nil)
	equal(t, b.lines, []string(nil))
	// Thinking and updates of a tool are events, since Wave's stall_timeout counts events.
	equal(t, b.events, []StreamEvent{{Type: "system"}, {Type: "system", Content: "thinking"}, {Type: "text", Content: "first "},
		{Type: "tool_use", ToolName: "Read", ToolInput: "/srv/notes.txt", TokensIn: 40, TokensOut: 5},
		{Type: "tool_use", ToolName: "Read", TokensIn: 40, TokensOut: 5}, // of the updates
		{Type: "tool_result", ToolName: "Read", Content: "3 lines", TokensIn: 40, TokensOut: 5},
		{Type: "text", Content: "second", TokensIn: 40, TokensOut: 5},
		{Type: "result", Content: "second", TokensIn: 150, TokensOut: 20, Subtype: "success"}})
}

func TestTheArtifactIsTheAnswer(t *testing.T) {
	b := newBench(t, "full")
	for prompt, content := range map[string]string{
		"data":       `{"ok":true}`,
		"plain text": "plain text",
		"messages":   "It is so.",
		"Here:\n```json\n{\"done\": true}\n```\nBye.":  `{"done": true}`,
		"Here:\n```json\n{\"done\": oops}\n```":        "Here:\n```json\n{\"done\": oops}\n```",
		"``` is no block of data, ```json neither ```": "``` is no block of data, ```json neither ```",
	} {
		equal(t, b.run(prompt).ResultContent, content)
	}
}

func TestEachFieldOfAStepReachesTheAgent(t *testing.T) {
	b := newBench(t, "full")
	t.Setenv("WAVE_TEST_PASSED", "through")
	root := t.TempDir()
	before, err := os.Getwd() // Wave runs in the project, and names the workspace by a relative path
	if err == nil {
		err = os.Chdir(root)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer os.Chdir(before)
	for name, text := range map[string]string{".agents/personas/base-protocol.md": "The protocol.", ".wave/personas/coder.md": "A coder.",
		"commands/plan.md": "Plan it.", ".agents/workspaces/run/greet/x": ""} {
		os.MkdirAll(filepath.Dir(name), 0o755)
		os.WriteFile(name, []byte(text), 0o644)
	}
	b.config.WorkspacePath = ".agents/workspaces/run/greet"
	b.config.Persona, b.config.SystemPrompt, b.config.Model, b.config.Temperature = "coder", "Be brief.", "large", 0.5
	b.config.Env, b.config.EnvPassthrough = []string{"A=b=c"}, []string{"WAVE_TEST_PASSED", "WAVE_TEST_UNSET"}
	b.config.AllowedTools, b.config.DenyTools = []string{"Read", "Bash(npm audit*)"}, []string{"Bash(rm *)"}
	b.config.SandboxEnabled, b.config.SandboxBackend, b.config.AllowedDomains = true, "bubblewrap", []string{"example.org"}
	b.config.DockerImage, b.config.OutputFormat = "ubuntu:24.04", "json" // defaults of the manifest
	b.config.ResolvedSkills = []SkillRef{{Name: "review"}, {Name: "bare"}}
	skill := reflect.ValueOf(&b.config.ResolvedSkills[0]).Elem().FieldByName("SourcePath")
	b.config.SkillCommandsDir, b.config.MaxConcurrentAgents = "commands", 3
	ontology := ""
	if b.setField("OntologySection", "The domain.") {
		ontology = "The domain.\n\n---\n\n"
	}
	given := func() (fields map[string]any) {
		if err := json.Unmarshal([]byte(b.run("options").ResultContent), &fields); err != nil {
			t.Fatal(err)
		}
		return fields
	}
	list := func(all ...any) []any { return all }
	wanted := map[string]any{"role": "coder", "cwd": filepath.Join(root, b.config.WorkspacePath), "model": "large", "temperature": 0.5,
		"system_prompt": "The protocol.\n\n---\n\n" + ontology + "Be brief.\n\n---\n\nAt most 3 sub-agents may run at once.",
		"allowed_tools": list("Read", "Bash(npm audit*)"), "denied_tools": list("Bash(rm *)"),
		"allowed_domains": list("example.org"), "env": map[string]any{"A": "b=c", "WAVE_TEST_PASSED": "through"}}
	if skill.IsValid() {
		skill.SetString("skills/review")
		wanted["skills"] = list(filepath.Join(root, "skills/review"))
	}
	equal(t, given(), wanted)
	equal(t, b.hasLogged("the skill bare has no folder and is left out"), true)
	equal(t, b.hasLogged("honour") || b.hasLogged("Docker"), false)
	command, _ := os.ReadFile(filepath.Join(b.config.WorkspacePath, ".claude/commands/plan.md"))
	equal(t, string(command), "Plan it.")
	// `*` is no restriction; a persona without a prompt has its file.
	b.config.AllowedTools, b.config.SystemPrompt, b.config.MaxConcurrentAgents = []string{"*"}, "", 1
	delete(wanted, "allowed_tools")
	wanted["system_prompt"] = "The protocol.\n\n---\n\n" + ontology + "A coder."
	equal(t, given(), wanted)
	if b.setField("ContractPrompt", "Answer in JSON.") {
		equal(t, b.run("say it").ResultContent, "say it\n\nAnswer in JSON.")
	}
}

func TestWhatCannotBeCarriedIsRefused(t *testing.T) {
	for text, change := range map[string]func(*AdapterRunConfig){
		"no workspace":     func(c *AdapterRunConfig) { c.WorkspacePath = "" },
		"not KEY=VALUE":    func(c *AdapterRunConfig) { c.Env = []string{"secret"} },
		"docker":           func(c *AdapterRunConfig) { c.SandboxBackend, c.AllowedDomains = "docker", []string{"a.org"} },
		"then set Sandbox": func(c *AdapterRunConfig) { c.SandboxEnabled = true },
	} {
		b := newBench(t, "full")
		change(&b.config)
		result, err := b.Run(context.Background(), b.config)
		if result != nil || err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, %v", text, result, err)
		}
	}
	b := newBench(t, "full")
	b.Sandboxed, b.config.SandboxBackend = true, "docker"
	equal(t, b.run("hello").ResultContent, "hello")
	// A restriction that the agent does not honour fails the step before the agent has seen it; a wish is logged.
	b = newBench(t, "plain")
	b.config.Temperature = 0.5
	equal(t, b.run("hello").ResultContent, "hello")
	equal(t, b.hasLogged("does not honour temperature"), true)
	b.lines = nil
	b.run("warn")
	equal(t, b.lines, []string{"`temperature` is not applied: claude takes none"})
	for option, change := range map[string]func(*AdapterRunConfig){
		"allowed_tools":   func(c *AdapterRunConfig) { c.AllowedTools = []string{"Read", "Bash(npm audit*)"} },
		"denied_tools":    func(c *AdapterRunConfig) { c.DenyTools = []string{"Bash"} },
		"allowed_domains": func(c *AdapterRunConfig) { c.SandboxEnabled, c.AllowedDomains = true, []string{"a.org"} },
	} {
		b := newBench(t, "plain")
		change(&b.config)
		b.config.Prompt = "hello"
		result, err := b.Run(context.Background(), b.config)
		if err == nil || !strings.Contains(err.Error(), "does not enforce "+option) || stdout(t, result) != "" {
			t.Errorf("%s: %v, %v", option, result, err)
		}
	}
}

func TestAnAgentThatKnowsNoFolderWorksInTheWorkspaceAllTheSame(t *testing.T) {
	b := newBench(t, "none")
	_, err := b.Run(context.Background(), b.config)
	equal(t, err != nil && strings.Contains(err.Error(), "does not enforce cwd"), true)
	b.InWorkspace = true
	equal(t, b.run("where").ResultContent, b.config.WorkspacePath)
}

func TestPermissionsAreAnsweredByTheListsAndOtherwiseDenied(t *testing.T) {
	for _, test := range []struct {
		allowed, denied string
		action          string
		isJudged        bool // by the agent, which honours allowed_tools
		isApproved      bool
	}{
		{"", "", "Read /srv/a", true, false},
		{"Read", "", "Read /srv/a", false, true},
		{"Read", "", "Write /srv/a", true, false},
		{"*", "Write", "Write /srv/a", true, false},
		{"*", "", "Read ", true, false},
		{"Bash(git log*)", "", "Bash git log --oneline", false, true},
		{"Bash(git log*)", "", "Bash git log; rm -r x", false, false},
		{"Bash(git log*)", "", "Bash git push", false, false},
		{"Bash(npm run:*)", "", "Bash npm run test", true, true},
		{"Bash(npm run:*)", "Bash(npm run d*)", "Bash npm run deploy", true, false},
		{"Bash(npm run:*)", "", "Read /srv/a", true, false},
		{"Bash(npm run:*)", "", "Bash ", true, false},
		{"mcp__files", "", "mcp__files__read a", true, true},
		{"Write(specs/**)", "", "Write WS/specs/a/b.md", false, true},
		{"Write(specs/**)", "", "Write WS/specs/../main.go", false, false},
		{"Write(specs/*)", "", "Write specs/a/b.md", false, false},
		{"Bash", "Bash(rm *)", "Bash rm -r /", true, false},
		{"Bash", "Bash([)", "Bash [", false, false},
	} {
		rules := func(list string) []string {
			return slices.DeleteFunc([]string{list}, func(rule string) bool { return rule == "" })
		}
		step := &runningStep{cfg: AdapterRunConfig{WorkspacePath: "/ws", AllowedTools: rules(test.allowed), DenyTools: rules(test.denied)}}
		if !test.isJudged {
			step.unapplied = []string{"allowed_tools"}
		}
		tool, resource, _ := strings.Cut(strings.Replace(test.action, "WS", "/ws", 1), " ")
		if step.approves(tool, resource) != test.isApproved {
			t.Errorf("%+v", test)
		}
	}
	b := newBench(t, "full")
	b.config.AllowedTools = []string{"Bash(ls*)"}
	equal(t, b.run("ask Bash ls").ResultContent, "true")
	equal(t, b.run("ask Write x").ResultContent, "false")
	equal(t, b.hasLogged("denied: Write(x)"), true)
}

func TestFailuresHaveTheirReason(t *testing.T) {
	b := newBench(t, "full")
	for prompt, wanted := range map[string][]any{
		"fail context_exhausted it is full": {"context_exhaustion", "error_context_exhausted", 1, ""},
		"fail max_turns no more":            {"context_exhaustion", "error_max_turns", 1, ""},
		"fail timeout too slow":             {"timeout", "error_timeout", 124, ""},
		// This reason starts Wave's fallbacks; the content becomes the message of the failed step.
		"fail rate_limit later":    {"rate_limit", "error_rate_limit", 1, "later"},
		"fail usage_limit all out": {"rate_limit", "error_usage_limit", 1, "all out"},
		// Wave writes the content to the artifact, so it is neither an error nor half an answer.
		"fail other oops":    {"general_error", "error_during_execution", 1, ""},
		"fail auth no login": {"general_error", "error_auth", 1, ""},
	} {
		result := b.run(prompt)
		equal(t, []any{result.FailureReason, result.Subtype, result.ExitCode, result.ResultContent}, wanted)
		equal(t, stdout(t, result), "half an ")
	}
	equal(t, b.hasLogged("auth: no login"), true)
	// Wave would take such a step for completed.
	for prompt, text := range map[string]string{"refuse": "no socat", "die": "last words"} {
		b.config.Prompt = prompt
		result, err := b.Run(context.Background(), b.config)
		equal(t, err != nil && strings.Contains(err.Error(), "did nothing") && strings.Contains(err.Error(), text), true)
		equal(t, result.ExitCode, map[string]int{"refuse": 1, "die": 3}[prompt])
	}
}

// processes are the ids of the host and of what it started, if their command line has the word.
func (b *bench) processes(word string) (found []int) {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		b.t.Fatal(err)
	}
	for _, path := range all {
		line, _ := os.ReadFile(path) // it may have ended
		if strings.Contains(string(line), b.mark) && strings.Contains(string(line), word) {
			var id int
			fmt.Sscanf(path, "/proc/%d/", &id)
			found = append(found, id)
		}
	}
	return found
}

// manualDeadline passes when a test closes its channel, so that no slow machine passes it too early.
type manualDeadline struct {
	context.Context
	passed chan struct{}
}

func (d manualDeadline) Done() <-chan struct{} { return d.passed }

func (d manualDeadline) Err() error {
	select {
	case <-d.passed:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func TestAStepOutOfTimeIsStoppedAndItsProcessesEnd(t *testing.T) {
	for prompt, grace := range map[string]time.Duration{"wait": time.Minute, "hang": 50 * time.Millisecond} {
		b, ctx := newBench(t, "full"), manualDeadline{context.Background(), make(chan struct{})}
		if hasGrace := b.setField("ProcessGrace", grace); prompt == "hang" && !hasGrace {
			continue // its 2 s are less than the grace of 3 s
		}
		b.setField("StdoutDrain", 50*time.Millisecond)
		b.config.Prompt, b.config.Timeout = prompt, 0 // which is none
		b.onText(func() { close(ctx.passed) })
		result, err := b.Run(ctx, b.config)
		var stepError *StepError
		if result == nil || !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &stepError) {
			t.Fatalf("%s: %v, %v, %q", prompt, result, err, b.lines)
		}
		equal(t, []any{stepError.FailureReason, stepError.Subtype, stepError.TokensUsed}, []any{"timeout", "error_timeout", 1})
		equal(t, []any{result.FailureReason, result.Subtype, result.ExitCode}, []any{"timeout", "error_timeout", 124})
		equal(t, b.hasLogged("did not stop in time"), prompt == "hang")
		equal(t, b.processes(""), []int(nil))
	}
	b := newBench(t, "full")
	b.config.Prompt, b.config.Timeout = "wait", 300*time.Millisecond // at whatever it does by then
	if result, err := b.Run(context.Background(), b.config); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v, %v", result, err)
	}
	equal(t, b.processes(""), []int(nil))
}

func TestACancelledStepIsStopped(t *testing.T) {
	b := newBench(t, "full")
	ctx, cancel := context.WithCancel(context.Background())
	b.config.Prompt = "wait"
	b.onText(func() {
		equal(t, len(b.processes("serve")), 1) // so the look-up finds what is alive
		cancel()
	})
	result, err := b.Run(ctx, b.config)
	if result == nil || !errors.Is(err, context.Canceled) {
		t.Fatalf("%v, %v", result, err)
	}
	equal(t, result.FailureReason, "general_error")
	equal(t, b.processes(""), []int(nil))
}

func TestAHostThatEndsIsAnError(t *testing.T) {
	b := newBench(t, "full")
	b.Command = []string{"sh", "-c", "echo its last words >&2; exit 7"}
	result, err := b.Run(context.Background(), b.config)
	if err == nil || !strings.Contains(err.Error(), "its last words") || result == nil || result.ExitCode != -1 {
		t.Fatalf("%v, %v", result, err)
	}
	b.Command = []string{"/no/such/host"}
	if result, err = b.Run(context.Background(), b.config); err == nil || result != nil {
		t.Fatalf("%v, %v", result, err)
	}
	b = newBench(t, "full")
	b.config.Prompt = "wait"
	b.onText(func() { syscall.Kill(b.processes("serve")[0], syscall.SIGKILL) })
	if result, err = b.Run(context.Background(), b.config); err == nil || result == nil {
		t.Fatalf("%v, %v", result, err)
	}
	equal(t, result.FailureReason, "general_error")
}
