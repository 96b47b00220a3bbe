package adapter

import (
	"bytes"
	"fmt"
	"slices"
	"time"
)

const (
	maxAnswer    = 64 << 20 // bytes
	maxEventText = 200      // characters

	minUpdateInterval = time.Second // between two events about updates of tools
)

// runningStep collects what the host reports of a step.
type runningStep struct {
	cfg       AdapterRunConfig
	host      *hostProcess
	log       func(string)
	unapplied []string          // options of the session that the agent does not declare to honour
	errors    []string          // what it reports meanwhile, such as an option that is not applied
	tools     map[string]string // names by the ids of running calls
	text      bytes.Buffer      // all messages of the turn
	answerAt  int               // where the last message begins
	messageID string            // of the last message
	isBetween bool              // a tool was called after it
	dropped   int               // bytes beyond maxAnswer
	updatedAt time.Time         // of the last event about an update
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
// `stall_timeout` counts them. `working` is no such sign: a timer sends it.
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
		s.emit(StreamEvent{Type: "text", Content: m.Content})
		if m.ParentToolCallID == "" { // a sub-agent's text is no answer
			s.addText(m.MessageID, m.Content)
		}
	case "tool.start":
		s.isBetween = true
		s.tools[m.ToolCallID] = m.Tool
		s.emit(StreamEvent{Type: "tool_use", ToolName: m.Tool, ToolInput: toolTarget(m)})
	case "tool.update": // a tool that goes on is progress to Wave, as a new call is
		if time.Since(s.updatedAt) >= minUpdateInterval {
			s.updatedAt = time.Now()
			s.emit(StreamEvent{Type: "tool_use", ToolName: s.tools[m.ToolCallID]})
		}
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

// addText adds a piece of a message. Another id or a tool call before it begins a message, and the last one is the answer.
func (s *runningStep) addText(messageID, piece string) {
	if s.text.Len() > 0 && (s.isBetween || messageID != s.messageID) {
		s.text.WriteString("\n\n")
		s.answerAt = s.text.Len()
	}
	s.messageID, s.isBetween = messageID, false
	kept := min(len(piece), max(0, maxAnswer-s.text.Len()))
	s.dropped += len(piece) - kept
	s.text.WriteString(piece[:kept])
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
