package wave

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// result is what came of the step. err is why the turn was not waited for, or was stopped.
func (s *step) result(err error) *AdapterResult {
	end := s.end
	if end == nil {
		end = &message{Status: "failed"}
	}
	if len(s.asked) > 0 {
		s.warn("the agent does not say that it honours " + strings.Join(s.asked, ", "))
	}
	if names := s.missed(); len(names) > 0 {
		s.warn("no place in Wave for " + strings.Join(names, ", "))
	}
	if s.left > 0 {
		s.warn(fmt.Sprintf("%d bytes of the answer are left out", s.left))
	}
	answer := s.answer.Bytes()
	result := &AdapterResult{Stdout: bytes.NewReader(answer), TokensIn: s.in, TokensOut: s.out, TokensUsed: s.in + s.out,
		Artifacts: s.artifacts, ResultContent: content(end, string(answer))}
	if result.TokensUsed == 0 && len(answer) > 0 {
		result.TokensUsed = len(answer) / 4
		s.warn("the agent tells no tokens: they are guessed from the answer's length")
	}
	result.Artifacts = append(result.Artifacts, named(end.Artifacts, answer)...)
	if end.Error != nil && end.Error.Message != "" {
		s.log(end.Error.Category + ": " + end.Error.Message)
		if result.ResultContent == "" {
			result.ResultContent = end.Error.Message
		}
	}
	result.Subtype, result.FailureReason = judged(end, err)
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
	said := end.Summary
	if said == "" {
		said = result.ResultContent
	}
	s.tell(StreamEvent{Type: "result", Content: short(said), Subtype: result.Subtype})
	return result
}

// judged are the subtype and the reason of a failure, in Wave's words.
func judged(end *message, err error) (subtype, reason string) {
	category := ""
	if end.Error != nil {
		category = end.Error.Category
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded) || err == nil && category == "timeout":
		return "error_timeout", "timeout"
	case err != nil:
		return "error_during_execution", "general_error"
	case end.Status == "" || end.Status == "completed":
		return "success", ""
	case category == "max_turns" || category == "" && end.Status == "limit":
		return "error_max_turns", "context_exhaustion"
	case category == "context_exhausted":
		return "error_context_exhausted", "context_exhaustion"
	case category == "" || category == "other":
		return "error_during_execution", "general_error"
	}
	return "error_" + category, "general_error"
}

// content is the answer as data where the agent gives it so, else its text, else its summary.
func content(end *message, answer string) string {
	var text string
	switch {
	case json.Unmarshal(end.Result, &text) == nil && text != "":
		return text
	case len(end.Result) > 0 && string(end.Result) != "null" && text == "":
		return string(end.Result)
	case answer != "":
		return answer
	}
	return end.Summary
}

// named are the artifacts that an agent names: texts, or objects with a name or a path; else those of an answer in JSON.
func named(given json.RawMessage, answer []byte) (names []string) {
	var in struct{ Artifacts json.RawMessage }
	if len(given) == 0 && json.Unmarshal(answer, &in) == nil {
		given = in.Artifacts
	}
	var all []any
	json.Unmarshal(given, &all)
	for _, one := range all {
		switch one := one.(type) {
		case string:
			names = append(names, one)
		case map[string]any:
			for _, key := range []string{"name", "path"} {
				if name, ok := one[key].(string); ok {
					names = append(names, name)
					break
				}
			}
		}
	}
	return names
}
