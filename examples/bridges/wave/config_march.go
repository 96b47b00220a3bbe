//go:build march

package adapter

import "time"

// AdapterRunConfig as in Wave of March 2026, before ProcessGrace and StdoutDrain came and ContractPrompt went.
type AdapterRunConfig struct {
	Adapter             string
	Persona             string
	WorkspacePath       string
	Prompt              string
	SystemPrompt        string
	Timeout             time.Duration
	Env                 []string
	Temperature         float64
	AllowedTools        []string
	DenyTools           []string
	OutputFormat        string
	Debug               bool
	Model               string
	SandboxEnabled      bool
	AllowedDomains      []string
	EnvPassthrough      []string
	SandboxBackend      string
	DockerImage         string
	SkillCommandsDir    string
	ResolvedSkills      []SkillRef
	MaxConcurrentAgents int
	OntologySection     string
	ContractPrompt      string
	OnStreamEvent       func(StreamEvent)
}

type SkillRef struct {
	Name        string
	Description string
}
