// Command notes is an adapter with tools, permission, stop and resume, on the file to copy for Go.
package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"

	"trunkline"
)

func start(s *trunkline.Session) error {
	bytes := make([]byte, 16)
	rand.Read(bytes)
	name, context := hex.EncodeToString(bytes), "lost"
	if s.Resume != nil {
		name = filepath.Base(s.Resume.NativeSessionID)
	}
	kept := filepath.Join(os.Getenv("NOTES"), name)
	if _, err := os.Stat(kept); err == nil {
		context = "kept"
	}
	s.State = kept
	s.Info(trunkline.Fields{"native_session_id": name, "context": context})
	return nil
}

func turn(ctx context.Context, t *trunkline.Turn) error {
	kept := t.Session.State.(string)
	switch verb, rest, _ := strings.Cut(t.Text, " "); verb {
	case "write":
		return write(t, rest)
	case "wait":
		t.Output("waiting")
		<-ctx.Done() // a stop ends it
		return ctx.Err()
	case "recall":
		text, err := os.ReadFile(kept)
		t.Output(string(text))
		return err
	}
	file, err := os.OpenFile(kept, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.WriteString(t.Text + "\n"); err != nil {
		return err
	}
	t.Output("noted")
	return nil
}

func write(t *trunkline.Turn, path string) error {
	_, end := t.Tool("write", trunkline.Fields{"path": path})
	if !t.Permission("write", "Write "+path, path) {
		end("denied", true)
		return nil
	}
	err := os.WriteFile(path, []byte("written"), 0o600)
	end("written", err != nil)
	return err
}

func main() {
	trunkline.Serve(trunkline.Adapter{Name: "notes", Version: "1.0.0", Resumes: true, Start: start, Turn: turn})
}
