package adapter

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// approves answers a permission: a rule of DenyTools denies, then one of AllowedTools approves, and everything else is denied.
func (s *runningStep) approves(tool, resource string) bool {
	for _, rule := range s.cfg.DenyTools {
		if matchesRule(rule, tool, resource, s.cfg.WorkspacePath, false) {
			return false
		}
	}
	// An agent that honours allowed_tools has judged the pattern, in every form that it understands.
	isJudged := !slices.Contains(s.unapplied, "allowed_tools")
	return slices.ContainsFunc(s.cfg.AllowedTools, func(rule string) bool {
		if name, _, _ := strings.Cut(rule, "("); isJudged && resource != "" && (name == tool || strings.HasPrefix(tool, name+"__")) {
			return true
		}
		return matchesRule(rule, tool, resource, s.cfg.WorkspacePath, true)
	})
}

// matchesRule reports whether a rule (`Tool`, `Tool(pattern)`) covers an action. A rule that allows is read narrowly: its pattern
// covers no second command, no path upwards, and no action without a resource.
func matchesRule(rule, tool, resource, workspace string, allows bool) bool {
	name, pattern, isLimited := strings.Cut(rule, "(")
	if !matchesGlob(name, tool, !allows || name == "*") || allows && resource == "" {
		return false
	}
	if !isLimited {
		return true
	}
	pattern, isClosed := strings.CutSuffix(pattern, ")")
	if !isClosed || resource == "" || allows && (strings.ContainsAny(resource, ";|&<>$`\n\r") || strings.Contains(resource, "..")) {
		return !allows
	}
	inside := strings.TrimPrefix(resource, strings.TrimSuffix(workspace, "/")+"/")
	return matchesGlob(pattern, resource, !allows) || matchesGlob(pattern, inside, !allows)
}

// matchesGlob matches the whole text. A `*` covers a `/` only if isWide, `**` always does.
func matchesGlob(pattern, text string, isWide bool) bool {
	star := "[^/]*"
	if isWide {
		star = ".*"
	}
	expression := globPart.ReplaceAllStringFunc(pattern, func(part string) string {
		switch {
		case part == "**":
			return ".*"
		case part == "*":
			return star
		case part == "?":
			return "."
		case len(part) > 1 && part[0] == '[':
			return strings.Replace(part, "[!", "[^", 1)
		}
		return regexp.QuoteMeta(part)
	})
	whole, err := regexp.Compile(`(?s)^(?:` + expression + `)$`)
	if err != nil {
		return isWide // an unreadable rule denies
	}
	return whole.MatchString(text)
}

var globPart = regexp.MustCompile(`(?s)\*\*|\[[^\]]+\]|.`)

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
