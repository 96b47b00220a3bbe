package wave

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
		honours := map[string][]string{"full": options, "plain": {"cwd"}}[os.Args[2]]
		trunkline.Serve(trunkline.Adapter{Name: "fixture", Turn: answer, Honours: honours})
	}
	os.Exit(m.Run())
}

func answer(ctx context.Context, t *trunkline.Turn) error {
	word, rest, _ := strings.Cut(t.Text, " ")
	switch word {
	case "options":
		told := trunkline.Fields{}
		for _, name := range append([]string{"role"}, options...) {
			var value any
			if t.Session.Option(name, &value) {
				told[name] = value
			}
		}
		line, _ := json.Marshal(told)
		t.Output(string(line))
	case "work":
		t.Send("thinking", trunkline.Fields{"content": "so"})
		t.Output("first ")
		t.Send("usage", trunkline.Fields{"input_tokens": 100, "cache_read_tokens": 60, "output_tokens": 5})
		_, end := t.Tool("Read", trunkline.Fields{"file_path": "/srv/notes.txt"})
		end("3 lines", false)
		report := filepath.Join(os.TempDir(), "report.txt")
		if err := os.WriteFile(report, []byte("done"), 0o600); err != nil {
			return err
		}
		t.File(report, "text/plain")
		t.Output("second")
		t.Finish(trunkline.Fields{"artifacts": []any{"plan.md", trunkline.Fields{"path": "out/a.bin"}}, "summary": "read the notes",
			"usage": trunkline.Fields{"input_tokens": 210, "cache_read_tokens": 60, "output_tokens": 20}})
	case "ask":
		tool, resource, _ := strings.Cut(rest, " ")
		t.Output(fmt.Sprint(t.Permission(tool, "Do it", resource)))
	case "wait":
		t.Output("waiting")
		<-ctx.Done()
		return ctx.Err()
	case "hang": // heeds nothing, and its library ends the turn 2 s later
		t.Output("waiting")
		select {}
	case "fail":
		category, words, _ := strings.Cut(rest, " ")
		return trunkline.Failure{Category: category, Message: words}
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

type bench struct {
	Runner
	t      *testing.T
	mark   string // in the command lines of the host and the agent
	mu     sync.Mutex
	lines  []string
	events []StreamEvent
	config AdapterRunConfig
}

func on(t *testing.T, kind string) *bench {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, mark: t.TempDir()}
	b.Command = Serve("--adapter", fmt.Sprintf("'%s' agent %s '%s'", self, kind, b.mark))
	b.Log = func(line string) { b.mu.Lock(); b.lines = append(b.lines, line); b.mu.Unlock() }
	b.config = AdapterRunConfig{WorkspacePath: t.TempDir(), Timeout: time.Minute,
		OnStreamEvent: func(event StreamEvent) { b.events = append(b.events, event) }}
	return b
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

func (b *bench) said(text string) bool {
	return slices.ContainsFunc(b.lines, func(line string) bool { return strings.Contains(line, text) })
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

func TestAResultHasAllThatTheTurnSaid(t *testing.T) {
	b := on(t, "full")
	result := b.run("work")
	equal(t, stdout(t, result), "first second")
	equal(t, result.ResultContent, "first second")
	equal(t, []int{result.ExitCode, result.TokensIn, result.TokensOut, result.TokensUsed}, []int{0, 150, 20, 170})
	equal(t, result.Artifacts, []string{"report.txt", "plan.md", "out/a.bin"})
	equal(t, []string{result.Subtype, result.FailureReason}, []string{"success", ""})
	kept, err := os.ReadFile(filepath.Join(b.config.WorkspacePath, "report.txt"))
	equal(t, string(kept), "done")
	equal(t, err, nil)
	equal(t, b.said("thinking ×1"), true)
	// A message of the library's own, about the session, may stand anywhere.
	wanted := []StreamEvent{{Type: "system"}, {Type: "text", Content: "first "},
		{Type: "tool_use", ToolName: "Read", ToolInput: "/srv/notes.txt", TokensIn: 40, TokensOut: 5},
		{Type: "tool_result", ToolName: "Read", Content: "3 lines", TokensIn: 40, TokensOut: 5},
		{Type: "text", Content: "second", TokensIn: 40, TokensOut: 5},
		{Type: "system", Content: "no place in Wave for thinking ×1", TokensIn: 150, TokensOut: 20},
		{Type: "result", Content: "read the notes", TokensIn: 150, TokensOut: 20, Subtype: "success"}}
	equal(t, b.events, wanted)
}

func TestEachFieldOfAStepReachesTheAgent(t *testing.T) {
	b := on(t, "full")
	t.Setenv("WAVE_TEST_PASSED", "through")
	b.config.Persona, b.config.SystemPrompt, b.config.Model, b.config.Temperature = "coder", "Be brief.", "large", 0.5
	b.config.Env, b.config.EnvPassthrough = []string{"A=b=c"}, []string{"WAVE_TEST_PASSED", "WAVE_TEST_UNSET"}
	b.config.AllowedTools, b.config.DenyTools = []string{"Read"}, []string{"Bash(rm *)"}
	b.config.AllowedDomains = []string{"example.org"}
	b.config.ResolvedSkills = []SkillRef{{"review", "/srv/skills/review"}}
	var told map[string]any
	if err := json.Unmarshal([]byte(b.run("options").ResultContent), &told); err != nil {
		t.Fatal(err)
	}
	list := func(all ...any) []any { return all }
	equal(t, told, map[string]any{"role": "coder", "cwd": b.config.WorkspacePath, "model": "large", "temperature": 0.5,
		"system_prompt": "Be brief.", "allowed_tools": list("Read"), "denied_tools": list("Bash(rm *)"),
		"allowed_domains": list("example.org"), "skills": list("/srv/skills/review"),
		"env": map[string]any{"A": "b=c", "WAVE_TEST_PASSED": "through"}})
	equal(t, b.said("does not say that it honours"), false)
	b.config.ContractPrompt = "Answer in JSON."
	equal(t, b.run("say it").ResultContent, "say it\n\nAnswer in JSON.")
}

func TestWhatIsNotCarriedIsRefusedOrLogged(t *testing.T) {
	for name, change := range map[string]func(*AdapterRunConfig){
		"no absolute path": func(c *AdapterRunConfig) { c.WorkspacePath = "here" },
		"no KEY=VALUE":     func(c *AdapterRunConfig) { c.Env = []string{"secret"} },
		"\"docker\"":       func(c *AdapterRunConfig) { c.SandboxBackend = "docker" },
		"have none":        func(c *AdapterRunConfig) { c.SandboxEnabled = true },
		"has no folder":    func(c *AdapterRunConfig) { c.ResolvedSkills = []SkillRef{{Name: "x"}} },
	} {
		b := on(t, "full")
		change(&b.config)
		result, err := b.Run(context.Background(), b.config)
		if result != nil || err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, %v", name, result, err)
		}
	}
	b := on(t, "plain")
	b.config.Model, b.config.OutputFormat, b.config.MaxConcurrentAgents = "large", "xml", 4
	equal(t, b.run("hello").ResultContent, "hello")
	equal(t, b.said("does not say that it honours model"), true)
	equal(t, b.said("MaxConcurrentAgents") && b.said("OutputFormat"), true)
	// A restriction that the agent does not know is not run without.
	b.config.DenyTools = []string{"Bash"}
	result := b.run("hello")
	equal(t, []any{result.FailureReason, result.ExitCode, stdout(t, result)}, []any{"general_error", 1, ""})
	equal(t, b.said("does not enforce denied_tools"), true)
}

func TestAnAgentThatKnowsNoFolderWorksInTheWorkspaceAllTheSame(t *testing.T) {
	b := on(t, "none")
	equal(t, b.run("where").Subtype, "error_protocol") // the host refuses to run it elsewhere
	b.InWorkspace = true
	equal(t, b.run("where").ResultContent, b.config.WorkspacePath)
}

func TestPermissionsAreAnsweredByTheListsAndDeniedElse(t *testing.T) {
	for _, test := range []struct {
		allowed, denied string
		action          string
		yes             bool
	}{
		{"", "", "Read /srv/a", false},
		{"Read", "", "Read /srv/a", true},
		{"Read", "", "Write /srv/a", false},
		{"*", "Write", "Write /srv/a", false},
		{"*", "", "Read ", false},
		{"Bash(git log*)", "", "Bash git log --oneline", true},
		{"Bash(git log*)", "", "Bash git log; rm -r x", false},
		{"Bash(git log*)", "", "Bash git push", false},
		{"Write(specs/**)", "", "Write WS/specs/a/b.md", true},
		{"Write(specs/**)", "", "Write WS/specs/../main.go", false},
		{"Write(specs/*)", "", "Write specs/a/b.md", false},
		{"Bash", "Bash(rm *)", "Bash rm -r /", false},
		{"Bash", "Bash([)", "Bash [", false},
	} {
		b := on(t, "full")
		rules := func(list string) []string {
			return slices.DeleteFunc([]string{list}, func(rule string) bool { return rule == "" })
		}
		b.config.AllowedTools, b.config.DenyTools = rules(test.allowed), rules(test.denied)
		tool, resource, _ := strings.Cut(strings.Replace(test.action, "WS", b.config.WorkspacePath, 1), " ")
		equal(t, b.config.approves(tool, resource), test.yes)
	}
	b := on(t, "full")
	b.config.AllowedTools = []string{"Bash(ls*)"}
	equal(t, b.run("ask Bash ls").ResultContent, "true")
	equal(t, b.run("ask Bash rm").ResultContent, "false")
	equal(t, b.said("denied: Bash(rm)"), true)
}

func TestFailuresHaveTheirReason(t *testing.T) {
	b := on(t, "full")
	for said, wanted := range map[string][]any{
		"fail context_exhausted it is full": {"context_exhaustion", "error_context_exhausted", 1, "it is full"},
		"fail max_turns no more":            {"context_exhaustion", "error_max_turns", 1, "no more"},
		"fail timeout too slow":             {"timeout", "error_timeout", 124, "too slow"},
		"fail rate_limit later":             {"general_error", "error_rate_limit", 1, "later"},
		"fail other oops":                   {"general_error", "error_during_execution", 1, "oops"},
	} {
		result := b.run(said)
		equal(t, []any{result.FailureReason, result.Subtype, result.ExitCode, result.ResultContent}, wanted)
	}
	result := b.run("die")
	equal(t, []any{result.FailureReason, result.Subtype, result.ExitCode}, []any{"general_error", "error_process_exit", 3})
}

// processes are those below a host, and it; a number, which a command line with the word has.
func (b *bench) processes(word string) (found []int) {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		b.t.Fatal(err)
	}
	for _, path := range all {
		line, _ := os.ReadFile(path) // it may have ended
		if strings.Contains(string(line), b.mark) && strings.Contains(string(line), word) {
			var number int
			fmt.Sscanf(path, "/proc/%d/", &number)
			found = append(found, number)
		}
	}
	return found
}

// due is out of time when a test says so: a deadline that no slow machine meets too early.
type due struct {
	context.Context
	passed chan struct{}
}

func (d due) Done() <-chan struct{} { return d.passed }

func (d due) Err() error {
	select {
	case <-d.passed:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func TestAStepOutOfTimeIsStoppedAndItsProcessesEnd(t *testing.T) {
	for prompt, grace := range map[string]time.Duration{"wait": time.Minute, "hang": 50 * time.Millisecond} {
		b, ctx := on(t, "full"), due{context.Background(), make(chan struct{})}
		b.config.Prompt, b.Grace = prompt, grace
		b.config.OnStreamEvent = func(event StreamEvent) {
			if event.Type == "text" {
				close(ctx.passed)
			}
		}
		result, err := b.Run(ctx, b.config)
		if result == nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%s: %v, %v, %q", prompt, result, err, b.lines)
		}
		equal(t, []any{result.FailureReason, result.Subtype, result.ExitCode}, []any{"timeout", "error_timeout", 124})
		equal(t, b.said("did not stop in time"), prompt == "hang")
		equal(t, b.processes(""), []int(nil))
	}
	b := on(t, "full")
	b.config.Prompt, b.config.Timeout = "wait", 300*time.Millisecond // wherever it is by then
	if result, err := b.Run(context.Background(), b.config); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v, %v", result, err)
	}
	equal(t, b.processes(""), []int(nil))
}

func TestACancelledStepIsStopped(t *testing.T) {
	b := on(t, "full")
	ctx, cancel := context.WithCancel(context.Background())
	b.config.Prompt = "wait"
	b.config.OnStreamEvent = func(event StreamEvent) {
		if event.Type == "text" {
			equal(t, len(b.processes("serve")), 1) // so the look-up finds what there is
			cancel()
		}
	}
	result, err := b.Run(ctx, b.config)
	if result == nil || !errors.Is(err, context.Canceled) {
		t.Fatalf("%v, %v", result, err)
	}
	equal(t, result.FailureReason, "general_error")
	equal(t, b.processes(""), []int(nil))
}

func TestAHostThatEndsIsAnError(t *testing.T) {
	b := on(t, "full")
	b.Command = []string{"sh", "-c", "echo its last words >&2; exit 7"}
	result, err := b.Run(context.Background(), b.config)
	if err == nil || !strings.Contains(err.Error(), "its last words") || result == nil || result.ExitCode != -1 {
		t.Fatalf("%v, %v", result, err)
	}
	b.Command = []string{"/no/such/host"}
	if result, err = b.Run(context.Background(), b.config); err == nil || result != nil {
		t.Fatalf("%v, %v", result, err)
	}
	b = on(t, "full") // one that is killed
	b.config.Prompt = "wait"
	b.config.OnStreamEvent = func(event StreamEvent) {
		if event.Type == "text" {
			syscall.Kill(b.processes("serve")[0], syscall.SIGKILL)
		}
	}
	if result, err = b.Run(context.Background(), b.config); err == nil || result == nil {
		t.Fatalf("%v, %v", result, err)
	}
	equal(t, result.FailureReason, "general_error")
}
