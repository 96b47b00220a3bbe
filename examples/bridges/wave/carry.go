package wave

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// start is the `session.start` of a step, and the options that an agent has to know. What the host cannot be told is an error.
func (r *Runner) start(cfg AdapterRunConfig) (start fields, asked []string, err error) {
	switch {
	case !filepath.IsAbs(cfg.WorkspacePath):
		return nil, nil, fmt.Errorf("the workspace %q is no absolute path", cfg.WorkspacePath)
	case !slices.Contains([]string{"", "none", "bubblewrap"}, cfg.SandboxBackend):
		return nil, nil, fmt.Errorf("the sandbox %q is not for a step to choose: agents have that of their configuration", cfg.SandboxBackend)
	case !r.Sandboxed && (cfg.SandboxEnabled || cfg.SandboxBackend == "bubblewrap"):
		return nil, nil, fmt.Errorf("a sandbox is asked for, and the agents have none: set `sandbox` in their configuration, then Sandboxed")
	}
	env := fields{}
	for _, name := range cfg.EnvPassthrough {
		if value := os.Getenv(name); value != "" {
			env[name] = value
		}
	}
	for _, pair := range cfg.Env {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, nil, fmt.Errorf("an element of Env is no KEY=VALUE")
		}
		env[name] = value
	}
	skills := []string{}
	for _, skill := range cfg.ResolvedSkills {
		if skill.SourcePath == "" {
			return nil, nil, fmt.Errorf("the skill %q has no folder", skill.Name)
		}
		skills = append(skills, skill.SourcePath)
	}
	start = fields{}
	if !r.InWorkspace {
		start["cwd"] = cfg.WorkspacePath
	}
	for name, value := range (fields{"model": cfg.Model, "system_prompt": cfg.SystemPrompt, "temperature": cfg.Temperature,
		"allowed_tools": cfg.AllowedTools, "denied_tools": cfg.DenyTools, "allowed_domains": cfg.AllowedDomains,
		"env": env, "skills": skills}) {
		if text := fmt.Sprint(value); text != "" && text != "0" && text != "[]" && text != "map[]" {
			start[name] = value
		}
	}
	for name := range start {
		asked = append(asked, name)
	}
	slices.Sort(asked)
	agent := cfg.Adapter
	if id, ok := r.Agents[agent]; ok {
		agent = id
	}
	for name, value := range map[string]string{"agent_id": agent, "role": cfg.Persona} {
		if value != "" {
			start[name] = value
		}
	}
	start["type"], start["session_id"], start["protocol"], start["max_line"] = "session.start", session, 1, longest
	start["extensions"] = []string{"turns", "events", "usage", "options"}
	return start, asked, nil
}

// unsaid names what a step asks for and no host has a place for.
func unsaid(cfg AdapterRunConfig) (names []string) {
	for name, is := range map[string]bool{
		"OutputFormat":        cfg.OutputFormat != "" && cfg.OutputFormat != "json" && cfg.OutputFormat != "text",
		"DockerImage":         cfg.DockerImage != "",
		"SkillCommandsDir":    cfg.SkillCommandsDir != "",
		"MaxConcurrentAgents": cfg.MaxConcurrentAgents > 1,
	} {
		if is {
			names = append(names, name)
		}
	}
	return names
}

// approves is the answer to a permission: what DenyTools names is denied, what AllowedTools names is approved, and all else is
// denied.
func (cfg AdapterRunConfig) approves(tool, resource string) bool {
	for _, rule := range cfg.DenyTools {
		if matches(rule, tool, resource, cfg.WorkspacePath, false) {
			return false
		}
	}
	for _, rule := range cfg.AllowedTools {
		if matches(rule, tool, resource, cfg.WorkspacePath, true) {
			return true
		}
	}
	return false
}

// matches says whether a rule (`Tool`, `Tool(pattern)`) covers an action. A rule that allows is read as narrowly as can be: its
// pattern covers no second command, no way upwards, and nothing that is unknown.
func matches(rule, tool, resource, workspace string, allows bool) bool {
	name, pattern, limited := strings.Cut(rule, "(")
	if !glob(name, tool, !allows || name == "*") || allows && resource == "" {
		return false
	}
	if !limited {
		return true
	}
	if pattern, limited = strings.CutSuffix(pattern, ")"); !limited || resource == "" || allows && (strings.ContainsAny(resource, ";|&<>$`\n\r") || strings.Contains(resource, "..")) {
		return !allows
	}
	inside := strings.TrimPrefix(resource, strings.TrimSuffix(workspace, "/")+"/")
	return glob(pattern, resource, !allows) || glob(pattern, inside, !allows)
}

// glob is a whole match, for a rule that allows narrow: there `*` does not cover `/`, as `**` does.
func glob(pattern, text string, wide bool) bool {
	narrow := map[bool]string{true: ".*", false: "[^/]*"}[wide]
	var form strings.Builder
	for rest := pattern; rest != ""; {
		class := regexp.MustCompile(`^\[[^\]]+\]`).FindString(rest)
		switch {
		case strings.HasPrefix(rest, "**"):
			form.WriteString(".*")
			rest = rest[2:]
		case rest[0] == '*':
			form.WriteString(narrow)
			rest = rest[1:]
		case rest[0] == '?':
			form.WriteString(".")
			rest = rest[1:]
		case class != "":
			form.WriteString(strings.Replace(class, "[!", "[^", 1))
			rest = rest[len(class):]
		default:
			_, size := utf8.DecodeRuneInString(rest)
			form.WriteString(regexp.QuoteMeta(rest[:size]))
			rest = rest[size:]
		}
	}
	whole, err := regexp.Compile(`(?s)^(?:` + form.String() + `)$`)
	if err != nil {
		return wide // what cannot be read denies
	}
	return whole.MatchString(text)
}
