package adapter

import (
	"bufio"
	"encoding/json"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	maxHostLine   = 10 << 20 // bytes; session.start tells the host, which cuts
	maxHostStderr = 4 << 10  // bytes of its end
	hostEndGrace  = 6 * time.Second
)

type jsonObject = map[string]any

// hostMessage has the members that are read of a message of the host.
type hostMessage struct {
	Type             string          `json:"type"`
	TurnID           string          `json:"turn_id"`
	Content          string          `json:"content"`
	Channel          string          `json:"channel"`
	Tool             string          `json:"tool"`
	ToolCallID       string          `json:"tool_call_id"`
	ParentToolCallID string          `json:"parent_tool_call_id"`
	MessageID        string          `json:"message_id"`
	Input            json.RawMessage `json:"input"`
	Title            string          `json:"title"`
	RequestID        string          `json:"request_id"`
	Resource         string          `json:"resource"`
	FileName         string          `json:"file_name"`
	FilePath         string          `json:"file_path"`
	Message          string          `json:"message"`
	OptionsApplied   []string        `json:"options_applied"`
	Scope            string          `json:"scope"`
	tokenUsage
	Status    string          `json:"status"`
	Error     turnError       `json:"error"`
	ExitCode  *int            `json:"exit_code"`
	Summary   string          `json:"summary"`
	Artifacts json.RawMessage `json:"artifacts"`
	Result    json.RawMessage `json:"result"`
	Usage     *tokenUsage     `json:"usage"`
}

type turnError struct {
	Category string `json:"category"`
	Message  string `json:"message"`
}

type tokenUsage struct {
	InputTokens     *int `json:"input_tokens"`
	OutputTokens    *int `json:"output_tokens"`
	CacheReadTokens int  `json:"cache_read_tokens"`
}

// hostProcess is a `trunkline serve`, in a process group of its own.
type hostProcess struct {
	process  *exec.Cmd
	stdin    io.WriteCloser
	messages chan hostMessage // closed at the end of stdout; unbuffered, since the host keeps on disk what is not taken
	closing  chan struct{}
	stderr   outputTail
}

func startHost(command []string, folder string) (*hostProcess, error) {
	h := &hostProcess{process: exec.Command(command[0], command[1:]...), messages: make(chan hostMessage), closing: make(chan struct{})}
	h.process.Dir = folder
	h.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	h.process.Stderr = &h.stderr
	var err error
	if h.stdin, err = h.process.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := h.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := h.process.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(h.messages)
		lines := bufio.NewScanner(stdout)
		lines.Buffer(make([]byte, 0, 64<<10), maxHostLine+1<<10)
		for lines.Scan() {
			var m hostMessage
			json.Unmarshal(lines.Bytes(), &m) // a member of another type counts as absent
			select {
			case h.messages <- m:
			case <-h.closing:
			}
		}
	}()
	return h, nil
}

func (h *hostProcess) send(m jsonObject) {
	if line, err := json.Marshal(m); err == nil {
		h.stdin.Write(append(line, '\n'))
	}
}

// close ends the host, which ends its adapters, and waits for it.
func (h *hostProcess) close() error {
	close(h.closing)
	h.stdin.Close()
	hung := time.AfterFunc(hostEndGrace, func() { syscall.Kill(-h.process.Process.Pid, syscall.SIGKILL) })
	defer hung.Stop()
	for range h.messages { // Wait closes stdout, so all has to be read before
	}
	return h.process.Wait()
}

// outputTail keeps the end of what is written to it.
type outputTail struct {
	mu   sync.Mutex
	text []byte
}

func (t *outputTail) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, text...)
	t.text = append([]byte(nil), t.text[max(0, len(t.text)-maxHostStderr):]...)
	return len(text), nil
}

func (t *outputTail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}
