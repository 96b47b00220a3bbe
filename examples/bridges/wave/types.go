// Package wave lets Wave run its steps on trunkline: Runner is an AdapterRunner.
package wave

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"time"
)

// The types up to StreamEvent are Wave's own: leave them out where this package becomes a part of Wave.

// AdapterRunner is what a step is run by.
type AdapterRunner interface {
	Run(ctx context.Context, cfg AdapterRunConfig) (*AdapterResult, error)
}

// AdapterRunConfig is a step.
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
	ContractPrompt      string
	OnStreamEvent       func(StreamEvent)
}

// SkillRef is a skill, and the folder that it is in.
type SkillRef struct {
	Name       string
	SourcePath string
}

// AdapterResult is what came of a step.
type AdapterResult struct {
	ExitCode      int
	Stdout        io.Reader
	TokensUsed    int
	TokensIn      int
	TokensOut     int
	Artifacts     []string
	ResultContent string
	FailureReason string
	Subtype       string
}

// StreamEvent is what happens meanwhile.
type StreamEvent struct {
	Type      string
	ToolName  string
	ToolInput string
	Content   string
	TokensIn  int
	TokensOut int
	Subtype   string
}

// message is what is read of one line of the host.
type message struct {
	Type           string          `json:"type"`
	SessionID      string          `json:"session_id"`
	TurnID         string          `json:"turn_id"`
	Content        string          `json:"content"`
	Channel        string          `json:"channel"`
	Tool           string          `json:"tool"`
	ToolCallID     string          `json:"tool_call_id"`
	Input          json.RawMessage `json:"input"`
	Title          string          `json:"title"`
	IsError        bool            `json:"is_error"`
	RequestID      string          `json:"request_id"`
	Resource       string          `json:"resource"`
	FileName       string          `json:"file_name"`
	FilePath       string          `json:"file_path"`
	Message        string          `json:"message"`
	OptionsApplied []string        `json:"options_applied"`
	Scope          string          `json:"scope"`
	usage
	Status    string          `json:"status"`
	Error     *failure        `json:"error"`
	ExitCode  *int            `json:"exit_code"`
	Summary   string          `json:"summary"`
	Artifacts json.RawMessage `json:"artifacts"`
	Result    json.RawMessage `json:"result"`
	Usage     *usage          `json:"usage"`
}

type failure struct {
	Category string `json:"category"`
	Message  string `json:"message"`
}

type usage struct {
	InputTokens     *int `json:"input_tokens"`
	OutputTokens    *int `json:"output_tokens"`
	CacheReadTokens *int `json:"cache_read_tokens"`
}

type fields = map[string]any

// step is what is known of a running step.
type step struct {
	cfg       AdapterRunConfig
	host      *pipe
	log       func(string)
	asked     []string // options that are not known to be honoured
	tools     map[string]string
	unknown   map[string]int // what came and Wave has no place for
	answer    bytes.Buffer
	left      int // bytes of the answer that are left out
	in, out   int
	estimated bool
	artifacts []string
	end       *message
}
