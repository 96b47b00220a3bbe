package wave

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
)

const (
	most  = 64 << 20 // of an answer in memory, in bytes; what is beyond is left out, and said
	shown = 200      // characters of a text in an event
)

func (s *step) warn(line string) {
	s.log(line)
	s.tell(StreamEvent{Type: "system", Content: short(line)})
}

// tell gives an event to Wave, with the tokens so far.
func (s *step) tell(event StreamEvent) {
	if s.cfg.OnStreamEvent != nil {
		event.TokensIn, event.TokensOut = s.in, s.out
		s.cfg.OnStreamEvent(event)
	}
}

// take takes a message; true: the turn has ended.
func (s *step) take(m message) bool {
	if s.cfg.Debug {
		s.log("debug: " + m.Type + " " + m.Tool)
	}
	switch m.Type {
	case "session.ready", "session.info":
		if s.asked = slices.DeleteFunc(s.asked, func(name string) bool { return slices.Contains(m.OptionsApplied, name) }); m.Type == "session.ready" {
			s.tell(StreamEvent{Type: "system"})
		}
	case "output":
		if m.Channel != "" && m.Channel != "stdout" {
			s.warn(m.Channel + ": " + m.Content)
			break
		}
		fits := min(len(m.Content), most-s.answer.Len())
		s.left += len(m.Content) - fits
		s.answer.WriteString(m.Content[:fits])
		s.tell(StreamEvent{Type: "text", Content: short(m.Content)})
	case "tool.start":
		s.tools[m.ToolCallID] = m.Tool
		s.tell(StreamEvent{Type: "tool_use", ToolName: m.Tool, ToolInput: short(target(m))})
	case "tool.end":
		s.tell(StreamEvent{Type: "tool_result", ToolName: s.tools[m.ToolCallID], Content: short(m.Content)})
		delete(s.tools, m.ToolCallID)
	case "usage":
		s.count(&m.usage, m.Scope)
	case "permission.request":
		yes := s.cfg.approves(m.Tool, m.Resource)
		if !yes {
			s.warn(fmt.Sprintf("denied: %s(%s)", m.Tool, m.Resource))
		}
		s.host.send(fields{"type": "permission.response", "session_id": session, "request_id": m.RequestID, "approved": yes,
			"reason": "policy"})
	case "file.output":
		if err := s.keep(m.FilePath, m.FileName); err != nil {
			s.warn(fmt.Sprintf("the file %s is lost: %v", m.FileName, err))
		}
	case "error":
		s.warn(m.Message)
	case "turn.complete":
		if m.TurnID == turn {
			s.end = &m
			s.count(m.Usage, "")
			return true
		}
	default:
		s.unknown[m.Type]++
	}
	return false
}

// count takes what a turn has used so far; of tokens that were read from a cache Wave does not want to know.
func (s *step) count(u *usage, scope string) {
	if u == nil || scope == "session" {
		return
	}
	if u.InputTokens != nil {
		s.in = *u.InputTokens
		if u.CacheReadTokens != nil {
			s.in = max(0, s.in-*u.CacheReadTokens)
		}
	}
	if u.OutputTokens != nil {
		s.out = *u.OutputTokens
	}
}

// keep copies a file of the agent's into the workspace, and never over one that is there: the host's copy goes with the session.
func (s *step) keep(from, name string) error {
	if name = filepath.Base(filepath.Clean("/" + name)); name == "/" {
		name = filepath.Base(from)
	}
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	copied, err := os.OpenFile(filepath.Join(s.cfg.WorkspacePath, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if _, err = io.Copy(copied, source); err != nil {
		copied.Close()
		return err
	}
	s.artifacts = append(s.artifacts, name)
	return copied.Close()
}

// target is what a tool acts on, for a person.
func target(m message) string {
	var input map[string]any
	json.Unmarshal(m.Input, &input)
	for _, name := range strings.Fields("file_path url pattern command query notebook_path description path") {
		if text, ok := input[name].(string); ok && text != "" {
			return text
		}
	}
	return m.Title
}

func short(text string) string {
	if runes := []rune(text); len(runes) > shown {
		return string(runes[:shown])
	}
	return text
}

// missed names what came and has no place in Wave's types.
func (s *step) missed() (names []string) {
	for kind, times := range s.unknown {
		names = append(names, fmt.Sprintf("%s ×%d", kind, times))
	}
	sort.Strings(names)
	return names
}
