package wave

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
	longest = 10 << 20 // of a line, in bytes; the host learns it
	tail    = 4 << 10  // what is kept of its stderr, in bytes
	leaving = 6 * time.Second
)

// pipe is a host, as a process of its own.
type pipe struct {
	process *exec.Cmd
	stdin   io.WriteCloser
	lines   chan message // closed at its end; what is not taken holds the host up, which keeps it on disk
	gone    chan struct{}
	words   lastWords
}

func open(command []string, folder string) (*pipe, error) {
	p := &pipe{process: exec.Command(command[0], command[1:]...), lines: make(chan message), gone: make(chan struct{})}
	p.process.Dir = folder
	p.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.process.Stderr = &p.words
	stdin, err := p.process.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := p.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.stdin = stdin
	if err := p.process.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.lines)
		lines := bufio.NewScanner(stdout)
		lines.Buffer(make([]byte, 0, 64<<10), longest+1<<10)
		for lines.Scan() {
			var m message
			if json.Unmarshal(lines.Bytes(), &m) != nil {
				continue // of another version
			}
			select {
			case p.lines <- m:
			case <-p.gone: // no one listens
			}
		}
	}()
	return p, nil
}

func (p *pipe) send(m fields) error {
	line, err := json.Marshal(m)
	if err == nil {
		_, err = p.stdin.Write(append(line, '\n'))
	}
	return err
}

// close ends the host, which ends its adapters, and waits for it.
func (p *pipe) close() error {
	close(p.gone)
	p.stdin.Close()
	hung := time.AfterFunc(leaving, func() { syscall.Kill(-p.process.Process.Pid, syscall.SIGKILL) })
	defer hung.Stop()
	for range p.lines { // Wait may not begin before all has been read
	}
	return p.process.Wait()
}

// lastWords are the end of what the host says on stderr.
type lastWords struct {
	mu   sync.Mutex
	text []byte
}

func (w *lastWords) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, text...)
	w.text = append([]byte(nil), w.text[max(0, len(w.text)-tail):]...)
	return len(text), nil
}

func (w *lastWords) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.TrimSpace(string(w.text))
}
