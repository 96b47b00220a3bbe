//go:build !march

package adapter

import "time"

// AdapterRunConfig as in Wave since 13 April 2026.
type AdapterRunConfig struct {
	Adapter             string
	Persona             string
	WorkspacePath       string
	Prompt              string
	SystemPrompt        string
	Timeout             time.Duration
	ProcessGrace        time.Duration
	StdoutDrain         time.Duration
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
	OnStreamEvent       func(StreamEvent)
}

type SkillRef struct {
	Name        string
	Description string
	SourcePath  string
}
