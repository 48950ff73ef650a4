package cli_test

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// within ends a command that does not end by itself in time.
func within(t *testing.T, cmd *exec.Cmd) {
	timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() { timer.Stop() })
}

// TestSignalsArePassedOn is field case F91 without a terminal; restore_test.go has it with one.
func TestSignalsArePassedOn(t *testing.T) {
	p := newPlace(t)
	p.running()
	for name, sig := range map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP} {
		t.Run(name, func(t *testing.T) {
			cmd := p.cmd("bromure-cli", "vm", "exec", "w", "--", "sh", "-c",
				`trap "echo got; exit 0" `+name+`; echo ready; while :; do sleep 0.02; done`)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			within(t, cmd)
			lines := bufio.NewScanner(out)
			lines.Scan()
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if !lines.Scan() || lines.Text() != "got" {
				t.Errorf("the command in the guest said %q", lines.Text())
			}
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != 128+int(sig) {
				t.Errorf("exit %d", code)
			}
		})
	}
}

// TestSignalPastUnreadInput: input that the command does not read is not in the signal's way.
func TestSignalPastUnreadInput(t *testing.T) {
	p := newPlace(t)
	p.running()
	cmd := p.cmd("bromure-cli", "vm", "exec", "w", "--", "sh", "-c", "echo ready; sleep 1000")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	within(t, cmd)
	full := make(chan int)
	go func() { // until everything on the way is full
		n, _ := in.Write(make([]byte, 64<<20))
		full <- n
	}()
	bufio.NewScanner(out).Scan()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 143 {
		t.Errorf("exit %d", code)
	}
	if n := <-full; n >= 64<<20 {
		t.Errorf("64 MiB of input that nobody read were taken")
	}
}

func TestStreamsAreBinary(t *testing.T) {
	p := newPlace(t)
	p.running()
	data := make([]byte, 5<<20)
	rand.Read(data)
	cmd := p.cmd("bromure-cli", "vm", "exec", "w", "--", "sh", "-c", "tee /dev/stderr; exit 3")
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(data), &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	within(t, cmd)
	_ = cmd.Wait()
	if !bytes.Equal(out.Bytes(), data) || !bytes.Equal(errs.Bytes(), data) || cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("5 MiB through both streams: %d and %d bytes, exit %d", out.Len(), errs.Len(), cmd.ProcessState.ExitCode())
	}
}

// TestOutputThatNobodyWants: the reader leaves, the front follows, and the command in the guest ends.
func TestOutputThatNobodyWants(t *testing.T) {
	p := newPlace(t)
	p.running()
	cmd := p.cmd("bromure-cli", "vm", "exec", "w", "--", "sh", "-c", "echo $$; exec yes")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	within(t, cmd)
	pid, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	out.Close()
	_ = cmd.Wait()
	if cmd.ProcessState.ExitCode() == 0 {
		t.Error("exit 0")
	}
	gone := p.cmd("sh", "-c", "while kill -0 "+strings.TrimSpace(pid)+" 2>/dev/null; do :; done")
	if err := gone.Start(); err != nil {
		t.Fatal(err)
	}
	within(t, gone)
	if err := gone.Wait(); err != nil {
		t.Errorf("the command in the guest goes on: %v", err)
	}
}

// TestTerminalIsLeftAlone: with the output in a pipe and no -i, keys are for whoever reads the terminal (a pager).
func TestTerminalIsLeftAlone(t *testing.T) {
	p := newPlace(t)
	p.running()
	w := p.sitAt(80, 24, "sh", "-c", "bromure-cli vm exec w -- sh -c 'echo he\"\"re; cat; sleep 0.2' | cat; read line; echo got $line")
	w.types("typed\r")
	w.sees("here")
	w.sees("got typed")
	if code := w.leaves(); code != 0 {
		t.Errorf("exit %d", code)
	}
}

// TestLiveProgress: on a terminal there is one line, which is gone afterwards.
func TestLiveProgress(t *testing.T) {
	p := newPlace(t)
	p.ok("workspaces", "create", "--name", "slow", "--notes", "fake: slow")
	w := p.sitAt(40, 24, "bromure-cli", "vm", "start", "slow")
	before := w.sees("\r\x1b[Kslow\r\n")
	if !strings.Contains(before, "\rstart slow: ") || strings.Contains(before, "\n") {
		t.Errorf("progress: %q", before)
	}
	if code := w.leaves(); code != 0 {
		t.Errorf("exit %d", code)
	}
}
