package adapter

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// optionalField reads a field that only some versions of Wave have.
func optionalField[T any](of any, name string) (value T) {
	if field := reflect.ValueOf(of).FieldByName(name); field.IsValid() {
		value, _ = field.Interface().(T)
	}
	return value
}

// startMessage makes the `session.start` of a step, and prepares its workspace. Relative paths, which Wave passes, become absolute.
func (a *TrunklineAdapter) startMessage(cfg *AdapterRunConfig, step *runningStep) (jsonObject, error) {
	if cfg.WorkspacePath == "" {
		return nil, fmt.Errorf("it has no workspace")
	}
	workspace, err := filepath.Abs(cfg.WorkspacePath)
	if err != nil {
		return nil, err
	}
	cfg.WorkspacePath = workspace
	isContainer := cfg.SandboxBackend == "docker"
	asksSandbox := isContainer || cfg.SandboxEnabled || cfg.SandboxBackend == "bubblewrap"
	if asksSandbox && !a.Sandboxed && (isContainer || len(cfg.AllowedDomains) == 0) {
		return nil, fmt.Errorf("it asks for a sandbox (%s): give the agent a `sandbox` in trunkline.json, then set Sandboxed",
			cfg.SandboxBackend)
	}
	env := jsonObject{}
	for _, name := range cfg.EnvPassthrough {
		if value := os.Getenv(name); value != "" {
			env[name] = value
		}
	}
	for _, pair := range cfg.Env {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("an element of Env is not KEY=VALUE")
		}
		env[name] = value
	}
	skills := []string{}
	for _, skill := range cfg.ResolvedSkills {
		source := optionalField[string](skill, "SourcePath")
		if source == "" {
			step.log("the skill " + skill.Name + " has no folder and is left out")
		} else if folder, err := filepath.Abs(source); err == nil {
			skills = append(skills, folder)
		}
	}
	if err := copyCommands(cfg.SkillCommandsDir, workspace); err != nil {
		return nil, err
	}
	options := jsonObject{"cwd": workspace, "model": cfg.Model, "system_prompt": systemPrompt(*cfg), "temperature": cfg.Temperature,
		"allowed_tools": cfg.AllowedTools, "denied_tools": cfg.DenyTools, "allowed_domains": cfg.AllowedDomains, "env": env,
		"skills": skills}
	if a.InWorkspace {
		delete(options, "cwd")
	}
	if slices.Contains(cfg.AllowedTools, "*") {
		delete(options, "allowed_tools") // it restricts nothing
	}
	start := jsonObject{"type": "session.start", "session_id": stepSession, "protocol": 1, "max_line": maxHostLine,
		"extensions": []string{"turns", "events", "usage", "options"}}
	for name, value := range options {
		if v := reflect.ValueOf(value); !v.IsZero() && (v.Kind() != reflect.Map && v.Kind() != reflect.Slice || v.Len() > 0) {
			start[name] = value
			step.unapplied = append(step.unapplied, name)
		}
	}
	if cfg.Persona != "" {
		start["role"] = cfg.Persona
	}
	slices.Sort(step.unapplied)
	step.cfg = *cfg
	return start, nil
}

// systemPrompt joins Wave's base protocol, the project's ontology, the persona and the number of its sub-agents.
func systemPrompt(cfg AdapterRunConfig) string {
	persona := func(name string) string {
		for _, root := range []string{".agents", ".wave"} { // newer, older
			if text, err := os.ReadFile(filepath.Join(root, "personas", name+".md")); err == nil {
				return string(text)
			}
		}
		return ""
	}
	parts := []string{persona("base-protocol"), optionalField[string](cfg, "OntologySection"), cfg.SystemPrompt}
	if cfg.SystemPrompt == "" {
		parts[2] = persona(cfg.Persona)
	}
	if cfg.MaxConcurrentAgents > 1 {
		parts = append(parts, fmt.Sprintf("At most %d sub-agents may run at once.", cfg.MaxConcurrentAgents))
	}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "\n\n---\n\n")
}

// copyCommands copies command files to the place in the workspace where Wave's own adapter for Claude has them.
func copyCommands(from, workspace string) error {
	files, err := filepath.Glob(filepath.Join(from, "*.md"))
	if from == "" || err != nil {
		return err
	}
	for _, file := range files {
		folder := filepath.Join(workspace, ".claude", "commands")
		text, err := os.ReadFile(file)
		if err == nil {
			err = os.MkdirAll(folder, 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, filepath.Base(file)), text, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
