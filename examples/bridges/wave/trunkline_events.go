package adapter

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	maxAnswer    = 64 << 20 // bytes
	maxEventText = 200      // characters
)

// runningStep collects what the host reports of a step.
type runningStep struct {
	cfg       AdapterRunConfig
	host      *hostProcess
	log       func(string)
	unapplied []string          // options of the session that the agent does not declare to honour
	errors    []string          // what it reports meanwhile, such as an option that is not applied
	tools     map[string]string // names by the ids of running calls
	answer    bytes.Buffer
	dropped   int // bytes of the answer beyond maxAnswer
	tokensIn  int
	tokensOut int
	artifacts []string
	end       *hostMessage
}

// warn logs a line, and shows it in Wave.
func (s *runningStep) warn(line string) {
	s.log(line)
	s.emit(StreamEvent{Type: "system", Content: line})
}

// emit passes an event to Wave, with the tokens so far.
func (s *runningStep) emit(event StreamEvent) {
	if s.cfg.OnStreamEvent == nil {
		return
	}
	for _, text := range []*string{&event.Content, &event.ToolInput} {
		if runes := []rune(*text); len(runes) > maxEventText {
			*text = string(runes[:maxEventText])
		}
	}
	event.TokensIn, event.TokensOut = s.tokensIn, s.tokensOut
	s.cfg.OnStreamEvent(event)
}

// take handles a message and reports whether it ended the turn. Each sign of the agent's work becomes an event: Wave's
// `stall_timeout` counts them. `working` is no such sign, a timer sends it.
func (s *runningStep) take(m hostMessage) bool {
	if s.cfg.Debug {
		s.log("debug: " + m.Type + " " + m.Tool)
	}
	switch m.Type {
	case "session.ready", "session.info":
		s.unapplied = slices.DeleteFunc(s.unapplied, func(name string) bool { return slices.Contains(m.OptionsApplied, name) })
		if m.Type == "session.ready" {
			s.emit(StreamEvent{Type: "system"})
		}
	case "output":
		if m.Channel != "" && m.Channel != "stdout" {
			s.warn(m.Channel + ": " + m.Content)
			break
		}
		kept := min(len(m.Content), maxAnswer-s.answer.Len())
		s.dropped += len(m.Content) - kept
		s.answer.WriteString(m.Content[:kept])
		s.emit(StreamEvent{Type: "text", Content: m.Content})
	case "tool.start":
		s.tools[m.ToolCallID] = m.Tool
		s.emit(StreamEvent{Type: "tool_use", ToolName: m.Tool, ToolInput: toolTarget(m)})
	case "tool.end":
		s.emit(StreamEvent{Type: "tool_result", ToolName: s.tools[m.ToolCallID], Content: m.Content})
		delete(s.tools, m.ToolCallID)
	case "usage":
		if m.Scope != "session" {
			s.count(m.tokenUsage)
		}
	case "permission.request":
		isApproved := s.approves(m.Tool, m.Resource)
		if !isApproved {
			s.warn(fmt.Sprintf("denied: %s(%s)", m.Tool, m.Resource))
		}
		s.host.send(jsonObject{"type": "permission.response", "session_id": stepSession, "request_id": m.RequestID,
			"approved": isApproved, "reason": "policy"})
	case "file.output":
		if err := s.keepFile(m.FilePath, m.FileName); err != nil {
			s.warn(fmt.Sprintf("the file %s is lost: %v", m.FileName, err))
		}
	case "error":
		s.errors = append(s.errors, m.Message)
		s.warn(m.Message)
	case "turn.complete", "session.closed":
		if m.Type == "session.closed" || m.TurnID == stepTurn {
			s.end = &m
			if m.Usage != nil {
				s.count(*m.Usage)
			}
			return true
		}
	case "working":
	default:
		s.emit(StreamEvent{Type: "system", Content: m.Type})
	}
	return false
}

// count takes the tokens of the turn so far. Wave counts no input that was read from a cache.
func (s *runningStep) count(u tokenUsage) {
	if u.InputTokens != nil {
		s.tokensIn = max(0, *u.InputTokens-u.CacheReadTokens)
	}
	if u.OutputTokens != nil {
		s.tokensOut = *u.OutputTokens
	}
}

// keepFile copies a file of the agent into the workspace, and overwrites none: the host's copy ends with the session.
func (s *runningStep) keepFile(from, name string) error {
	if name = filepath.Base(filepath.Clean("/" + name)); name == "/" {
		name = filepath.Base(from)
	}
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(filepath.Join(s.cfg.WorkspacePath, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if _, err = io.Copy(target, source); err != nil {
		target.Close()
		return err
	}
	s.artifacts = append(s.artifacts, name)
	return target.Close()
}

// toolTarget is what a call acts on, for people.
func toolTarget(m hostMessage) string {
	var input map[string]any
	json.Unmarshal(m.Input, &input)
	for _, name := range strings.Fields("file_path url pattern command query notebook_path description path") {
		if text, ok := input[name].(string); ok && text != "" {
			return text
		}
	}
	return m.Title
}
