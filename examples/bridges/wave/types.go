package adapter

import (
	"context"
	"fmt"
	"io"
)

// Wave's own types, for the tests here. They stay behind when the bridge is copied. What changed since March 2026 is in
// config.go and config_march.go.

type AdapterRunner interface {
	Run(ctx context.Context, cfg AdapterRunConfig) (*AdapterResult, error)
}

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

type StreamEvent struct {
	Type      string
	ToolName  string
	ToolInput string
	Content   string
	TokensIn  int
	TokensOut int
	Subtype   string
}

type StepError struct {
	FailureReason string
	TokensUsed    int
	Subtype       string
	Remediation   string
	Cause         error
}

func (e *StepError) Error() string { return fmt.Sprintf("%s: %v", e.FailureReason, e.Cause) }

func (e *StepError) Unwrap() error { return e.Cause }

func NewStepError(reason string, cause error, tokensUsed int, subtype string) *StepError {
	return &StepError{FailureReason: reason, TokensUsed: tokensUsed, Subtype: subtype, Cause: cause}
}
