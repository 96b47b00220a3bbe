package adapter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// result is what Wave gets of the step. err is why the turn was stopped or lost.
func (s *runningStep) result(err error) *AdapterResult {
	end := s.end
	if end == nil {
		end = &hostMessage{Status: "failed"}
	}
	reported := strings.Join(s.errors, "\n")
	for _, name := range s.unapplied {
		if !strings.Contains(reported, "`"+name+"`") {
			s.warn("the agent does not honour " + name)
		}
	}
	if s.dropped > 0 {
		s.warn(fmt.Sprintf("%d bytes of the answer are left out", s.dropped))
	}
	if end.Error.Message != "" {
		s.warn(end.Error.Category + ": " + end.Error.Message)
	}
	text, answer := s.text.Bytes(), s.text.Bytes()[s.answerAt:]
	result := &AdapterResult{Stdout: bytes.NewReader(text), TokensIn: s.tokensIn, TokensOut: s.tokensOut,
		TokensUsed: s.tokensIn + s.tokensOut, Artifacts: append(s.artifacts, namedArtifacts(end.Artifacts, answer)...)}
	if result.TokensUsed == 0 && len(text) > 0 {
		result.TokensUsed = len(text) / 4
		s.warn("the agent reports no tokens: they are estimated from the length of its text")
	}
	result.Subtype, result.FailureReason = classifyEnd(end, err)
	switch {
	case end.ExitCode != nil:
		result.ExitCode = *end.ExitCode
	case result.FailureReason == "timeout":
		result.ExitCode = 124
	case s.end == nil:
		result.ExitCode = -1
	}
	if result.FailureReason != "" && result.ExitCode == 0 {
		result.ExitCode = 1
	}
	switch result.FailureReason {
	case "":
		result.ResultContent = answerContent(end, string(answer))
	case "rate_limit":
		result.ResultContent = end.Error.Message // Wave shows it, and writes no artifact
	}
	s.emit(StreamEvent{Type: "result", Content: result.ResultContent, Subtype: result.Subtype})
	return result
}

// classifyEnd returns Wave's subtype and reason of a failure.
func classifyEnd(end *hostMessage, err error) (subtype, reason string) {
	category := end.Error.Category
	switch {
	case errors.Is(err, context.DeadlineExceeded) || err == nil && category == "timeout":
		return "error_timeout", "timeout"
	case err != nil:
		return "error_during_execution", "general_error"
	case end.Type == "turn.complete" && (end.Status == "" || end.Status == "completed"):
		return "success", ""
	case category == "max_turns" || category == "" && end.Status == "limit":
		return "error_max_turns", "context_exhaustion"
	case category == "context_exhausted":
		return "error_context_exhausted", "context_exhaustion"
	case category == "rate_limit" || category == "usage_limit":
		return "error_" + category, "rate_limit"
	case category == "" || category == "other":
		return "error_during_execution", "general_error"
	}
	return "error_" + category, "general_error"
}

var jsonBlock = regexp.MustCompile("(?s)```json\\s*(.*?)\\s*```")

// answerContent is the answer as data if the agent gave it so, else a JSON block in its text, else its text, else its summary.
func answerContent(end *hostMessage, answer string) string {
	if data := string(end.Result); data != "" && data != "null" {
		var text string
		if json.Unmarshal(end.Result, &text) == nil {
			return text
		}
		return data
	}
	if block := jsonBlock.FindStringSubmatch(answer); block != nil && json.Valid([]byte(block[1])) {
		return block[1]
	}
	if answer == "" {
		return end.Summary
	}
	return answer
}

// namedArtifacts are the artifacts that the agent names, else those of an answer in JSON: texts, or objects with a name or a path.
func namedArtifacts(list json.RawMessage, answer []byte) (names []string) {
	var object struct{ Artifacts json.RawMessage }
	if len(list) == 0 && json.Unmarshal(answer, &object) == nil {
		list = object.Artifacts
	}
	var elements []any
	json.Unmarshal(list, &elements)
	for _, element := range elements {
		switch element := element.(type) {
		case string:
			names = append(names, element)
		case map[string]any:
			if name, ok := element["name"].(string); ok {
				names = append(names, name)
			} else if path, ok := element["path"].(string); ok {
				names = append(names, path)
			}
		}
	}
	return names
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
