//go:build linux

package sshd

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"bromure.io/tui/vm/guest"
	"bromure.io/tui/vm/guest/console"
	"bromure.io/tui/vm/guest/process"
)

const (
	// outputDelay is how long output is still waited for after a program has ended, where what it left behind
	// holds its pipes open. What the program itself printed is there already.
	outputDelay = 250 * time.Millisecond
	// leftOutput bounds what is read after that, in bytes: a pipe's usual size and more.
	leftOutput = 1 << 20
	copySize   = 32 << 10 // an SSH packet's payload
)

// executed is a program whose streams are a channel's.
type executed struct {
	ch   ssh.Channel
	proc *process.Process

	once sync.Once
	left chan struct{} // closed when the client has gone
}

func (x *executed) resize(s guest.Size) error { return x.proc.Resize(s) }
func (x *executed) signal(n int) error        { return x.proc.Signal(n) }
func (x *executed) gone()                     { x.once.Do(func() { close(x.left) }) }

// wait moves the program's streams until it has ended and its output is delivered.
func (x *executed) wait(wg *sync.WaitGroup) guest.Exit {
	p := x.proc
	defer p.Close()
	var outputs sync.WaitGroup
	var readers []*os.File
	if p.TTY != nil {
		readers = []*os.File{p.TTY}
		wg.Go(func() { typeInto(process.Terminal{Process: p}, x.ch) })
		outputs.Go(func() { pump(x.ch, process.Terminal{Process: p}, p.TTY) })
	} else {
		readers = []*os.File{p.Stdout, p.Stderr}
		wg.Go(func() { feed(p.Stdin, x.ch) })
		outputs.Go(func() { pump(x.ch, p.Stdout, p.Stdout) })
		outputs.Go(func() { pump(x.ch.Stderr(), p.Stderr, p.Stderr) })
	}
	delivered := make(chan struct{})
	go func() {
		outputs.Wait()
		close(delivered)
	}()

	select {
	case <-p.Done():
		for _, r := range readers {
			_ = r.SetReadDeadline(time.Now().Add(outputDelay))
		}
		<-delivered // or the channel is closed, which ends the writing
	case <-x.left:
		// As for a user whose terminal is gone: SIGHUP to all, SIGKILL to what remains.
		wg.Go(func() { p.Hangup(process.HangupGrace) })
		p.Close()
		<-delivered
	}
	return p.Wait()
}

// feed writes to a program's standard input what the client sends, until the client ends it or the program
// wants no more. Of that OpenSSH's clients are told (its PROTOCOL file, section 2.1), so that they stop reading.
func feed(stdin *os.File, ch ssh.Channel) {
	defer stdin.Close()
	_, err := io.CopyBuffer(writerOnly{stdin}, readerOnly{ch}, make([]byte, copySize))
	if errors.Is(err, unix.EPIPE) {
		_, _ = ch.SendRequest("eow@openssh.com", false, nil)
	}
}

// typeInto is feed for a terminal. The client's end of file becomes a key there.
func typeInto(t process.Terminal, ch ssh.Channel) {
	buf := make([]byte, 4096)
	midLine := false
	for {
		n, err := ch.Read(buf)
		if n > 0 {
			if _, err := t.Write(buf[:n]); err != nil {
				return
			}
			midLine = buf[n-1] != '\n' && buf[n-1] != '\r'
		}
		if err == io.EOF {
			t.EndInput(midLine)
		}
		if err != nil {
			return
		}
	}
}

// pump writes a program's output to the client. A client that reads slowly slows the program down. r reads from f, whose deadline is
// set after the program's end: what is in f by then is still delivered, whoever else holds it open.
func pump(w io.Writer, r io.Reader, f *os.File) {
	buf := make([]byte, copySize)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				return
			}
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			drain(w, f, buf)
		}
		if err != nil {
			return
		}
	}
}

// drain delivers what can be read at once. Reads of a file past its deadline fail, so they go around it; its descriptor
// is in non-blocking mode.
func drain(w io.Writer, f *os.File, buf []byte) {
	c, err := f.SyscallConn()
	if err != nil {
		return
	}
	for total := 0; total < leftOutput; {
		n := 0
		err := c.Control(func(fd uintptr) { n, _ = unix.Read(int(fd), buf) })
		if err != nil || n <= 0 {
			return
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return
		}
		total += n
	}
}

// attached is a channel on a console.
type attached struct {
	client *console.Client
	typed  chan struct{} // closed when everything that the client sent is typed
}

// lastWords is how long a console takes what its client sent before it closed the channel.
const lastWords = time.Second

func (a attached) resize(s guest.Size) error { a.client.Resize(s); return nil }
func (a attached) signal(n int) error        { return a.client.Signal(n) }

func (a attached) gone() {
	select {
	case <-a.typed:
	case <-a.client.Done():
	case <-time.After(lastWords): // the program does not read
	}
	a.client.Detach()
}

// typeFrom types what the client sends. The end of its input detaches nothing: closing the channel does.
func (a attached) typeFrom(ch ssh.Channel) {
	defer close(a.typed)
	_, _ = io.CopyBuffer(writerOnly{a.client}, readerOnly{ch}, make([]byte, 4096))
}

// writerOnly and readerOnly hide methods by which io.Copy would go another way.
type (
	writerOnly struct{ io.Writer }
	readerOnly struct{ io.Reader }
)
